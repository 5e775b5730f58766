// Speculative decoding: tokens are proposed cheaply, and one call of the model verifies several of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace toy {

class Decoder;
struct Model;
struct ModelSpec;

/// What a model does for a token, about.
struct TokenWork {
  double bytes = 0;    ///< of weights, as they are stored
  double weights = 0;  ///< that are multiplied
};

/// Who proposes the next tokens of a text. Texts do not depend on it, to the bit.
struct SpeculationOptions {
  bool ngrams = false;  ///< what followed the latest tokens where they occurred before, in prompt or text
  /// A small model with the same vocabulary, instead of `ngrams`. It needs a sequence for each of the scheduler's, and
  /// best DecoderOptions::take_back of `most`. Only the scheduler may use it.
  Decoder* draft = nullptr;
  double draft_cost = 0.1;   ///< the time of a call of the draft, in calls of the model
  double draft_read = 0.01;  ///< the time in which the draft reads a token of a prompt, in the same unit
  double rows_per_read = 5;  ///< rows that a call computes in the time in which it reads the weights
  int most = 16;  ///< tokens proposed at once for a text; fewer where they are often wrong, or texts are many
  bool active() const { return ngrams || draft != nullptr; }
  /// Sets the costs. The fewer bytes a weight has, the sooner arithmetic takes longer than reading. Of n-grams, the
  /// draft's cost has no meaning.
  void estimate(const TokenWork& model, const TokenWork& drafts = {});
  /// Does a draft of this cost ever propose? One that pays only where nearly all of its tokens are right is not tried.
  bool draft_proposes() const;
  /// May the draft read so many tokens of a text, of which so many are written and so many are still to come? Not
  /// before that took the text as long as it takes the draft: most of what is read for a short answer is lost.
  bool reading_pays(size_t unread, size_t written, size_t to_come) const;
  /// Throws Error{bad_input} unless one of both proposes, `most` is at least 1 and the costs are numbers above 0.
  void validate() const;
};

/// Throws Error{bad_input} unless two models have as many tokens, as far as they must: what can be told without reading
/// them.
void require_as_many_tokens(const ModelSpec& model, const ModelSpec& draft);
/// Throws Error{bad_input} unless both models have the same tokens. Up to 128 may be missing at the end of one of both:
/// vocabularies are padded to different sizes.
void require_same_tokens(const Model& model, const Model& draft);

/// How proposals have fared.
struct SpeculationCounts {
  int64_t proposed = 0, accepted = 0;  ///< tokens
};

/// How likely a proposed token of one text is accepted, as learned from the ones before.
class AcceptanceRate {
 public:
  /// So many were proposed, of which the first `accepted` were right. None proposed: it returns to where it began.
  void learn(size_t proposed, size_t accepted);
  /// How many tokens to propose for each of `texts` that are written together. One more pays if the chance that it is
  /// accepted exceeds the time it takes, in the time that a token takes now: a row is cheap while a call mostly reads
  /// weights, and no longer where the rows are many.
  size_t worth(const SpeculationOptions& options, size_t texts) const;

 private:
  double rate_ = 0.7;
};

}  // namespace toy
