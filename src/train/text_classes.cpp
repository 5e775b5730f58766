#include "train/text_classes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "toy/base/checksum.h"
#include "toy/base/utf8.h"
#include "toy/models/vision.h"
#include "train/pooled_texts.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

// Takes the last ones of each class out: files are often sorted by class.
std::vector<LabelledText> hold_out(std::vector<LabelledText>& texts, double fraction) {
  std::map<std::string, int64_t> left;
  for (const LabelledText& t : texts) ++left[t.label];
  for (auto& [label, count] : left) count = int64_t(double(count) * fraction);
  std::vector<LabelledText> kept, out;
  for (auto t = texts.rbegin(); t != texts.rend(); ++t) (left[t->label]-- > 0 ? out : kept).push_back(std::move(*t));
  std::ranges::reverse(kept), std::ranges::reverse(out);
  texts = std::move(kept);
  return out;
}

std::string checksum(std::span<const LabelledText> texts) {
  Xxh64 sum;
  for (const LabelledText& t : texts)
    for (const std::string* text : {&t.text, &t.label})
      sum.update(std::as_bytes(std::span(text->c_str(), text->size() + 1)));
  return checksum_text(sum.digest());
}

class LabelledDataset final : public Dataset {
 public:
  LabelledDataset(const DataOptions& o, const std::string& out, size_t memory, Teller& tell) : o_(o), tell_(tell) {
    check(!o.examples.empty(),
          "--data is missing: give a JSON Lines file of texts and labels (toy help classifiers.md)");
    check_limits(*o.labels);
    training_ = read(o.examples, out, memory);
    validating_ = o.validation.empty() ? hold_out(training_, o.validation_fraction) : read(o.validation, out, memory);
    classes_ = classes_of(training_);
    const std::vector<std::string>& known = o.labels->classes;
    const auto is_known = [&](const std::string& c) { return std::ranges::find(known, c) != known.end(); };
    if (std::ranges::all_of(classes_, is_known)) classes_ = known;
    check(classes_.size() >= 2, "{}: all texts have the label '{}'; a classifier needs at least two classes", name(),
          classes_.empty() ? "" : classes_[0]);
    for (const LabelledText& t : validating_)
      check(std::ranges::find(classes_, t.label) != classes_.end(),
            "{}: the label '{}' is not in the training data, which have {}", t.where, t.label,
            listed_classes(classes_));
  }

  std::vector<std::string> classes() const override { return classes_; }
  void tokenize(const Tokenizer& tokenizer, std::optional<int64_t>, uint64_t seed, int64_t) override {
    for (const LabelledText& t : training_) rows_.push_back(row_of(t, tokenizer));
    for (const LabelledText& t : validating_) validation_rows_.push_back(row_of(t, tokenizer));
    tokens_ = places_of_texts(validation_rows_, places_of_texts(rows_, 1));
    const Shares shares{.classes = int64_t(classes_.size()), .smoothing = o_.labels->label_smoothing};
    sampler_ = rows_of_texts(rows_, tokens_, seed, shares);
    const auto n = int64_t(validation_rows_.size());
    if (n == 0) return;
    const std::string& name = o_.validation.empty() ? o_.examples[0] : o_.validation[0];
    auto validation = validation_of_texts(validation_rows_, tokens_, {.classes = shares.classes});
    validation_.push_back({nullptr, name, 1, {}, std::move(validation), n, double(n)});
  }
  ordered_json config() const override {
    return {{"labelled",
             {{"path", name()}, {"rows", training_.size()}, {"classes", classes_}, {"xxh64", checksum(training_)}}},
            {"validation", {{"rows", validating_.size()}, {"xxh64", checksum(validating_)}}}};
  }
  const Rows& rows() const override { return *sampler_; }
  std::string name() const override { return fmt::format("{}", fmt::join(o_.examples, ", ")); }
  int64_t training_tokens() const override { return tokens_of(rows_); }
  int64_t validation_tokens() const override { return tokens_of(validation_rows_); }
  std::string validation_name(int64_t row) const override {
    constexpr size_t kMost = 80;
    return first_bytes(validating_.at(size_t(row)).text, kMost);
  }
  void tell_sources(std::optional<int64_t> rows) const override {
    if (rows) return;
    tell_.note(fmt::format("{}: {} texts of {} classes: {}", name(), training_.size(), classes_.size(),
                           listed_classes(classes_)));
    tell_of_cut_texts(tell_, name(), cut_, o_.labels->text_tokens);
  }

 private:
  std::vector<LabelledText> read(const std::vector<std::string>& paths, const std::string& out, size_t memory) const {
    const TextSource source = text_source(o_, paths, out, memory, "reading texts", tell_);
    return read_labelled(source.files.files, source.reading);
  }
  RowOfTexts row_of(const LabelledText& t, const Tokenizer& tokenizer) {
    RowOfTexts row;
    cut_ += row.add(tokenizer, "", t.text, o_.labels->text_tokens);
    row.target = int32_t(std::ranges::find(classes_, t.label) - classes_.begin());
    return row;
  }

  const DataOptions& o_;
  Teller& tell_;
  std::vector<LabelledText> training_, validating_;
  std::vector<std::string> classes_;
  std::vector<RowOfTexts> rows_, validation_rows_;
  std::unique_ptr<Rows> sampler_;
  int64_t cut_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> make_labelled_dataset(const DataOptions& options, const std::string& out, size_t memory,
                                               Teller& tell) {
  return std::make_unique<LabelledDataset>(options, out, memory, tell);
}

TextClassGraph build_text_classes(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t rows,
                                  int64_t tokens, Value random, double dropout) {
  const PooledTexts p = build_pooled_texts(g, spec, dtype_of, rows, tokens, rows, random, dropout);
  const Value shares = g.input("shares", {DType::f32, {rows, spec.score.labels}, 0});
  const Value weight = g.input("weight", {DType::f32, {rows * tokens}, 0});
  const Value logits = p.model.head.scores(p.vectors, p.context);
  const Value of_rows = slice(reshape(weight, {rows, tokens}), 1, 0, 1);
  return {sum_all(of_rows * soft_cross_entropy(logits, shares)), logits};
}

void feed_text_classes(Session& session, const Windows& batch, int64_t tokens, Pooling pooling,
                       std::span<const float> weights) {
  std::vector<const Answer*> texts(batch.inputs.size() / size_t(tokens));
  for (const Answer& a : batch.answers) texts[size_t(a.first / tokens)] = &a;
  feed_pooled_texts(session, batch, texts, pooling);
  session.set("shares", batch.shares);
  session.set("weight", weights);
}

}  // namespace toy
