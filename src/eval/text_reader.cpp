#include "eval/text_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "toy/base/error.h"

namespace toy {
namespace {

constexpr int64_t kRows = 256;        // computed together
constexpr int64_t kPositions = 8192;  // of all sequences that are read side by side

}  // namespace

TextReader::TextReader(Device& device, const Model& model, const EvalText& text, const ScoreOptions& o) : text_(text) {
  check(o.context >= 0, "ctx is {}, expected at least 1 (0: the model's own)", o.context);
  const int64_t context = o.context > 0 ? o.context : model.spec.context;
  const int64_t stride = o.stride == 0 ? std::max<int64_t>(1, context / 2) : o.stride;
  check(stride >= 1 && stride <= context, "stride is {}, expected 1 to {}, the window", o.stride, context);
  check_ids(model.spec.vocab);
  int64_t longest = 0;
  for (size_t d = 0; d < text.documents.size(); ++d)
    for (const EvalWindow& w : eval_windows(length(d), context, stride)) {
      windows_.push_back({d, w});
      longest = std::max(longest, w.tokens);
      all_ += w.tokens;
    }
  check(!windows_.empty(), "eval: there is nothing to score: the text has fewer than 2 tokens");
  const int64_t sequences =
      std::clamp<int64_t>(kPositions / longest, 1, std::min<int64_t>(16, int64_t(windows_.size())));
  decoder_ = std::make_unique<Decoder>(device, model,
                                       DecoderOptions{.sequences = int(sequences),
                                                      .context = longest,
                                                      .max_rows = kRows,
                                                      .check_finite = o.check_finite,
                                                      .kv = o.kv,
                                                      .exact = o.exact,
                                                      .repack = o.repack});
}

bool TextReader::step() {
  if (at_ == windows_.size()) return false;
  collect();
  decoder_->decode(rows_);
  read_ += int64_t(rows_.size());
  return true;
}

// The decoder looks at what it reads; a document's last token is only predicted.
void TextReader::check_ids(int64_t vocab) const {
  const auto known = [&](int32_t id) { return id >= 0 && id < vocab; };
  check(!text_.bos || known(*text_.bos), "eval: the beginning-of-sequence token is {}, the vocabulary is 0 to {}",
        text_.bos.value_or(0), vocab - 1);
  for (size_t d = 0; d < text_.documents.size(); ++d)
    for (size_t i = 0; i < text_.documents[d].size(); ++i)
      check(known(text_.documents[d][i]), "eval: token {} of document {} is {}, the vocabulary is 0 to {}", i, d,
            text_.documents[d][i], vocab - 1);
}

int64_t TextReader::length(size_t d) const { return int64_t(text_.documents[d].size()) + (text_.bos ? 1 : 0); }

// Token i of a document with the beginning-of-sequence token in front, in a window that begins at `begin`.
int32_t TextReader::token(size_t d, int64_t i, int64_t begin) const {
  if (text_.bos && i == begin) return *text_.bos;
  return text_.documents[d][size_t(i - (text_.bos ? 1 : 0))];
}

void TextReader::collect() {
  rows_.clear();
  predicted_.clear();
  for (int used = 0; at_ < windows_.size() && used < decoder_->state().sequences(); ++used) {
    const auto& [d, w] = windows_[at_];
    const int sequence = int(at_ % size_t(decoder_->state().sequences()));
    if (fed_ == 0) decoder_->state().reset(sequence);
    for (; fed_ < w.tokens && int64_t(rows_.size()) < kRows; ++fed_) {
      const int64_t next = w.begin + fed_ + 1 - (text_.bos ? 1 : 0);
      const bool wanted = fed_ >= w.skip && text_.counts(d, next);
      rows_.push_back({sequence, token(d, w.begin + fed_, w.begin), wanted});
      if (!wanted) continue;
      predicted_.push_back({d, next, text_.documents[d][size_t(next)]});
    }
    if (fed_ < w.tokens) return;
    fed_ = 0;
    ++at_;
  }
}

void BlockMean::add(size_t document, double value) {
  const bool next = blocks_.empty() || (by_document_ ? document != last_ : blocks_.back().tokens == kScoreBlock);
  if (next) blocks_.emplace_back();
  last_ = document;
  blocks_.back().sum += value;
  ++blocks_.back().tokens;
}

double BlockMean::sum() const {
  double sum = 0;
  for (const Block& b : blocks_) sum += b.sum;
  return sum;
}

int64_t BlockMean::tokens() const {
  int64_t tokens = 0;
  for (const Block& b : blocks_) tokens += b.tokens;
  return tokens;
}

double BlockMean::standard_error() const {
  if (blocks_.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  const double m = mean(), n = double(blocks_.size());
  double squares = 0;
  for (const Block& b : blocks_) squares += std::pow(b.sum - m * double(b.tokens), 2);
  return std::sqrt(n / (n - 1) * squares) / double(tokens());
}

}  // namespace toy
