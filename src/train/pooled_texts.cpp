#include "train/pooled_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/permute.h"
#include "toy/base/checksum.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/data/examples.h"

namespace toy {

namespace {

void append(const RowOfTexts& row, int64_t tokens, Shares shares, Windows& out) {
  const auto first = int64_t(out.inputs.size());
  out.inputs.insert(out.inputs.end(), row.ids.begin(), row.ids.end());
  for (const RowOfTexts::Text& t : row.texts) {
    out.answers.push_back({first + t.first, t.places, true, t.id});
    for (int64_t p = 0; p < t.places; ++p) {
      out.sequence.push_back(int32_t(first + t.first));
      out.position.push_back(int32_t(p));
    }
  }
  for (auto i = int64_t(row.ids.size()); i < tokens; ++i) {
    out.inputs.push_back(0), out.position.push_back(0);
    out.sequence.push_back(int32_t(-1 - first - i));
  }
  out.targets.push_back(row.target);
  out.targets.resize(out.inputs.size(), -1);
  if (shares.classes == 0) return;
  out.shares.resize(out.shares.size() + size_t(shares.classes), float(shares.smoothing / double(shares.classes)));
  out.shares[out.shares.size() - size_t(shares.classes) + size_t(row.target)] += float(1 - shares.smoothing);
}

class ShuffledTexts final : public Rows {
 public:
  ShuffledTexts(std::span<const RowOfTexts> rows, int64_t tokens, uint64_t seed, Shares shares)
      : rows_(rows), tokens_(tokens), seed_(seed), shares_(shares) {}
  int64_t rows() const override { return int64_t(rows_.size()); }
  Windows windows(int64_t first, int64_t count) const override {
    Windows out;
    for (int64_t row = first; row < first + count; ++row)
      append(rows_[size_t(permute(uint64_t(row % rows()), uint64_t(rows()), seed_, uint64_t(row / rows())))], tokens_,
             shares_, out);
    return out;
  }

 private:
  std::span<const RowOfTexts> rows_;
  int64_t tokens_;
  uint64_t seed_;
  Shares shares_;
};

class TextsInOrder final : public ValidationRows {
 public:
  TextsInOrder(std::span<const RowOfTexts> rows, int64_t tokens, Shares shares)
      : rows_(rows), tokens_(tokens), shares_(shares) {}
  int64_t rows_for(int64_t most) const override {
    const auto all = int64_t(rows_.size());
    return most > 0 ? std::min(most, all) : all;
  }
  Windows validation(int64_t first, int64_t count, int64_t most) const override {
    Windows out;
    for (int64_t i = first; i < std::min(first + count, rows_for(most)); ++i)
      append(rows_[size_t(i)], tokens_, shares_, out);
    return out;
  }

 private:
  std::span<const RowOfTexts> rows_;
  int64_t tokens_;
  Shares shares_;
};

}  // namespace

bool RowOfTexts::add(const Tokenizer& tokenizer, const std::string& prefix, const std::string& own, int64_t most) {
  const std::string text = prefix + own;
  const int64_t around = int64_t(tokenizer.adds_bos()) + int64_t(tokenizer.adds_eos());
  check(most > around, "text-tokens is {}; {} are around each text, so use more", most, around);
  std::vector<int32_t> kept = encode_for_embedding(tokenizer, text, 0);
  const bool cut = int64_t(kept.size()) > most;
  if (cut) kept = encode_for_embedding(tokenizer, text, most);
  check(!kept.empty(), "a text has no tokens: '{}'", text);
  texts.push_back({int64_t(ids.size()), int64_t(kept.size()), int64_t(xxh64(own) >> 1)});
  ids.insert(ids.end(), kept.begin(), kept.end());
  return cut;
}

int64_t tokens_of(std::span<const RowOfTexts> rows) {
  int64_t tokens = 0;
  for (const RowOfTexts& row : rows) tokens += int64_t(row.ids.size());
  return tokens;
}

TextSource text_source(const DataOptions& o, const std::vector<std::string>& paths, const std::string& out,
                       size_t memory, std::string_view what, Teller& tell) {
  std::vector<std::string> except;
  if (!out.empty()) except.push_back(std::filesystem::weakly_canonical(out).string());
  TextFiles files = list_text_files(paths, except, BinaryFiles::refused, memory);
  require_below(memory, 5 * size_t(files.bytes()), std::string(what), "fewer of them");
  return {std::move(files),
          {.renamed = parse_field_map(o.map),
           .skip_bad_rows = o.bad_rows == DataOptions::skip,
           .warn = [&tell](const std::string& text) { tell.warn(text); }}};
}

void tell_of_cut_texts(Teller& tell, const std::string& name, int64_t cut, int64_t most) {
  if (cut > 0)
    tell.note(fmt::format("{}: {} longer than {} tokens and cut", name, counted(cut, "text is", "texts are"), most));
}

std::unique_ptr<Rows> rows_of_texts(std::span<const RowOfTexts> rows, int64_t tokens, uint64_t seed, Shares shares) {
  return std::make_unique<ShuffledTexts>(rows, tokens, seed, shares);
}

std::unique_ptr<ValidationRows> validation_of_texts(std::span<const RowOfTexts> rows, int64_t tokens, Shares shares) {
  return std::make_unique<TextsInOrder>(rows, tokens, shares);
}

int64_t places_of_texts(std::span<const RowOfTexts> rows, int64_t most_so_far) {
  constexpr int64_t kMultiple = 8;
  for (const RowOfTexts& row : rows) most_so_far = std::max(most_so_far, int64_t(row.ids.size()));
  return (most_so_far + kMultiple - 1) / kMultiple * kMultiple;
}

PooledTexts build_pooled_texts(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t rows,
                               int64_t tokens, int64_t vectors, Value random, double dropout) {
  const int64_t n = rows * tokens, positions = std::min(tokens, spec.context);
  const TensorType ids{DType::i32, {n}, 0};
  const Value inputs = g.input("tokens", ids, spec.vocab);
  const Value sequence = g.input("sequence", ids), position = g.input("position", ids, positions);
  const Value until = g.input("until", ids, positions + 1);
  const Value pool = g.input("pool", {DType::f32, {vectors, n}, 0});
  const nn::Context ctx{.batch = {.sequence = sequence, .position = position},
                        .dropout = {dropout > 0 ? random : Value{}, dropout},
                        .until = spec.causal ? Value{} : until};
  PooledTexts p{Transformer(spec, Weights(g, dtype_of), positions, random), ctx, {}};
  p.vectors = matmul(pool, p.model(inputs, ctx));
  return p;
}

void feed_pooled_texts(Session& session, const Windows& batch, std::span<const Answer* const> texts, Pooling pooling) {
  const size_t places = batch.inputs.size();
  std::vector<int32_t> until(places, 1);  // padding sees itself
  for (const Answer& a : batch.answers) std::fill_n(until.begin() + a.first, a.places, int32_t(a.places));
  std::vector<float> pool(texts.size() * places);
  for (size_t i = 0; i < texts.size(); ++i) {
    const Answer* a = texts[i];
    if (a == nullptr) continue;
    float* row = pool.data() + i * places;
    const int64_t last = a->first + a->places - 1;
    if (pooling == Pooling::mean)
      std::fill(row + a->first, row + last + 1, 1.0f / float(a->places));
    else
      row[pooling == Pooling::first ? a->first : last] = 1;
  }
  session.set("tokens", batch.inputs);
  session.set("sequence", batch.sequence);
  session.set("position", batch.position);
  session.set("until", until);
  session.set("pool", pool);
}

}  // namespace toy
