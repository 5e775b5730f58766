// Pairs of texts as rows of places.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/permute.h"
#include "toy/base/checksum.h"
#include "toy/base/memory.h"
#include "toy/data/pairs.h"
#include "train/contrastive.h"

namespace toy {
namespace {

// A row: ids of its texts, one after another, and where each begins and ends.
struct PairRow {
  struct Text {
    int64_t first, places, id;
  };
  std::vector<int32_t> ids;
  std::vector<Text> texts;
};

void append(const PairRow& row, int64_t tokens, Windows& out) {
  const auto first = int64_t(out.inputs.size());
  out.inputs.insert(out.inputs.end(), row.ids.begin(), row.ids.end());
  for (const PairRow::Text& t : row.texts) {
    out.answers.push_back({first + t.first, t.places, true, t.id});
    for (int64_t p = 0; p < t.places; ++p) {
      out.sequence.push_back(int32_t(first + t.first));
      out.position.push_back(int32_t(p));
    }
  }
  for (int64_t i = int64_t(row.ids.size()); i < tokens; ++i) {
    out.inputs.push_back(0), out.position.push_back(0);
    out.sequence.push_back(int32_t(-1 - first - i));
  }
  out.targets.push_back(0);  // the anchor counts, at its first place
  out.targets.resize(out.inputs.size(), -1);
}

class PairRows final : public Rows {
 public:
  PairRows(std::span<const PairRow> rows, int64_t tokens, uint64_t seed) : rows_(rows), tokens_(tokens), seed_(seed) {}
  int64_t rows() const override { return int64_t(rows_.size()); }
  Windows windows(int64_t first, int64_t count) const override {
    Windows out;
    for (int64_t row = first; row < first + count; ++row)
      append(rows_[size_t(permute(uint64_t(row % rows()), uint64_t(rows()), seed_, uint64_t(row / rows())))], tokens_,
             out);
    return out;
  }

 private:
  std::span<const PairRow> rows_;
  int64_t tokens_;
  uint64_t seed_;
};

class PairValidation final : public ValidationRows {
 public:
  PairValidation(std::span<const PairRow> rows, int64_t tokens) : rows_(rows), tokens_(tokens) {}
  int64_t rows_for(int64_t most) const override {
    const auto all = int64_t(rows_.size());
    return most > 0 ? std::min(most, all) : all;
  }
  Windows validation(int64_t first, int64_t count, int64_t most) const override {
    Windows out;
    for (int64_t i = first; i < std::min(first + count, rows_for(most)); ++i) append(rows_[size_t(i)], tokens_, out);
    return out;
  }

 private:
  std::span<const PairRow> rows_;
  int64_t tokens_;
};

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
    check(training_.size() >= 2, "{}: {} pairs to train on; the others of a batch are wrong answers, so give more",
          name(), training_.size());
  }

  void tokenize(const Tokenizer& tokenizer, std::optional<int64_t>, uint64_t seed, int64_t) override {
    constexpr int64_t kMultiple = 8;
    for (const TextPair& p : training_) rows_.push_back(row_of(p, tokenizer));
    for (const TextPair& p : validating_) validation_rows_.push_back(row_of(p, tokenizer));
    int64_t longest = 1;
    for (const auto* rows : {&rows_, &validation_rows_})
      for (const PairRow& row : *rows) longest = std::max(longest, int64_t(row.ids.size()));
    tokens_ = (longest + kMultiple - 1) / kMultiple * kMultiple;
    sampler_ = std::make_unique<PairRows>(rows_, tokens_, seed);
    const auto n = int64_t(validation_rows_.size());
    if (n == 0) return;
    const std::string& name = o_.validation.empty() ? o_.examples[0] : o_.validation[0];
    validation_.push_back(
        {nullptr, name, 1, {}, std::make_unique<PairValidation>(validation_rows_, tokens_), n, double(n)});
  }
  nlohmann::ordered_json config() const override {
    return {{"pairs", {{"path", name()}, {"rows", training_.size()}, {"xxh64", checksum(training_)}}},
            {"validation", {{"rows", validating_.size()}, {"xxh64", checksum(validating_)}}}};
  }
  const Rows& rows() const override { return *sampler_; }
  std::string name() const override { return fmt::format("{}", fmt::join(o_.examples, ", ")); }
  int64_t training_tokens() const override { return count(rows_); }
  int64_t validation_tokens() const override { return count(validation_rows_); }
  void tell_sources(std::optional<int64_t> rows) const override {
    if (!rows && cut_ > 0)
      tell_.note(
          fmt::format("{}: {} texts are longer than {} tokens and are cut", name(), cut_, o_.pairs->text_tokens));
  }

 private:
  std::vector<TextPair> read(const std::vector<std::string>& paths, const std::string& out, size_t memory) const {
    std::vector<std::string> except;
    if (!out.empty()) except.push_back(std::filesystem::weakly_canonical(out).string());
    const TextFiles files = list_text_files(paths, except, BinaryFiles::refused, memory);
    require_below(memory, 5 * size_t(files.bytes()), "reading pairs", "fewer of them");
    return read_pairs(files.files, {.renamed = parse_field_map(o_.map),
                                    .skip_bad_rows = o_.bad_rows == DataOptions::skip,
                                    .warn = [this](const std::string& text) { tell_.warn(text); }});
  }
  PairRow row_of(const TextPair& p, const Tokenizer& tokenizer) {
    PairRow row;
    const auto add = [&](const std::string& prefix, const std::string& own) {
      const std::string text = prefix + own;
      const std::vector<int32_t> all = encode_for_embedding(tokenizer, text, 0),
                                 ids = encode_for_embedding(tokenizer, text, o_.pairs->text_tokens);
      check(!ids.empty(), "{}: a text has no tokens: '{}'", name(), text);
      cut_ += all.size() > ids.size();
      row.texts.push_back({int64_t(row.ids.size()), int64_t(ids.size()), int64_t(xxh64(own) >> 1)});
      row.ids.insert(row.ids.end(), ids.begin(), ids.end());
    };
    add(o_.pairs->anchor_prefix, p.anchor);
    add(o_.pairs->passage_prefix, p.positive);
    if (p.negative) add(o_.pairs->passage_prefix, *p.negative);
    return row;
  }
  static int64_t count(const std::vector<PairRow>& rows) {
    int64_t tokens = 0;
    for (const PairRow& row : rows) tokens += int64_t(row.ids.size());
    return tokens;
  }

  const DataOptions& o_;
  Teller& tell_;
  std::vector<TextPair> training_, validating_;
  std::vector<PairRow> rows_, validation_rows_;
  std::unique_ptr<Rows> sampler_;
  int64_t cut_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> make_pair_dataset(const DataOptions& options, const std::string& out, size_t memory,
                                           Teller& tell) {
  return std::make_unique<PairDataset>(options, out, memory, tell);
}

}  // namespace toy
