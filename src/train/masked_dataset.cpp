#include "train/masked_dataset.h"

#include <algorithm>

#include "toy/base/error.h"
#include "train/feed.h"

namespace toy {
namespace {

class MaskedRows final : public Rows {
 public:
  MaskedRows(const Rows& rows, const MaskTokens& tokens, const MaskOptions& options, uint64_t seed, int64_t places)
      : rows_(rows), tokens_(tokens), options_(options), seed_(seed), places_(places) {}
  int64_t rows() const override { return rows_.rows(); }
  Windows windows(int64_t first, int64_t count) const override {
    const Windows plain = rows_.windows(first, count);
    const auto n = plain.inputs.size() / size_t(count);
    Windows out;
    for (int64_t row = 0; row < count; ++row)
      append_masked(std::span(plain.inputs).subspan(size_t(row) * n, n), tokens_, options_, seed_, first + row, places_,
                    out);
    return out;
  }

 private:
  const Rows& rows_;
  const MaskTokens tokens_;
  const MaskOptions options_;
  uint64_t seed_;
  int64_t places_;
};

// Windows side by side.
class MaskedValidation final : public ValidationRows {
 public:
  MaskedValidation(TokenView ids, const MaskTokens& tokens, const MaskOptions& options, int64_t places)
      : ids_(ids), tokens_(tokens), options_(options), places_(places), own_(places - tokens.around()) {}
  int64_t rows_for(int64_t most) const override {
    const int64_t all = (int64_t(ids_.size()) + own_ - 1) / own_;
    if (most == 0) return all;
    const int64_t hidden = std::max<int64_t>(1, std::llround(options_.fraction * double(own_)));
    return std::min(all, (most + hidden - 1) / hidden);
  }
  Windows validation(int64_t first, int64_t count, int64_t most) const override {
    Windows out;
    for (int64_t row = first; row < std::min(first + count, rows_for(most)); ++row) {
      const int64_t begin = row * own_, end = std::min(begin + own_, int64_t(ids_.size()));
      std::vector<int32_t> ids;
      ids_.copy(begin, end - begin, ids);
      append_masked(ids, tokens_, options_, kSeed, row, places_, out);
    }
    return out;
  }
  int64_t counted() const {
    int64_t n = 0;
    for (int64_t row = 0; row < rows_for(0); ++row) n += counted_targets(validation(row, 1, 0));
    return n;
  }

 private:
  static constexpr uint64_t kSeed = 1;
  TokenView ids_;
  const MaskTokens tokens_;
  const MaskOptions options_;
  int64_t places_, own_;
};

class MaskedDataset final : public Dataset {
 public:
  MaskedDataset(const MaskOptions& options, std::unique_ptr<Dataset> texts)
      : options_(options), texts_(std::move(texts)) {}
  std::vector<TextFile> files() const override { return texts_->files(); }
  std::string tokenizer_text() const override { return texts_->tokenizer_text(); }
  std::optional<ControlTokens> control_tokens() const override {
    return ControlTokens{.names = {"[CLS]", "[SEP]", "[MASK]"}};
  }
  void tokenize(const Tokenizer& tokenizer, std::optional<int64_t> tokens, uint64_t seed, int64_t most) override {
    const MaskTokens marks = mask_tokens(tokenizer);
    check(tokens && *tokens > marks.around(), "tokens is {}; a row has {} around its text, so use more",
          tokens.value_or(0), marks.around());
    tokens_ = *tokens;
    texts_->tokenize(tokenizer, tokens_ - marks.around(), seed, most);
    rows_ = std::make_unique<MaskedRows>(texts_->rows(), marks, options_, seed, tokens_);
    for (const ValidationText& text : texts_->validation()) {
      auto rows = std::make_unique<MaskedValidation>(text.ids, marks, options_, tokens_);
      const int64_t counted = rows->counted();
      const double bytes = text.bytes * double(counted) / double(text.ids.size());
      validation_.push_back({text.source, text.name, text.share, text.ids, std::move(rows), counted, bytes});
    }
  }
  nlohmann::ordered_json config() const override {
    nlohmann::ordered_json j = texts_->config();
    j["mask_fraction"] = options_.fraction;
    return j;
  }
  const Rows& rows() const override { return *rows_; }
  std::string name() const override { return texts_->name(); }
  void warn_of_epochs(int64_t rows) const override { texts_->warn_of_epochs(rows); }
  int64_t training_tokens() const override { return texts_->training_tokens(); }
  int64_t validation_tokens() const override { return texts_->validation_tokens(); }
  std::string change() override { return texts_->change(); }
  void tell_sources(std::optional<int64_t> rows) const override { texts_->tell_sources(rows); }

 private:
  const MaskOptions options_;
  std::unique_ptr<Dataset> texts_;
  std::unique_ptr<Rows> rows_;
};

}  // namespace

void settle_masks(RecipeOptions& o, const MaskOptions& masks) {
  check(o.data.examples.empty() && !o.data.pack && o.data.weights.empty(),
        "a model that fills in masks learns from running texts; use --corpus, without --data, --pack and "
        "--corpus-weight");
  check(o.sample_tokens == 0, "sample: an encoder writes no texts; leave it out");
  o.data.masks = masks;
}

std::unique_ptr<Dataset> make_masked_dataset(const MaskOptions& options, std::unique_ptr<Dataset> texts) {
  return std::make_unique<MaskedDataset>(options, std::move(texts));
}

}  // namespace toy
