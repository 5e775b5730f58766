#include "toy/data/stories.h"

#include "data/story_chooser.h"
#include "data/story_teller.h"
#include "toy/base/error.h"

namespace toy {

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
