#include "toy/decode/pooling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "toy/base/error.h"
#include "toy/models/embedding_rule.h"

namespace toy {

Pooling pooling_of(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, Pooling>, 4> kWords{
      {{"mean", Pooling::mean}, {"last", Pooling::last}, {"cls", Pooling::first}, {"none", Pooling::none}}};
  for (const auto& [name, pooling] : kWords)
    if (name == word) return pooling;
  fail("pooling is '{}'; there are: mean, cls, last, none", word);
}

Pooling pooling_of_scores(const ScoreHead& head, const ModelSpec& spec) {
  return head.mean ? Pooling::mean : spec.causal ? Pooling::last : Pooling::first;
}

EmbedOptions embed_options(const Model& model, const std::string& pooling) {
  check(!model.spec.vision.there(), "model {}: it reads pictures, and no text; use toy infer with --image",
        model.spec.name);
  const EmbeddingRule rule = embedding_rule(model.metadata);
  check(!(pooling.empty() && model.spec.score.classifies()),
        "model {}: it classifies texts and has no pooling of its own; use toy infer --prompt TEXT, or --pooling mean, "
        "cls or last",
        model.spec.name);
  const std::string& word = pooling.empty() ? rule.pooling : pooling;
  check(word != "rank" && !(pooling.empty() && model.spec.score.there()),
        "model {}: it ranks texts and has no pooling of its own; use toy rerank, or --pooling mean, cls or last",
        model.spec.name);
  check(!word.empty(),
        "model {}: {}its file does not say how the vectors of tokens become an embedding; add --pooling mean (or cls, "
        "last), or use a model of embeddings such as all-MiniLM-L6-v2",
        model.spec.name, model.spec.causal ? "it generates text, and " : "");
  return {.pooling = pooling_of(word), .normalize = rule.normalize.value_or(true)};
}

std::vector<float> embedding_of(std::span<const double> sum, int64_t rows, const EmbedOptions& o) {
  check(o.dimensions >= 0 && o.dimensions <= int64_t(sum.size()), "dimensions is {}; this model's embeddings have {}",
        o.dimensions, sum.size());
  const std::span v = sum.first(o.dimensions > 0 ? size_t(o.dimensions) : sum.size());
  double divisor = double(rows);
  if (o.normalize) {
    divisor = std::sqrt(std::transform_reduce(v.begin(), v.end(), v.begin(), 0.0));
    if (!(divisor > 0) || !std::isfinite(divisor))
      throw Error(ErrorCode::failure, "the hidden states are zero or not finite; the model's weights may be damaged");
  }
  std::vector<float> out;
  for (const double x : v) out.push_back(float(x / divisor));
  return out;
}

std::vector<float> pooled(std::span<const float> hidden, int64_t width, const EmbedOptions& o) {
  const int64_t rows = int64_t(hidden.size()) / width;
  check(rows > 0, "embedding: there are no tokens");
  // Rows [first, last) make one vector.
  const auto vector_of = [&](int64_t first, int64_t last) {
    std::vector<double> sum(size_t(width), 0.0);
    for (int64_t row = first; row < last; ++row)
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += double(hidden[size_t(row * width) + i]);
    return embedding_of(sum, last - first, o);
  };
  if (o.pooling == Pooling::first) return vector_of(0, 1);
  if (o.pooling == Pooling::last) return vector_of(rows - 1, rows);
  if (o.pooling == Pooling::mean) return vector_of(0, rows);
  std::vector<float> all;
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<float> one = vector_of(row, row + 1);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

std::vector<int32_t> encode_for_embedding(const Tokenizer& tokenizer, std::string_view text, int64_t most) {
  std::vector<int32_t> ids = tokenizer.encode(text, {.parse_special = true});
  const bool first = tokenizer.adds_bos() && tokenizer.bos() && (ids.empty() || ids.front() != *tokenizer.bos());
  const bool last = tokenizer.adds_eos() && tokenizer.eos() && (ids.empty() || ids.back() != *tokenizer.eos());
  const int64_t room = most - first - last;
  if (most > 0 && int64_t(ids.size()) > room) ids.resize(size_t(std::max<int64_t>(0, room)));
  if (first) ids.insert(ids.begin(), *tokenizer.bos());
  if (last) ids.push_back(*tokenizer.eos());
  return ids;
}

int64_t most_tokens_to_embed(const Model& model) {
  const int64_t stated = embedding_rule(model.metadata).max_tokens;
  return stated > 0 ? std::min(stated, model.spec.context) : model.spec.context;
}

}  // namespace toy
