// The plain model against finite differences, against the graph engine, and as a model that learns and generates.
#include "toy/plain/transformer_lm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "testing/errors.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/ops/ops.h"
#include "toy/runtime/evaluate.h"

namespace toy::plain::transformer_lm_test {
namespace {

using testing::error_of;

constexpr double kEps = double(1e-5f);  // the graph's epsilon is an f32

Config small() {
  return {.vocab = 11, .d_model = 12, .n_heads = 3, .n_layers = 2, .d_ff = 20, .context_length = 9, .eps = kEps};
}

// Weights that f32 holds exactly, so that the graph gets the same numbers; gains are not all 1.
TransformerLM model_with_f32_weights(const Config& config, uint64_t seed) {
  TransformerLM lm(config, seed);
  for (const auto& [name, m] : lm.weights.named()) {
    const Philox random(seed + 1, name);
    for (size_t i = 0; i < m->data.size(); ++i) {
      if (name.ends_with("norm")) m->data[i] += 0.3 * random.normal(i);
      m->data[i] = double(float(m->data[i]));
    }
  }
  return lm;
}

std::vector<int32_t> some_tokens(const Config& config, int64_t count, uint64_t seed) {
  const Philox random(seed, "tokens");
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(int32_t(random.below(uint64_t(i), uint64_t(config.vocab))));
  return tokens;
}

// ---- the same maths of graph ops

struct GraphModel {
  Graph g;
  std::vector<Value> params;  // in the order of Weights::named()
  Value loss;

  GraphModel(const Config& c, int64_t rows) {
    const TransformerLM shapes(c, 0);
    for (const auto& [name, m] : shapes.weights.named())
      params.push_back(
          g.param(name, {DType::f32, name.ends_with("norm") ? Shape{m->cols} : Shape{m->rows, m->cols}, 0}));
    const auto w = [&](const std::string& name) { return *g.find(name); };
    const auto input = [&](const char* name, int64_t bound) { return g.input(name, {DType::i32, {rows}, 0}, bound); };
    const Value tokens = input("tokens", c.vocab), targets = input("targets", c.vocab);
    const Value position = input("position", c.context_length), sequence = input("sequence", 1);
    const float eps = float(c.eps);
    const Shape by_heads{rows, c.n_heads, c.d_head()}, flat{rows, c.d_model};

    Value x = embedding(w("token_embedding"), tokens) + embedding(w("position_embedding"), position);
    for (int64_t i = 0; i < c.n_layers; ++i) {
      const std::string b = "blocks." + std::to_string(i) + ".";
      const Value h = rms_norm(x, w(b + "attn_norm"), eps);
      const auto heads = [&](const char* name) { return reshape(matmul(h, w(b + name)), by_heads); };
      const Value mixed = attention(heads("wq"), heads("wk"), heads("wv"), sequence, position,
                                    {.scale = 1 / std::sqrt(double(c.d_head()))});
      x = x + matmul(reshape(mixed, flat), w(b + "wo"));
      x = x + matmul(gelu_tanh(matmul(rms_norm(x, w(b + "ffn_norm"), eps), w(b + "w1"))), w(b + "w2"));
    }
    const Value ones = fill(g, {rows}, 1);
    const Value sum = linear_xent(rms_norm(x, w("final_norm"), eps), w("token_embedding"), targets, ones).loss;
    loss = scale(sum, 1 / double(rows));
  }

  std::vector<double> value_of(Value v, const TransformerLM& lm, const std::vector<int32_t>& tokens) const {
    EvaluateOptions o;  // on the reference, in f64
    const int64_t rows = int64_t(tokens.size()) - 1;
    std::vector<int32_t> position;
    for (int64_t t = 0; t < rows; ++t) position.push_back(int32_t(t));
    o.feeds["tokens"] = std::vector<int32_t>(tokens.begin(), tokens.end() - 1);
    o.feeds["targets"] = std::vector<int32_t>(tokens.begin() + 1, tokens.end());
    o.feeds["position"] = position;
    o.feeds["sequence"] = std::vector<int32_t>(size_t(rows), 0);
    for (const auto& [name, m] : lm.weights.named()) o.feeds[name] = std::vector<float>(m->data.begin(), m->data.end());
    // A feed that this value does not depend on is fine; one that the graph does not know is an error.
    return evaluate(v, o).values;
  }
};

// Both sides compute in f64 and differ in the order of sums. A gradient has passed 6 products or sums a block and 3
// outside, forward and backward: 2 (6 * 2 + 3) = 30 of at most n = 20 terms, each off by n u of the sum of its
// magnitudes. On both sides that is 2 * 30 * 20 * 2^-53 = 1.4e-13; the magnitudes of the terms of these sums together
// are less than 7 times the largest element of the result, as in random data of such lengths: 1e-12 of it.
constexpr double kRelative = 1e-12;

void expect_same(const std::string& what, const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size()) << what;
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  EXPECT_GT(largest, 0) << what << ": nothing is compared";
  EXPECT_LE(difference, kRelative * largest) << what;
}

TEST(TransformerLM, LossAndEveryGradientAreTheGraphEngines) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    const Config c = small();
    const TransformerLM lm = model_with_f32_weights(c, seed);
    // Shorter than the context in one case: the last positions get no gradient.
    const std::vector<int32_t> tokens = some_tokens(c, seed == 3 ? 6 : c.context_length + 1, seed);
    Weights gradients(c);
    const double loss = lm.loss_and_gradients(tokens, gradients);
    EXPECT_EQ(loss, lm.loss(tokens));

    GraphModel graph(c, int64_t(tokens.size()) - 1);
    const std::vector<Value> wanted = toy::gradients(graph.loss, graph.params);
    expect_same("loss", {loss}, graph.value_of(graph.loss, lm, tokens));
    const auto named = gradients.named();
    for (size_t i = 0; i < named.size(); ++i)
      expect_same(named[i].first, named[i].second->data, graph.value_of(wanted[i], lm, tokens));
  }
}

TEST(TransformerLM, EveryGradientIsTheFiniteDifference) {
  const Config c{.vocab = 5, .d_model = 6, .n_heads = 2, .n_layers = 2, .d_ff = 7, .context_length = 4, .eps = kEps};
  TransformerLM lm = model_with_f32_weights(c, 7);
  const std::vector<int32_t> tokens{3, 1, 4, 1, 2};
  Weights gradients(c);
  lm.loss_and_gradients(tokens, gradients);
  // f' = (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h is off by h^4/30 of the fifth derivative, which is below 1e4 here
  // (with h = 1e-3 the difference is at most 2e-10, of 6e3): 1.3e-12; and by 18/12 of the rounding of a loss of 2, some
  // 10 units in the last place, over h: 1.4e-11.
  constexpr double h = 2.5e-4, kBound = 2e-11;
  const auto loss_at = [&](double& w, double step) {
    const double before = w;
    w += step;
    const double loss = lm.loss(tokens);
    w = before;
    return loss;
  };
  const auto weights = lm.weights.named();
  const auto named = gradients.named();
  for (size_t n = 0; n < weights.size(); ++n)
    for (size_t i = 0; i < weights[n].second->data.size(); ++i) {
      double& w = weights[n].second->data[i];
      const double slope = (8 * (loss_at(w, h) - loss_at(w, -h)) - (loss_at(w, 2 * h) - loss_at(w, -2 * h))) / (12 * h);
      EXPECT_NEAR(named[n].second->data[i], slope, kBound) << named[n].first << "[" << i << "]";
    }
}

TEST(TransformerLM, GradientsAddUp) {
  const Config c = small();
  const TransformerLM lm(c, 1);
  const auto a = some_tokens(c, 5, 1), b = some_tokens(c, 8, 2);
  Weights both(c), first(c), second(c);
  lm.loss_and_gradients(a, both);
  lm.loss_and_gradients(b, both);
  lm.loss_and_gradients(a, first);
  lm.loss_and_gradients(b, second);
  const auto all = both.named(), one = first.named(), two = second.named();
  for (size_t n = 0; n < all.size(); ++n)
    for (size_t i = 0; i < all[n].second->data.size(); ++i) {
      const double sum = one[n].second->data[i] + two[n].second->data[i];
      // Terms of at most one size are added in another order: a few units in the last place of the largest, 1.
      EXPECT_NEAR(all[n].second->data[i], sum, 16 * 0x1p-53) << all[n].first;
    }
}

TEST(TransformerLM, WhatComesLaterChangesNothing) {
  const Config c = small();
  const TransformerLM lm(c, 4);
  std::vector<int32_t> tokens = some_tokens(c, 9, 3);
  const Matrix before = lm.logits(tokens);
  tokens[6] = (tokens[6] + 1) % int32_t(c.vocab);
  const Matrix after = lm.logits(tokens);
  for (int64_t t = 0; t < 9; ++t) EXPECT_EQ(std::equal(before[t], before[t] + c.vocab, after[t]), t < 6) << t;
}

TEST(TransformerLM, LossOfEqualLogitsIsLogOfTheVocabulary) {
  const Config c = small();
  TransformerLM lm(c, 1);
  lm.weights.final_norm = Matrix(1, c.d_model);  // all logits are 0
  EXPECT_NEAR(lm.loss(some_tokens(c, 8, 1)), std::log(11.0), 8 * 0x1p-52);
}

TEST(TransformerLM, AProbabilityOfZeroHasAFiniteLoss) {
  const Config c = small();
  TransformerLM lm(c, 1);
  for (double& g : lm.weights.final_norm.data) g = 1e6;  // logits far apart: exp underflows
  Weights gradients(c);
  const double loss = lm.loss_and_gradients(some_tokens(c, 10, 1), gradients);
  EXPECT_TRUE(std::isfinite(loss));
  EXPECT_GT(loss, 100);
  for (const auto& [name, m] : gradients.named())
    EXPECT_TRUE(std::all_of(m->data.begin(), m->data.end(), [](double v) { return std::isfinite(v); })) << name;
}

TEST(TransformerLM, SgdAndAdamTakeTheStepsOfTheirPapers) {
  const Config c = small();
  const TransformerLM start(c, 2);
  const auto tokens = some_tokens(c, 10, 2);
  TransformerLM sgd = start, adam = start;
  Adam optimizer(c, 0.01, 0.8, 0.95, 1e-8);
  // One weight followed by hand.
  double w = start.weights.blocks[1].wq[2][3], m = 0, v = 0;
  for (int t = 1; t <= 5; ++t) {
    Weights g(c);
    adam.loss_and_gradients(tokens, g);
    const double slope = g.blocks[1].wq[2][3];
    m = 0.8 * m + 0.2 * slope;
    v = 0.95 * v + 0.05 * slope * slope;
    w -= 0.01 * (m / (1 - std::pow(0.8, t))) / (std::sqrt(v / (1 - std::pow(0.95, t))) + 1e-8);
    optimizer.step(adam.weights, g);
    // 1 - beta2^t is 0.05 at first, where 1 - 0.95 and 0.05 differ by 20 u: so do the steps, each at most 0.01 long.
    EXPECT_NEAR(adam.weights.blocks[1].wq[2][3], w, t * 0.01 * 64 * 0x1p-53 + t * 0x1p-53) << t;
  }
  Weights g(c);
  sgd.loss_and_gradients(tokens, g);
  Sgd{.lr = 0.25}.step(sgd.weights, g);
  const auto before = start.weights.named(), slopes = std::as_const(g).named(),
             after = std::as_const(sgd.weights).named();
  for (size_t n = 0; n < after.size(); ++n)
    for (size_t i = 0; i < after[n].second->data.size(); ++i)
      ASSERT_EQ(after[n].second->data[i], before[n].second->data[i] - 0.25 * slopes[n].second->data[i]);
}

TEST(TransformerLM, LearnsATextByHeartAndSaysIt) {
  const std::string text = "round and round the garden goes the bear. ";
  std::vector<int32_t> ids(text.begin(), text.end());
  ids.push_back(ids.front());
  for (const bool use_adam : {true, false}) {
    SCOPED_TRACE(use_adam ? "adam" : "sgd");
    const Config c{.vocab = 128, .d_model = 16, .n_heads = 2, .n_layers = 1, .d_ff = 32, .context_length = 42};
    TransformerLM lm(c, 1);
    Adam adam(c, 0.01);
    const Sgd sgd{.lr = 0.3};
    const double before = lm.loss(ids);
    for (int step = 0; step < (use_adam ? 150 : 600); ++step) {
      Weights g(c);
      lm.loss_and_gradients(ids, g);
      use_adam ? adam.step(lm.weights, g) : sgd.step(lm.weights, g);
    }
    EXPECT_LT(lm.loss(ids), 0.05 * before);
    const std::vector<int32_t> prompt(ids.begin(), ids.begin() + 6), said = lm.generate(prompt, 36, 0, 0);
    EXPECT_EQ(std::string(said.begin(), said.end()), text.substr(6));
  }
}

TEST(TransformerLM, GeneratesFromTheLastTokensOfTheContext) {
  const Config c = small();
  const TransformerLM lm(c, 5);
  std::vector<int32_t> tokens = some_tokens(c, 4, 5);
  const std::vector<int32_t> prompt = tokens, generated = lm.generate(prompt, 20, 0, 0);
  ASSERT_EQ(generated.size(), 20u);
  for (const int32_t next : generated) {
    const size_t window = std::min<size_t>(tokens.size(), 9);
    const Matrix logits = lm.logits(std::span(tokens).last(window));
    const double* row = logits[logits.rows - 1];
    EXPECT_EQ(next, std::max_element(row, row + c.vocab) - row);
    tokens.push_back(next);
  }
  EXPECT_EQ(lm.generate(prompt, 20, -1, 3), generated);
  EXPECT_EQ(lm.generate(prompt, 20, 1, 3), lm.generate(prompt, 20, 1, 3));
  EXPECT_NE(lm.generate(prompt, 20, 1, 3), lm.generate(prompt, 20, 1, 4));
  EXPECT_TRUE(lm.generate(prompt, 0, 1, 3).empty());
}

TEST(TransformerLM, SamplesAsOftenAsTheModelSays) {
  const Config c = small();
  const TransformerLM lm(c, 6);
  const std::vector<int32_t> prompt{1, 2};
  const Matrix logits = lm.logits(prompt);
  for (const double temperature : {1.0, 0.5}) {
    const auto p = softmax({logits[1], size_t(c.vocab)}, temperature);
    constexpr int kDraws = 4000;
    std::vector<int> seen(size_t(c.vocab));
    for (uint64_t seed = 0; seed < kDraws; ++seed) ++seen[size_t(lm.generate(prompt, 1, temperature, seed)[0])];
    for (size_t v = 0; v < p.size(); ++v)  // 5 standard deviations of a binomial
      EXPECT_NEAR(seen[v], kDraws * p[v], 5 * std::sqrt(kDraws * p[v] * (1 - p[v])) + 1) << temperature << ": " << v;
  }
}

TEST(TransformerLM, SoftmaxIsStable) {
  const std::vector<double> p = softmax(std::vector<double>{1000, 1000, -1000});
  EXPECT_EQ(p, (std::vector<double>{0.5, 0.5, 0}));
  const double e = std::exp(-2.0);
  EXPECT_NEAR(softmax(std::vector<double>{-1e4, -1e4 - 1}, 0.5)[1], e / (1 + e), 4 * 0x1p-53);
}

TEST(TransformerLM, BadInputIsRefused) {
  const Config c = small();
  const TransformerLM lm(c, 1);
  Config bad = c;
  bad.n_heads = 5;
  EXPECT_EQ(error_of([&] { TransformerLM(bad, 1); }), "d_model is 12, expected a multiple of n_heads, 5");
  bad = c, bad.d_ff = 0;
  EXPECT_EQ(error_of([&] { Weights{bad}; }), "d_ff is 0, expected 1 or more");
  bad = c, bad.eps = 0;
  EXPECT_NE(error_of([&] { bad.validate(); }).find("eps is 0"), std::string::npos);
  EXPECT_EQ(error_of([&] { lm.loss(std::vector<int32_t>{1}); }),
            "there are 1 tokens, expected 2 to 10 (the context and one to predict)");
  EXPECT_NE(error_of([&] { lm.loss(std::vector<int32_t>(11, 0)); }).find("there are 11 tokens"), std::string::npos);
  EXPECT_EQ(error_of([&] { lm.loss(std::vector<int32_t>{1, 11}); }), "token 1 is 11, the vocabulary is 0 to 10");
  EXPECT_EQ(error_of([&] { lm.logits(std::vector<int32_t>{-1}); }), "token 0 is -1, the vocabulary is 0 to 10");
  EXPECT_NE(error_of([&] { lm.logits(std::vector<int32_t>{}); }).find("there are 0 tokens"), std::string::npos);
  EXPECT_NE(error_of([&] { lm.generate({}, 1, 0, 0); }).find("prompt is empty"), std::string::npos);
  // Gradients and moments of another shape.
  Config wider = c;
  wider.d_ff = 24;
  Weights none, other(wider), gradients(c), weights(c);
  const std::vector<int32_t> tokens{1, 2};
  const std::string empty = "gradients: 3 matrices, the weights have 19; make them of the same Config",
                    wide = "gradients: blocks.0.w1 is [12,24], in the weights [12,20]";
  Adam adam(c, 0.1), of_other(wider, 0.1);
  EXPECT_EQ(error_of([&] { lm.loss_and_gradients(tokens, none); }), empty);
  EXPECT_EQ(error_of([&] { lm.loss_and_gradients(tokens, other); }), wide);
  EXPECT_EQ(error_of([&] { Sgd{}.step(weights, none); }), empty);
  EXPECT_EQ(error_of([&] { Sgd{}.step(weights, other); }), wide);
  EXPECT_EQ(error_of([&] { adam.step(weights, none); }), empty);
  EXPECT_EQ(error_of([&] { adam.step(weights, other); }), wide);
  EXPECT_EQ(error_of([&] { of_other.step(weights, gradients); }),
            "moments: blocks.0.w1 is [12,24], in the weights [12,20]");
  EXPECT_NE(error_of([&] { lm.generate({1}, 1, std::nan(""), 0); }).find("temperature"), std::string::npos);
}

}  // namespace
}  // namespace toy::plain::transformer_lm_test
