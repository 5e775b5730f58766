#include "eval/rows.h"

#include <algorithm>

#include "toy/base/error.h"

namespace toy {
namespace {

constexpr int64_t kRows = 256;        // computed together
constexpr int64_t kPositions = 8192;  // of all sequences that are read side by side

}  // namespace

EvalRows::EvalRows(const EvalText& text, const ScoreOptions& o, const ModelSpec& spec) : text_(text) {
  check(o.context >= 0, "ctx is {}, expected at least 1 (0: the model's own)", o.context);
  const int64_t context = o.context > 0 ? o.context : spec.context;
  const int64_t stride = o.stride == 0 ? std::max<int64_t>(1, context / 2) : o.stride;
  check(stride >= 1 && stride <= context, "stride is {}, expected 1 to {}, the window", o.stride, context);
  check_ids(spec.vocab);
  for (size_t d = 0; d < text.documents.size(); ++d)
    for (const EvalWindow& w : eval_windows(length(d), context, stride)) {
      windows_.push_back({d, w});
      longest_ = std::max(longest_, w.tokens);
    }
  check(!windows_.empty(), "eval: there is nothing to score: the text has fewer than 2 tokens");
  sequences_ = std::clamp<int64_t>(kPositions / longest_, 1, std::min<int64_t>(16, int64_t(windows_.size())));
}

DecoderOptions EvalRows::decoder_options(const ScoreOptions& options) const {
  return {.sequences = int(sequences_),
          .context = longest_,
          .max_rows = kRows,
          .check_finite = options.check_finite,
          .kv = options.kv,
          .exact = options.exact,
          .repack = options.repack};
}

bool EvalRows::next(std::span<Decoder* const> decoders) {
  rows_.clear();
  targets_.clear();
  for (int64_t used = 0; at_ < windows_.size() && used < sequences_; ++used) {
    const auto& [d, w] = windows_[at_];
    const int sequence = int(int64_t(at_) % sequences_);
    if (fed_ == 0)
      for (Decoder* decoder : decoders) decoder->state().reset(sequence);
    for (; fed_ < w.tokens && int64_t(rows_.size()) < kRows; ++fed_) {
      const bool wanted = fed_ >= w.skip;
      rows_.push_back({sequence, token(d, w.begin + fed_, w.begin), wanted});
      if (!wanted) continue;
      const int64_t next = w.begin + fed_ + 1 - (text_.bos ? 1 : 0);
      targets_.push_back({d, next, text_.documents[d][size_t(next)]});
    }
    if (fed_ < w.tokens) break;
    fed_ = 0;
    ++at_;
  }
  return !rows_.empty();
}

// The decoder looks at what it reads; a document's last token is only predicted.
void EvalRows::check_ids(int64_t vocab) const {
  const auto known = [&](int32_t id) { return id >= 0 && id < vocab; };
  check(!text_.bos || known(*text_.bos), "eval: the beginning-of-sequence token is {}, the vocabulary is 0 to {}",
        text_.bos.value_or(0), vocab - 1);
  for (size_t d = 0; d < text_.documents.size(); ++d)
    for (size_t i = 0; i < text_.documents[d].size(); ++i)
      check(known(text_.documents[d][i]), "eval: token {} of document {} is {}, the vocabulary is 0 to {}", i, d,
            text_.documents[d][i], vocab - 1);
}

// Token i of a document with the beginning-of-sequence token in front, in a window that begins at `begin`.
int32_t EvalRows::token(size_t d, int64_t i, int64_t begin) const {
  if (text_.bos && i == begin) return *text_.bos;
  return text_.documents[d][size_t(i - (text_.bos ? 1 : 0))];
}

}  // namespace toy
