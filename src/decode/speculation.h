// Where proposals of speculative decoding come from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toy/decode/decoder.h"
#include "toy/decode/sampler.h"
#include "toy/decode/speculation.h"

namespace toy {

/// Up to `most` tokens that may continue a text: what followed the longest of its ends (2 tokens or more) that occurred
/// before, at its latest occurrence. Where that place is near the end, the tokens in between repeat.
std::vector<int32_t> continue_by_ngrams(std::span<const int32_t> text, size_t most);

/// What is proposed for one text.
struct Proposal {
  size_t sequence = 0;               ///< of the draft
  std::span<const int32_t> history;  ///< prompt and text
  const Sampler* sampler = nullptr;  ///< of the text
  uint64_t step = 0;                 ///< the sampler's next draw
  size_t most = 0;                   ///< tokens that are wanted
  std::vector<int32_t> tokens = {};
};

/// A small model that writes a few tokens of each text. It draws them with a copy of the text's sampler: where both
/// models agree, the same random numbers give the same tokens.
class DraftModel {
 public:
  /// For up to `texts` texts of a model with `vocab` tokens. Throws Error{bad_input} where the decoder has fewer
  /// sequences.
  DraftModel(Decoder& decoder, size_t texts, int64_t vocab);
  /// Fills `tokens`. A text whose history is longer than a call, is read over several of them, without proposals so
  /// far. None either where context or cache of the draft are full.
  void propose(std::span<Proposal> proposals);
  /// Tokens at the end of a text that a sequence does not hold.
  size_t unread(size_t sequence, std::span<const int32_t> history) const;

 private:
  struct Sequence {
    std::vector<int32_t> held;  // tokens
    RecurrentStates before;     // at the end of the text so far
  };
  void go_back(size_t sequence, std::span<const int32_t> history);
  void forget(size_t sequence);
  std::vector<Proposal*> read(std::span<Proposal> proposals);
  bool has_room(const std::vector<int64_t>& more) const;
  void decode(const std::vector<DecodeRow>& rows);

  std::span<const float> logits(size_t i);

  Decoder& decoder_;
  std::vector<Sequence> sequences_;
  std::vector<float> padded_;  // logits, where the vocabularies are padded to different sizes
};

}  // namespace toy
