// Two models on one text, and the line between them: against transformers in f64 (tests/golden/make_compare_golden.py).
#include "toy/eval/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"

namespace toy {
namespace {

const std::string kFolder = std::string(TOY_SOURCE_DIR) + "/tests/golden/", kModel = kFolder + "eval_bytes.model.gguf";

nlohmann::json golden_file() {
  std::ifstream file(kFolder + "eval_compare.golden.json");
  return nlohmann::json::parse(file);
}

// The other model of the golden file.
Model changed_model(const Device& device, const nlohmann::json& golden) {
  Model model = load_model(kModel, device, LoadMode::trainable);
  for (const auto& [name, factor] : golden.at("changes").items()) {
    std::vector<float> values = model.params->read(name);
    for (float& v : values) v *= factor.get<float>();
    model.params->write(name, values);
  }
  return model;
}

EvalText text_of(const Model& model, const nlohmann::json& golden) {
  const std::vector<std::string> documents{golden.at("text")};
  return tokenize_for_eval(*model.tokenizer, documents, true);
}

// A logit is within `roundings` units of 2^-24 of the largest: e (as in golden_test.cpp). log p moves by at most 2 e; p
// by p (2 e); so p (log p - log q), summed, by 2 e |log p - log q| + 4 e, and that difference is at most 4 largest
// logits. A percentile moves by no more than the values do.
void expect_golden(Device& device, double roundings) {
  const nlohmann::json golden = golden_file();
  const double largest = golden.at("largest_logit"), e = roundings * 0x1p-24 * largest;
  const Model base = load_model(kModel, device), model = changed_model(device, golden);
  const ScoreOptions options{.context = golden.at("ctx"), .stride = golden.at("stride")};
  int64_t done = 0;
  const Divergence d =
      compare_models(device, base, model, text_of(base, golden), options, [&](int64_t n) { done = n; });
  EXPECT_EQ(d.tokens, golden.at("tokens").get<int64_t>());
  EXPECT_EQ(done, d.tokens);
  const double of_kl = (8 * largest + 4) * e;
  EXPECT_NEAR(d.kl.mean, golden.at("kl").get<double>(), of_kl);
  EXPECT_EQ(d.same_top.mean, golden.at("same_top").get<double>());
  EXPECT_NEAR(d.base_nats.mean, golden.at("base_nats").get<double>(), 2 * e);
  EXPECT_NEAR(d.nats.mean, golden.at("nats").get<double>(), 2 * e);
  EXPECT_NEAR(d.log_ratio.mean, golden.at("log_ratio").get<double>(), 4 * e);
  EXPECT_NEAR(d.change.mean, golden.at("change").get<double>(), 4 * e);
  EXPECT_NEAR(d.rms_change, golden.at("rms_change").get<double>(), 4 * e);
  for (size_t i = 0; i < kPercentiles.size(); ++i) {
    EXPECT_NEAR(d.kl_percentiles[i], golden.at("kl_percentiles")[i].get<double>(), of_kl) << kPercentiles[i];
    EXPECT_NEAR(d.change_percentiles[i], golden.at("change_percentiles")[i].get<double>(), 4 * e) << kPercentiles[i];
  }
}

TEST(CompareGolden, DivergenceOnTheReference) { expect_golden(*make_reference_device(), 1); }
TEST(CompareGolden, DivergenceOnTheCpu) { expect_golden(*make_test_device(2), 64); }

TEST(CompareGolden, LossOnTheLine) {
  const nlohmann::json golden = golden_file();
  const auto device = make_test_device(2);
  const Model a = load_model(kModel, *device), b = changed_model(*device, golden);
  Model between = load_model(kModel, *device, LoadMode::trainable);
  LineOfModels line(a, b, between, 2);
  const EvalText text = text_of(a, golden);
  const ScoreOptions options{.context = golden.at("ctx"), .stride = golden.at("stride")};
  const double e = 64 * 0x1p-24 * golden.at("largest_logit").get<double>();
  for (size_t i = 0; i < golden.at("alphas").size(); ++i) {
    line.move_to(golden.at("alphas")[i]);
    // Weights between the ends are rounded: three times, each by half a unit, as often as a product rounds.
    EXPECT_NEAR(score_text(*device, between, text, options).nats_per_token(), golden.at("losses")[i].get<double>(),
                4 * e)
        << golden.at("alphas")[i];
  }
}

TEST(Compare, TheEndsOfTheLineAreTheModels) {
  const nlohmann::json golden = golden_file();
  const auto device = make_test_device(2);
  const Model a = load_model(kModel, *device), b = changed_model(*device, golden);
  Model between = load_model(kModel, *device, LoadMode::trainable);
  LineOfModels line(a, b, between, 2);
  const EvalText text = text_of(a, golden);
  for (const double alpha : {0.5, 1.0, 0.0}) {
    line.move_to(alpha);
    const double nats = score_text(*device, between, text, {}).nats;
    for (const auto& [end, model] : {std::pair(0.0, &a), std::pair(1.0, &b)}) {
      const double of_end = score_text(*device, *model, text, {}).nats;
      if (alpha == end)
        EXPECT_EQ(nats, of_end);
      else
        EXPECT_NE(nats, of_end);
    }
  }
}

TEST(Compare, TheSameModelDoesNotDiffer) {
  const nlohmann::json golden = golden_file();
  const auto device = make_test_device(2);
  const Model model = load_model(kModel, *device);
  const Divergence d = compare_models(*device, model, model, text_of(model, golden), {});
  EXPECT_EQ(d.kl.mean, 0);
  EXPECT_EQ(d.same_top.mean, 1);
  EXPECT_EQ(d.log_ratio.mean, 0);
  EXPECT_EQ(d.rms_change, 0);
}

TEST(Compare, SameBitsForAnyNumberOfThreads) {
  const nlohmann::json golden = golden_file();
  const auto run = [&](int threads) {
    const auto device = make_test_device(threads);
    const Model base = load_model(kModel, *device), model = changed_model(*device, golden);
    return compare_models(*device, base, model, text_of(base, golden), {});
  };
  const Divergence one = run(1), three = run(3);
  EXPECT_EQ(one.kl.mean, three.kl.mean);
  EXPECT_EQ(one.kl.error, three.kl.error);
  EXPECT_EQ(one.kl_percentiles, three.kl_percentiles);
  EXPECT_EQ(one.change_percentiles, three.change_percentiles);
}

// The error of a ratio estimator over blocks, from the tokens' own scores.
TEST(Compare, ErrorsAreOverBlocks) {
  const nlohmann::json golden = golden_file();
  const auto device = make_test_device(2);
  const Model base = load_model(kModel, *device), model = changed_model(*device, golden);
  const EvalText text = text_of(base, golden);
  std::vector<double> log_p, log_q;
  score_text(*device, base, text, {}, [&](const TokenScore& t) { log_p.push_back(t.token.logprob); });
  score_text(*device, model, text, {}, [&](const TokenScore& t) { log_q.push_back(t.token.logprob); });
  std::vector<double> sums, counts;
  for (size_t i = 0; i < log_p.size(); ++i) {
    if (i % size_t(kScoreBlock) == 0) sums.push_back(0), counts.push_back(0);
    sums.back() += log_p[i] - log_q[i];
    ++counts.back();
  }
  double mean = 0, squares = 0;
  for (const double s : sums) mean += s / double(log_p.size());
  for (size_t i = 0; i < sums.size(); ++i) squares += std::pow(sums[i] - mean * counts[i], 2);
  const double b = double(sums.size());
  const Divergence d = compare_models(*device, base, model, text, {});
  EXPECT_EQ(d.blocks, int64_t(sums.size()));
  EXPECT_NEAR(d.log_ratio.mean, mean, 1e-12);
  EXPECT_NEAR(d.log_ratio.error, std::sqrt(b / (b - 1) * squares) / double(log_p.size()), 1e-12);
}

TEST(Compare, Percentiles) {
  EXPECT_EQ(percentile({1, 2, 4}, 50), 2);
  EXPECT_EQ(percentile({1, 2, 4}, 75), 3);
  EXPECT_EQ(percentile({1, 2, 4}, 100), 4);
  EXPECT_EQ(percentile({7}, 0.1), 7);
}

TEST(Compare, RefusesModelsThatDoNotCompare) {
  const auto device = make_test_device(1);
  const auto spec = [](int64_t vocab, bool tied, int64_t d_ff) {
    return testing::small_model("tiny", {.vocab = vocab,
                                         .d_model = 24,
                                         .context = 64,
                                         .tied = tied,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .d_head = 6,
                                         .d_ff = d_ff});
  };
  const Model a = random_model(spec(61, true, 40), *device, 1), vocab = random_model(spec(62, true, 40), *device, 1),
              untied = random_model(spec(61, false, 40), *device, 1),
              wide = random_model(spec(61, true, 48), *device, 1);
  Model based = random_model(spec(61, true, 40), *device, 1);
  based.spec.rope.base = 77;
  Model between = random_model(a.spec, *device, 2);
  const EvalText text{.documents = {{1, 2, 3}}, .bos = {}, .bytes = 2};
  testing::expect_contains(testing::message_of([&] { compare_models(*device, a, vocab, text, {}); }), "61 and 62");
  const auto refuses = [&](const Model& b, const std::vector<std::string>& words) {
    const std::string message = testing::message_of([&] { LineOfModels(a, b, between, 1); });
    for (const std::string& word : words) testing::expect_contains(message, word);
  };
  refuses(untied, {"only B", "output.weight"});
  refuses(wide, {"blk.0.ffn_gate.weight", "[40,24]", "[48,24]"});
  refuses(based, {"rope_base"});
}

}  // namespace
}  // namespace toy
