// A text as the rows of a decoder's calls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toy/data/corpus.h"
#include "toy/eval/score.h"

namespace toy {

/// Cuts documents into windows, windows into rows, and fills each call with rows of consecutive windows.
class EvalRows {
 public:
  /// A token of the text that a row predicts.
  struct Target {
    size_t document;
    int64_t index;
    int32_t id;
  };

  /// `spec` says what a context of 0 means and which ids there are. Throws as score_text() does.
  EvalRows(const EvalText& text, const ScoreOptions& options, const ModelSpec& spec);

  /// What a decoder must hold for it.
  DecoderOptions decoder_options(const ScoreOptions& options) const;
  /// The rows of the next call; false at the end. Windows begin in sequences of these decoders that it clears.
  bool next(std::span<Decoder* const> decoders);
  const std::vector<DecodeRow>& rows() const { return rows_; }
  /// What the rows that want logits predict, in their order.
  const std::vector<Target>& targets() const { return targets_; }

 private:
  struct Window {
    size_t document;
    EvalWindow at;  // in its tokens with the beginning-of-sequence token in front
  };
  void check_ids(int64_t vocab) const;
  int64_t length(size_t d) const { return int64_t(text_.documents[d].size()) + (text_.bos ? 1 : 0); }
  int32_t token(size_t d, int64_t i, int64_t begin) const;

  const EvalText& text_;
  std::vector<Window> windows_;
  int64_t longest_ = 0, sequences_ = 1;
  size_t at_ = 0;    // window
  int64_t fed_ = 0;  // of its tokens
  std::vector<DecodeRow> rows_;
  std::vector<Target> targets_;
};

}  // namespace toy
