#include "toy/eval/score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/threads.h"
#include "toy/data/corpus.h"

namespace toy {
namespace {

constexpr int64_t kRows = 256;        // computed together
constexpr int64_t kPositions = 8192;  // of all sequences that are read side by side

// A window of a document, in its tokens with the beginning-of-sequence token in front.
struct Window {
  size_t document;
  EvalWindow at;
};

// Sums over blocks of tokens.
class Blocks {
 public:
  explicit Blocks(bool by_document) : by_document_(by_document) {}

  void add(size_t document, double nats) {
    const bool next = sums_.empty() || (by_document_ ? document != last_ : sums_.back().tokens == kScoreBlock);
    if (next) sums_.emplace_back();
    last_ = document;
    sums_.back().nats += nats;
    ++sums_.back().tokens;
  }

  TextScore result() const {
    TextScore r;
    for (const Sum& s : sums_) r.nats += s.nats, r.tokens += s.tokens;
    r.blocks = int64_t(sums_.size());
    r.blocks_are_documents = by_document_;
    double squares = 0;
    for (const Sum& s : sums_) squares += std::pow(s.nats - r.nats_per_token() * double(s.tokens), 2);
    const double b = double(r.blocks);
    r.standard_error =
        r.blocks < 2 ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(b / (b - 1) * squares) / double(r.tokens);
    return r;
  }

 private:
  struct Sum {
    double nats = 0;
    int64_t tokens = 0;
  };
  bool by_document_;
  size_t last_ = 0;
  std::vector<Sum> sums_;
};

// Cuts documents into windows, windows into rows, and fills each call of the decoder with rows of consecutive windows.
class Scorer {
 public:
  Scorer(Device& device, const Model& model, const EvalText& text, const ScoreOptions& o,
         const std::function<void(const TokenScore&)>& on_token)
      : device_(device), text_(text), options_(o), on_token_(on_token), blocks_(text.documents.size() > 1) {
    check(o.context >= 0, "ctx is {}, expected at least 1 (0: the model's own)", o.context);
    check(o.top_logprobs >= 0, "top-logprobs is {}, expected 0 or more", o.top_logprobs);
    const int64_t context = o.context > 0 ? o.context : model.spec.context;
    const int64_t stride = o.stride == 0 ? std::max<int64_t>(1, context / 2) : o.stride;
    check(stride >= 1 && stride <= context, "stride is {}, expected 1 to {}, the window", o.stride, context);
    check_ids(model.spec.vocab);
    int64_t longest = 0;
    for (size_t d = 0; d < text.documents.size(); ++d)
      for (const EvalWindow& w : eval_windows(length(d), context, stride)) {
        windows_.push_back({d, w});
        longest = std::max(longest, w.tokens);
      }
    check(!windows_.empty(), "eval: there is nothing to score: the text has fewer than 2 tokens");
    const int64_t sequences =
        std::clamp<int64_t>(kPositions / longest, 1, std::min<int64_t>(16, int64_t(windows_.size())));
    decoder_ = std::make_unique<Decoder>(device, model,
                                         DecoderOptions{.sequences = int(sequences),
                                                        .context = longest,
                                                        .max_rows = kRows,
                                                        .check_finite = options_.check_finite,
                                                        .kv = options_.kv,
                                                        .exact = options_.exact,
                                                        .repack = options_.repack});
  }

  TextScore go() {
    while (at_ < windows_.size()) {
      collect();
      decoder_->decode(rows_);
      score_rows();
    }
    TextScore result = blocks_.result();
    result.bytes = text_.bytes;
    return result;
  }

 private:
  // The decoder looks at what it reads; a document's last token is only predicted.
  void check_ids(int64_t vocab) const {
    const auto known = [&](int32_t id) { return id >= 0 && id < vocab; };
    check(!text_.bos || known(*text_.bos), "eval: the beginning-of-sequence token is {}, the vocabulary is 0 to {}",
          text_.bos.value_or(0), vocab - 1);
    for (size_t d = 0; d < text_.documents.size(); ++d)
      for (size_t i = 0; i < text_.documents[d].size(); ++i)
        check(known(text_.documents[d][i]), "eval: token {} of document {} is {}, the vocabulary is 0 to {}", i, d,
              text_.documents[d][i], vocab - 1);
  }

  int64_t length(size_t d) const { return int64_t(text_.documents[d].size()) + (text_.bos ? 1 : 0); }
  // Token i of a document with the beginning-of-sequence token in front, in a window that begins at `begin`.
  int32_t token(size_t d, int64_t i, int64_t begin) const {
    if (text_.bos && i == begin) return *text_.bos;
    return text_.documents[d][size_t(i - (text_.bos ? 1 : 0))];
  }

  void collect() {
    rows_.clear();
    scores_.clear();
    for (int used = 0; at_ < windows_.size() && used < decoder_->state().sequences(); ++used) {
      const auto& [d, w] = windows_[at_];
      const int sequence = int(at_ % size_t(decoder_->state().sequences()));
      if (fed_ == 0) decoder_->state().reset(sequence);
      for (; fed_ < w.tokens && int64_t(rows_.size()) < kRows; ++fed_) {
        const bool wanted = fed_ >= w.skip;
        rows_.push_back({sequence, token(d, w.begin + fed_, w.begin), wanted});
        if (!wanted) continue;
        const int64_t next = w.begin + fed_ + 1 - (text_.bos ? 1 : 0);
        scores_.push_back({d, next, {text_.documents[d][size_t(next)], 0}, {}});
      }
      if (fed_ < w.tokens) return;
      fed_ = 0;
      ++at_;
    }
  }

  // Rows are independent, so that it does not matter which thread does which.
  void score_rows() {
    team_.run([&](int thread) {
      const Range mine = part(int64_t(scores_.size()), thread, team_.size());
      for (int64_t i = mine.begin; i < mine.end; ++i) {
        TokenScore& s = scores_[size_t(i)];
        const auto logits = decoder_->logits(size_t(i));
        s.token.logprob = log_softmax_at(logits, s.token.id);
        s.best = top_logprobs(logits, options_.top_logprobs);
      }
    });
    for (const TokenScore& s : scores_) {
      if (std::isnan(s.token.logprob))
        fail_internal("the model gives NaN after token {} of the text: its weights are broken", s.index);
      blocks_.add(s.document, -s.token.logprob);
      if (on_token_) on_token_(s);
    }
  }

  Device& device_;
  ThreadPool team_{device_.threads()};
  const EvalText& text_;
  const ScoreOptions& options_;
  const std::function<void(const TokenScore&)>& on_token_;
  Blocks blocks_;
  std::vector<Window> windows_;
  std::unique_ptr<Decoder> decoder_;
  size_t at_ = 0;    // window
  int64_t fed_ = 0;  // of its tokens
  std::vector<DecodeRow> rows_;
  std::vector<TokenScore> scores_;  // of the rows that want logits
};

}  // namespace

double TextScore::perplexity() const { return std::exp(nats_per_token()); }
double TextScore::bits_per_byte() const { return nats / (std::numbers::ln2 * double(bytes)); }

TextScore score_text(Device& device, const Model& model, const EvalText& text, const ScoreOptions& options,
                     const std::function<void(const TokenScore&)>& on_token) {
  return Scorer(device, model, text, options, on_token).go();
}

}  // namespace toy
