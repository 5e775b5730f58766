// Two models on one text: against plain sums over the decoder's logits, and the line between two models.
#include "toy/eval/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "testing/errors.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/models/model.h"

namespace toy::compare_test {
namespace {

ModelSpec spec_of(int64_t vocab = 61, int64_t d_ff = 52) {
  return testing::small_model(
      "tiny", {.vocab = vocab, .d_model = 40, .context = 200, .heads = 6, .kv_heads = 2, .d_head = 10, .d_ff = d_ff});
}

EvalText text_of(size_t n) {
  EvalText text;
  text.documents.push_back(testing::random_ids(n, 61, Philox(7, "text")));
  return text;
}

std::vector<double> probabilities(std::span<const float> logits) {
  std::vector<double> p(logits.begin(), logits.end());
  double sum = 0;
  for (double& v : p) sum += v = std::exp(v);
  for (double& v : p) v /= sum;
  return p;
}

class CompareTest : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_test_device(2);
  Model a_ = random_model(spec_of(), *device_, 3, 2.0), b_ = random_model(spec_of(), *device_, 4, 2.0);
};

TEST_F(CompareTest, EqualsPlainSums) {
  const EvalText text = text_of(150);
  Decoder p(*device_, a_, {}), q(*device_, b_, {});
  std::vector<double> kl;
  double base = 0, model = 0, same = 0, moved = 0, squares = 0;
  for (size_t i = 0; i + 1 < text.documents[0].size(); ++i) {
    const std::vector<DecodeRow> row{{0, text.documents[0][i], true}};
    p.decode(row), q.decode(row);
    const std::vector<double> x = probabilities(p.logits(0)), y = probabilities(q.logits(0));
    double sum = 0;
    for (size_t v = 0; v < x.size(); ++v) sum += x[v] * std::log(x[v] / y[v]);
    kl.push_back(sum);
    const size_t next = size_t(text.documents[0][i + 1]);
    base -= std::log(x[next]), model -= std::log(y[next]);
    moved += y[next] - x[next], squares += std::pow(y[next] - x[next], 2);
    same += std::max_element(x.begin(), x.end()) - x.begin() == std::max_element(y.begin(), y.end()) - y.begin();
  }
  const double n = double(kl.size());
  std::vector<double> seen;
  const Divergence d = compare_models(*device_, a_, b_, text, {.context = 200, .stride = 200},
                                      [&](const DivergenceOfToken& t) { seen.push_back(t.kl); });
  ASSERT_EQ(seen.size(), kl.size());
  // Sums of 61 terms in f64, around other centres.
  for (size_t i = 0; i < kl.size(); ++i) EXPECT_NEAR(seen[i], kl[i], 1e-12) << i;
  std::sort(kl.begin(), kl.end());
  EXPECT_NEAR(d.kl.mean, std::accumulate(kl.begin(), kl.end(), 0.0) / n, 1e-12);
  EXPECT_NEAR(d.quantiles[0], kl[74], 1e-12);   // ceil(0.5 * 149) = 75 values are at most this
  EXPECT_NEAR(d.quantiles[1], kl[134], 1e-12);  // ceil(134.1) = 135
  EXPECT_NEAR(d.quantiles.back(), kl.back(), 1e-12);
  EXPECT_NEAR(d.base.mean, base / n, 1e-12);
  EXPECT_NEAR(d.model.mean, model / n, 1e-12);
  EXPECT_NEAR(d.difference.mean, (model - base) / n, 1e-12);
  EXPECT_NEAR(d.probability.mean, moved / n, 1e-12);
  EXPECT_NEAR(d.probability_rms, std::sqrt(squares / n), 1e-12);
  EXPECT_EQ(d.same_top.mean, same / n);
  EXPECT_LT(d.same_top.mean, 1);
  EXPECT_EQ(d.blocks, 3);  // 64 + 64 + 21 tokens
  EXPECT_GT(d.kl.error, 0);
  // The losses are those of each model by itself, but for where the logarithm is rounded.
  EXPECT_NEAR(d.base.mean, score_text(*device_, a_, text, {.context = 200, .stride = 200}).nats_per_token(), 1e-12);
  EXPECT_NEAR(d.base.error, score_text(*device_, a_, text, {.context = 200, .stride = 200}).standard_error, 1e-12);
}

TEST_F(CompareTest, AModelDoesNotDifferFromItself) {
  const Divergence d = compare_models(*device_, a_, a_, text_of(100), {});
  EXPECT_EQ(d.kl.mean, 0);
  EXPECT_EQ(d.same_top.mean, 1);
  EXPECT_EQ(d.perplexity_ratio(), 1);
  EXPECT_EQ(d.probability_rms, 0);
}

TEST_F(CompareTest, SameBitsForAnyNumberOfThreads) {
  const Divergence first = compare_models(*device_, a_, b_, text_of(300), {.context = 50, .stride = 20});
  for (const int threads : {1, 3}) {
    const auto device = make_test_device(threads);
    const Model a = random_model(spec_of(), *device, 3, 2.0), b = random_model(spec_of(), *device, 4, 2.0);
    const Divergence d = compare_models(*device, a, b, text_of(300), {.context = 50, .stride = 20});
    EXPECT_EQ(d.kl.mean, first.kl.mean);
    EXPECT_EQ(d.kl.error, first.kl.error);
    EXPECT_EQ(d.quantiles, first.quantiles);
  }
}

TEST_F(CompareTest, OtherVocabulariesAreRefused) {
  const Model other = random_model(spec_of(62), *device_, 3);
  EXPECT_EQ(testing::message_of([&] { compare_models(*device_, a_, other, text_of(10), {}); }),
            "the base has 61 tokens, the model 62; compare models of one vocabulary");
}

TEST_F(CompareTest, TheLineBetweenTwoModels) {
  Model mixed = random_model(spec_of(), *device_, 5);
  const EvalText text = text_of(100);
  const auto loss = [&](const Model& m) { return score_text(*device_, m, text, {}).nats; };
  interpolate(a_, b_, 0, mixed);
  EXPECT_EQ(loss(mixed), loss(a_));
  interpolate(a_, b_, 1, mixed);
  EXPECT_EQ(loss(mixed), loss(b_));
  interpolate(a_, b_, 0.25, mixed);
  for (const char* name : {"token_embd.weight", "blk.1.ffn_up.weight", "output_norm.weight"}) {
    const auto x = a_.params->read(name), y = b_.params->read(name), z = mixed.params->read(name);
    for (size_t i = 0; i < z.size(); ++i) ASSERT_EQ(z[i], float(0.75 * double(x[i]) + 0.25 * double(y[i])));
  }
}

TEST(Compare, ShapesThatDifferAreNamed) {
  const ModelSpec a = spec_of();
  require_same_shape(a, a);
  EXPECT_EQ(testing::message_of([&] { require_same_shape(a, spec_of(61, 48)); }),
            "the models differ: 'blk.0.ffn_gate.weight' is [52,40] in the first and [48,40] in the second");
  ModelSpec b = a;
  b.layers.pop_back();
  EXPECT_NE(testing::message_of([&] { require_same_shape(a, b); }).find("'blk.1."), std::string::npos);
  b = a;
  b.rope.base = 500;
  EXPECT_NE(testing::message_of([&] { require_same_shape(a, b); }).find("rope_base"), std::string::npos);
}

}  // namespace
}  // namespace toy::compare_test
