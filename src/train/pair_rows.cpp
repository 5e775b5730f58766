// Pairs of texts as rows of places.
#include <fmt/format.h>

#include <algorithm>

#include "toy/base/checksum.h"
#include "toy/base/counted.h"
#include "toy/data/pairs.h"
#include "train/contrastive.h"
#include "train/doubts.h"
#include "train/pooled_texts.h"

namespace toy {
namespace {

std::string checksum(std::span<const TextPair> pairs) {
  std::string all;
  for (const TextPair& p : pairs)
    for (const std::string& text : {p.anchor, p.positive, p.negative.value_or("")}) all += text + '\0';
  return checksum_text(xxh64(all));
}

class PairDataset final : public Dataset {
 public:
  PairDataset(const DataOptions& o, const std::string& out, size_t memory, Teller& tell) : o_(o), tell_(tell) {
    check(!o.examples.empty(), "--data is missing: give a JSON Lines file of pairs (toy help embeddings.md)");
    check_limits(*o.pairs);
    training_ = read(o.examples, out, memory);
    if (!o.validation.empty()) {
      validating_ = read(o.validation, out, memory);
    } else {
      const auto kept = training_.size() - size_t(double(training_.size()) * o.validation_fraction);
      validating_.assign(training_.begin() + int64_t(kept), training_.end());
      training_.resize(kept);
    }
    check(training_.size() >= 2,
          "{}: {} to train on, and at least 2 are needed: the model learns to tell a pair from the others of a batch",
          name(), counted(int64_t(training_.size()), "pair"));
  }

  void tokenize(const Tokenizer& tokenizer, std::optional<int64_t>, uint64_t seed, int64_t) override {
    for (const TextPair& p : training_) rows_.push_back(row_of(p, tokenizer));
    for (const TextPair& p : validating_) validation_rows_.push_back(row_of(p, tokenizer));
    tokens_ = places_of_texts(validation_rows_, places_of_texts(rows_, 1));
    sampler_ = rows_of_texts(rows_, tokens_, seed, {});
    const auto n = int64_t(validation_rows_.size());
    if (n == 0) return;
    const std::string& name = o_.validation.empty() ? o_.examples[0] : o_.validation[0];
    validation_.push_back({nullptr, name, 1, {}, validation_of_texts(validation_rows_, tokens_, {}), n, double(n)});
  }
  nlohmann::ordered_json config() const override {
    return {{"pairs", {{"path", name()}, {"rows", training_.size()}, {"xxh64", checksum(training_)}}},
            {"validation", {{"rows", validating_.size()}, {"xxh64", checksum(validating_)}}}};
  }
  const Rows& rows() const override { return *sampler_; }
  std::string name() const override { return fmt::format("{}", fmt::join(o_.examples, ", ")); }
  int64_t training_tokens() const override { return tokens_of(rows_); }
  int64_t validation_tokens() const override { return tokens_of(validation_rows_); }
  void warn_of_epochs(int64_t rows) const override {
    const std::string doubt = doubt_of_epochs(name(), double(rows), int64_t(rows_.size()));
    if (!doubt.empty()) tell_.warn(doubt);
  }
  void tell_sources(std::optional<int64_t> rows) const override {
    if (!rows) tell_of_cut_texts(tell_, name(), cut_, o_.pairs->text_tokens);
  }

 private:
  std::vector<TextPair> read(const std::vector<std::string>& paths, const std::string& out, size_t memory) const {
    const TextSource source = text_source(o_, paths, out, memory, "reading pairs", tell_);
    return read_pairs(source.files.files, source.reading);
  }
  RowOfTexts row_of(const TextPair& p, const Tokenizer& tokenizer) {
    RowOfTexts row;
    const auto add = [&](const std::string& prefix, const std::string& own) {
      cut_ += row.add(tokenizer, prefix, own, o_.pairs->text_tokens);
    };
    add(o_.pairs->anchor_prefix, p.anchor);
    add(o_.pairs->passage_prefix, p.positive);
    if (p.negative) add(o_.pairs->passage_prefix, *p.negative);
    return row;
  }

  const DataOptions& o_;
  Teller& tell_;
  std::vector<TextPair> training_, validating_;
  std::vector<RowOfTexts> rows_, validation_rows_;
  std::unique_ptr<Rows> sampler_;
  int64_t cut_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> make_pair_dataset(const DataOptions& options, const std::string& out, size_t memory,
                                           Teller& tell) {
  return std::make_unique<PairDataset>(options, out, memory, tell);
}

}  // namespace toy
