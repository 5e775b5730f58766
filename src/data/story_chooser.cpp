#include "data/story_chooser.h"

#include <algorithm>
#include <cmath>

#include "toy/base/error.h"

namespace toy {
namespace {

// Draws of one story lie in a range of counters of their own; a story makes some hundred choices.
constexpr uint64_t kDrawsPerStory = uint64_t(1) << 20;

// The start of a text as an error message shows it.
std::string excerpt(std::string_view text) {
  constexpr size_t kBytes = 24;
  std::string shown(text.substr(0, kBytes));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = ' ';
  }
  return text.size() > kBytes ? shown + "..." : shown;
}

[[noreturn]] void fail_at(std::string_view text, size_t offset, std::string_view expected) {
  if (offset >= text.size()) {
    fail("stories: the text ends at byte {} within a story, where \"{}\" could follow", text.size(), excerpt(expected));
  }
  fail("stories: byte {}: the grammar does not write \"{}\" here; it could go on with \"{}\"", offset,
       excerpt(text.substr(offset)), excerpt(expected));
}

}  // namespace

size_t Chooser::choose(std::span<const Option> options) {
  double total = 0;
  for (const Option& option : options) total += option.weight;
  if (!(total > 0)) fail_internal("stories: a choice point without a possible option");
  const size_t chosen = select(options, total);
  nats_ -= std::log(options[chosen].weight / total);
  return chosen;
}

DrawingChooser::DrawingChooser(uint64_t seed, uint64_t story, std::string& out)
    : random_(seed, "stories"), next_(story * kDrawsPerStory), out_(out) {}

size_t DrawingChooser::select(std::span<const Option> options, double total) {
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
  if (rest.substr(0, text.size()) == text) {
    offset_ += text.size();
    return;
  }
  const auto [mine, theirs] =
      std::mismatch(rest.begin(), rest.begin() + std::min(rest.size(), text.size()), text.begin());
  const size_t same = size_t(mine - rest.begin());
  fail_at(text_, offset_ + same, text.substr(same));
}

size_t MatchingChooser::select(std::span<const Option> options, double) {
  const std::string_view rest = text_.substr(offset_);
  size_t found = options.size();
  for (size_t i = 0; i < options.size(); ++i) {
    const Option& option = options[i];
    if (option.weight <= 0 || rest.substr(0, option.head.size()) != option.head) continue;
    if (found < options.size()) {
      fail_internal("stories: ambiguous grammar at byte {}: \"{}\" and \"{}\"", offset_, options[found].head,
                    option.head);
    }
    found = i;
  }
  if (found == options.size()) fail_at(text_, offset_, options.front().head);
  return found;
}

}  // namespace toy
