// The loss InfoNCE as a graph, and what a validation measures.
#include "train/contrastive.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "toy/eval/retrieval.h"
#include "toy/models/vision.h"
#include "train/feed.h"
#include "train/objective.h"
#include "train/pooled_texts.h"

namespace toy {
namespace {

constexpr float kLeftOut = -1e30f;  // a score whose exp is 0

// The texts of each row, by their place in it; nullptr where there is none.
using RowTexts = std::array<const Answer*, kTextsOfRow>;
std::vector<RowTexts> texts_of(const Windows& batch, int64_t tokens) {
  std::vector<RowTexts> rows(batch.inputs.size() / size_t(tokens), RowTexts{});
  for (const Answer& a : batch.answers) {
    RowTexts& row = rows[size_t(a.first / tokens)];
    *std::ranges::find(row, nullptr) = &a;
  }
  return rows;
}

// Texts that are no wrong answers to each anchor: itself, and what answers an equal one in any row.
std::map<int64_t, std::set<int64_t>> right_answers(const std::vector<RowTexts>& rows) {
  std::map<int64_t, std::set<int64_t>> right;
  for (const auto& [anchor, positive, negative] : rows)
    if (anchor != nullptr) right[anchor->id].insert({anchor->id, positive->id});
  return right;
}

class ContrastiveObjective final : public Objective {
 public:
  ContrastiveObjective(const ContrastiveOptions& options, const ModelSpec& spec) : o_(options), spec_(spec) {}
  std::vector<ForwardPass> passes() const override { return {{spec_}}; }
  StepWeights weigh(Trainer&, const Windows& windows, int64_t) override {
    const int64_t anchors = counted_targets(windows);
    check(anchors > 0, "trainer: a batch without a pair");
    return {equal_weights(windows, 1.0 / double(anchors))};
  }
  // Among all texts of the validation, so that it depends on no batch.
  EvalResult evaluate(Trainer& trainer, const ValidationRows& rows, int64_t max_tokens,
                      const std::function<bool()>& stop) override {
    EvalResult result{.ranked = true};
    RetrievalSet set(spec_.d_model);
    const auto width = size_t(spec_.d_model);
    read(trainer, rows, max_tokens, stop, result, [&](const Windows& w, int64_t) {
      const std::vector<float> vectors = trainer.nlls(0, w, "validation after step");
      const auto texts = texts_of(w, trainer.options().tokens);
      for (size_t r = 0; r < texts.size(); ++r) {
        const auto vector = [&](size_t slot) {
          return std::span(vectors).subspan((slot * texts.size() + r) * width, width);
        };
        const auto [anchor, positive, negative] = texts[r];
        if (anchor == nullptr) continue;
        set.add_pair(vector(0), anchor->id, vector(1), positive->id);
        if (negative != nullptr) set.add_negative(vector(2), negative->id);
        ++result.tokens;
      }
    });
    const RetrievalScores s = set.scores(o_.temperature);
    result.nats = s.nats, result.right = s.right, result.among_5 = s.among_5;
    return result;
  }

 private:
  const ContrastiveOptions o_;
  const ModelSpec& spec_;
};

}  // namespace

ContrastiveGraph build_contrastive(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t rows,
                                   int64_t tokens, Value random, double dropout, const ContrastiveOptions& o) {
  constexpr float kEps = 1e-12f;  // far below the squared length of a state, and a text that is missing has zeros
  const PooledTexts p = build_pooled_texts(g, spec, dtype_of, rows, tokens, kTextsOfRow * rows, random, dropout);
  const TensorType scored{DType::f32, {rows, (kTextsOfRow - 1) * rows}, 0};
  const Value bias = g.input("bias", scored), shares = g.input("shares", scored);
  const Value weight = g.input("weight", {DType::f32, {rows * tokens}, 0});
  const auto scope = g.scope("contrastive");
  const Value vectors = l2_norm(p.vectors, kEps);
  const Value anchors = slice(vectors, 0, 0, rows), texts = slice(vectors, 0, rows, (kTextsOfRow - 1) * rows);
  const Value scores = scale(matmul(anchors, texts, {.transpose_b = true}), 1 / o.temperature) + bias;
  const Value of_rows = slice(reshape(weight, {rows, tokens}), 1, 0, 1);
  return {sum_all(of_rows * soft_cross_entropy(scores, shares)), vectors};
}

void feed_contrastive(Session& session, const Windows& batch, int64_t tokens, const ContrastiveOptions& o,
                      std::span<const float> weights) {
  const std::vector<RowTexts> rows = texts_of(batch, tokens);
  const size_t n = rows.size(), scored = size_t(kTextsOfRow - 1) * n;
  std::vector<float> bias(n * scored), shares(n * scored);
  const auto right = right_answers(rows);
  for (size_t i = 0; i < n; ++i) {
    const bool is_padding = rows[i][0] == nullptr;  // which weighs nothing
    for (size_t slot = 1; slot < size_t(kTextsOfRow); ++slot)
      for (size_t r = 0; r < n; ++r) {
        const Answer* text = rows[r][slot];
        if (text == nullptr || (!is_padding && right.at(rows[i][0]->id).contains(text->id)))
          bias[i * scored + (slot - 1) * n + r] = kLeftOut;
      }
    if (is_padding) continue;
    bias[i * scored + i] = 0;  // its own positive
    shares[i * scored + i] = 1;
  }
  std::vector<const Answer*> texts;  // all anchors, all positives, all negatives
  for (size_t slot = 0; slot < size_t(kTextsOfRow); ++slot)
    for (const RowTexts& row : rows) texts.push_back(row[slot]);
  feed_pooled_texts(session, batch, texts, o.pooling);
  session.set("bias", bias);
  session.set("shares", shares);
  session.set("weight", weights);
}

std::unique_ptr<Objective> make_contrastive_objective(const ContrastiveOptions& options, const ModelSpec& spec) {
  return std::make_unique<ContrastiveObjective>(options, spec);
}

}  // namespace toy
