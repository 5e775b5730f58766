// Documents read in windows by one decoder, and means over their tokens.
#pragma once

#include <memory>
#include <vector>

#include "toy/data/corpus.h"
#include "toy/eval/score.h"

namespace toy {

/// A token that is predicted, and where it is: `index` of the document's tokens.
struct PredictedToken {
  size_t document = 0;
  int64_t index = 0;
  int32_t id = 0;
};

/// Cuts documents into windows, windows into rows, and fills each call of the decoder with rows of consecutive windows.
/// Which tokens a call predicts depends on the text, the window and the stride only, not on the model.
class TextReader {
 public:
  /// Throws as score_text() does. `device`, `model` and `text` must outlive it.
  TextReader(Device& device, const Model& model, const EvalText& text, const ScoreOptions& options);
  /// One call of the decoder. False where the text has been read.
  bool step();
  /// @{
  /// Tokens of all windows: that have been read, and all.
  int64_t read() const { return read_; }
  int64_t all() const { return all_; }
  /// @}
  /// What the last call predicts, in the order of the text.
  const std::vector<PredictedToken>& predicted() const { return predicted_; }
  /// Logits [V] for the i-th of them.
  std::span<const float> logits(size_t i) const { return decoder_->logits(i); }

 private:
  struct Window {
    size_t document;
    EvalWindow at;
  };
  void check_ids(int64_t vocab) const;
  int64_t length(size_t document) const;
  int32_t token(size_t document, int64_t i, int64_t begin) const;
  void collect();

  const EvalText& text_;
  std::vector<Window> windows_;
  std::unique_ptr<Decoder> decoder_;
  size_t at_ = 0;    // window
  int64_t fed_ = 0;  // of its tokens
  int64_t read_ = 0, all_ = 0;
  std::vector<DecodeRow> rows_;
  std::vector<PredictedToken> predicted_;
};

/// The mean of a value per token, and its standard error: tokens of one block depend on each other, blocks are taken to
/// be independent (TextScore::standard_error). Blocks are the documents, or kScoreBlock consecutive tokens of the only
/// one.
class BlockMean {
 public:
  explicit BlockMean(const EvalText& text) : by_document_(text.documents.size() > 1) {}
  void add(size_t document, double value);
  double sum() const;
  int64_t tokens() const;
  double mean() const { return sum() / double(tokens()); }
  double standard_error() const;
  int64_t blocks() const { return int64_t(blocks_.size()); }
  bool by_document() const { return by_document_; }

 private:
  struct Block {
    double sum = 0;
    int64_t tokens = 0;
  };
  bool by_document_;
  size_t last_ = 0;  // document
  std::vector<Block> blocks_;
};

}  // namespace toy
