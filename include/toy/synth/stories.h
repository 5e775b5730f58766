// English stories from a stochastic grammar of our own, whose exact probability is known.
//
// A trained model can be no better, on average, than the grammar itself: -log p of a text under the grammar
// is the floor that its loss is compared with. The grammar is unambiguous (a text has one derivation), so
// that the floor can be had from the text alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace toy {

/// Which text is written.
struct StoryOptions {
  uint64_t seed = 0;
  int64_t bytes = 0;  ///< the text ends with the first story that reaches this length
};

/// Whole stories, each ended by an empty line. Story i depends on (seed, i) alone, so a longer text begins
/// with the shorter one. `nats`, if given, receives -log p of the text.
std::string write_stories(const StoryOptions& options, double* nats = nullptr);

/// What the grammar says of a text.
struct StoryScore {
  double nats = 0;  ///< -log p of the text, in nats
  int64_t stories = 0, bytes = 0;

  double nats_per_byte() const { return bytes > 0 ? nats / double(bytes) : 0; }
};

/// Parses whole stories and returns their -log p: the very sum that write_stories had. Throws
/// Error{bad_input} with the offset of the first byte that the grammar could not have written.
StoryScore score_stories(std::string_view text);

}  // namespace toy
