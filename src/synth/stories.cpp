#include "toy/synth/stories.h"

#include <algorithm>
#include <cmath>

#include "synth/teller.h"
#include "toy/base/error.h"

namespace toy {
namespace {

// Draws of one story lie in a range of counters of their own; a story makes some hundred choices.
constexpr uint64_t kDrawsPerStory = uint64_t(1) << 20;

// The start of a text as an error message shows it.
std::string excerpt(std::string_view text) {
  constexpr size_t kBytes = 24;
  std::string shown(text.substr(0, kBytes));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, ' ');
  return text.size() > kBytes ? shown + "..." : shown;
}

[[noreturn]] void fail_at(std::string_view text, size_t offset, std::string_view expected) {
  check(offset < text.size(), "stories: the text ends at byte {} within a story, where \"{}\" could follow",
        text.size(), excerpt(expected));
  fail("stories: byte {}: the grammar does not write \"{}\" here; it could go on with \"{}\"", offset,
       excerpt(text.substr(offset)), excerpt(expected));
}

}  // namespace

size_t Chooser::choose(std::span<const Weighted> options) {
  double total = 0;
  for (const Weighted& option : options) total += option.weight;
  if (!(total > 0)) fail_internal("stories: a choice point without a possible option");
  const size_t chosen = select(options, total);
  nats_ -= std::log(options[chosen].weight / total);
  return chosen;
}

DrawingChooser::DrawingChooser(uint64_t seed, uint64_t story, std::string& out)
    : random_(seed, "stories"), next_(story * kDrawsPerStory), out_(out) {}

size_t DrawingChooser::select(std::span<const Weighted> options, double total) {
  double left = random_.uniform(next_++) * total;
  size_t last = 0;  // where rounding leads past the end
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i].weight <= 0) continue;
    if (left < options[i].weight) return i;
    left -= options[i].weight;
    last = i;
  }
  return last;
}

void MatchingChooser::literal(std::string_view text) {
  const std::string_view rest = text_.substr(offset_);
  const auto differs = std::mismatch(rest.begin(), rest.end(), text.begin(), text.end()).second;
  const size_t same = size_t(differs - text.begin());
  offset_ += same;
  if (same < text.size()) fail_at(text_, offset_, text.substr(same));
}

size_t MatchingChooser::select(std::span<const Weighted> options, double) {
  const std::string_view rest = text_.substr(offset_);
  const auto fits = [&](const Weighted& o) { return o.weight > 0 && rest.starts_with(o.head); };
  const auto found = std::find_if(options.begin(), options.end(), fits);
  if (found == options.end()) fail_at(text_, offset_, options.front().head);
  if (const auto second = std::find_if(found + 1, options.end(), fits); second != options.end())
    fail_internal("stories: ambiguous grammar at byte {}: \"{}\" and \"{}\"", offset_, found->head, second->head);
  return size_t(found - options.begin());
}

std::string write_stories(const StoryOptions& options, double* nats) {
  check(options.bytes >= 0, "stories: {} bytes wanted; give 0 or more", options.bytes);
  std::string text;
  double total = 0;
  for (uint64_t story = 0; int64_t(text.size()) < options.bytes; ++story) {
    DrawingChooser chooser(options.seed, story, text);
    tell_story(chooser);
    total += chooser.nats();
  }
  if (nats != nullptr) *nats = total;
  return text;
}

StoryScore score_stories(std::string_view text) {
  StoryScore score;
  score.bytes = int64_t(text.size());
  // Summed story by story, as write_stories does: the two sums are equal to the last bit.
  for (size_t offset = 0; offset < text.size(); ++score.stories) {
    MatchingChooser chooser(text, offset);
    tell_story(chooser);
    score.nats += chooser.nats();
    offset = chooser.offset();
  }
  return score;
}

}  // namespace toy
