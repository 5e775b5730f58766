// Against PyTorch in f64 (tests/golden/make_eval_golden.py): perplexity of windows, strides, documents; the divergence
// of two models; answers to questions.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/eval/choices.h"
#include "toy/eval/compare.h"
#include "toy/eval/score.h"

namespace toy::golden_test {
namespace {

const std::string kFolder = std::string(TOY_SOURCE_DIR) + "/tests/golden/";

nlohmann::json read_golden() {
  std::ifstream file(kFolder + "eval_bytes.golden.json");
  EXPECT_TRUE(file) << kFolder;
  return nlohmann::json::parse(file);
}

// A logit is within `roundings` units of 2^-24 of the largest (as in tests/models/golden_test.cpp: 64 on the cpu; the
// reference computes in f64 and rounds once, when logits are read). log p is a logit minus a soft maximum of logits, so
// it moves by at most twice as much, and a mean of such by no more.
void expect_golden(Device& device, double roundings) {
  const auto golden = read_golden();
  const double tolerance = 2 * roundings * 0x1p-24 * golden.at("largest_logit").get<double>();
  const Model model = load_model(kFolder + "eval_bytes.model.gguf", device);
  const std::string text = golden.at("text");
  ASSERT_GE(golden.at("cases").size(), 5u);
  for (const auto& c : golden.at("cases")) {
    SCOPED_TRACE(c.dump());
    const std::vector<std::string> documents =
        c.value("by_documents", false) ? split_documents(text) : std::vector<std::string>{text};
    const TextScore s = score_text(device, model, tokenize_for_eval(*model.tokenizer, documents, true),
                                   {.context = c.at("ctx"), .stride = c.at("stride")});
    EXPECT_EQ(s.tokens, c.at("tokens").get<int64_t>());
    EXPECT_EQ(s.bytes, c.at("bytes").get<int64_t>());
    EXPECT_NEAR(s.nats_per_token(), c.at("nats_per_token").get<double>(), tolerance);
    EXPECT_NEAR(s.bits_per_byte(), c.at("bits_per_byte").get<double>(), tolerance / std::log(2.0));
    const double perplexity = c.at("perplexity");
    EXPECT_NEAR(s.perplexity(), perplexity, perplexity * std::expm1(tolerance));
  }
}

TEST(EvalGolden, PerplexityOnTheReference) { expect_golden(*make_reference_device(), 1); }
TEST(EvalGolden, PerplexityOnTheCpu) { expect_golden(*make_test_device(2), 64); }

// Of 64 roundings each, see above. A logarithm of a probability is off by e = 2 * 64 units of the largest logit. The
// divergence has the two logarithms in each term, 2e, and weights that are off by a factor exp(e), of terms whose
// absolute values sum to at most 2 * (the largest difference of logarithms); 20 bounds that for logits below 7.
TEST(EvalGolden, Divergence) {
  const auto golden = read_golden();
  const auto device = make_test_device(2);
  const Model base = load_model(kFolder + "eval_bytes.model.gguf", *device);
  Model larger = load_model(kFolder + "eval_bytes.model.gguf", *device, LoadMode::trainable);
  std::vector<float> embeddings = larger.params->read("token_embd.weight");
  for (float& e : embeddings) e *= golden.at("larger").get<float>();
  larger.params->write("token_embd.weight", embeddings);
  const std::string text = golden.at("text");
  const EvalText ids = tokenize_for_eval(*base.tokenizer, std::vector<std::string>{text}, true);
  const Divergence d = compare_models(*device, base, larger, ids, {.context = 128, .stride = 64});
  const double e = 2 * 64 * 0x1p-24 * 1.25 * golden.at("largest_logit").get<double>();
  const auto& expected = golden.at("divergence");
  EXPECT_NEAR(d.kl.mean, expected.at("kl").get<double>(), 22 * e);
  EXPECT_NEAR(d.difference.mean, expected.at("difference").get<double>(), 2 * e);
  EXPECT_NEAR(d.probability_rms, expected.at("probability_rms").get<double>(), 2 * std::expm1(e));
  EXPECT_NEAR(d.same_top.mean, expected.at("same_top").get<double>(), 1.5 / double(d.tokens));  // one tie
  EXPECT_EQ(d.tokens, 421);
}

TEST(EvalGolden, Choices) {
  const auto golden = read_golden();
  const auto device = make_test_device(2);
  const Model model = load_model(kFolder + "eval_bytes.model.gguf", *device);
  const double e = 2 * 64 * 0x1p-24 * golden.at("largest_logit").get<double>();
  std::vector<Question> questions;
  for (const auto& q : golden.at("questions")) questions.push_back(parse_question(q.dump()));
  size_t at = 0;
  score_choices(*device, model, questions, {}, [&](const Question& q, const AnsweredQuestion& a) {
    const auto expected = golden.at("questions").at(at++).at("logprobs").get<std::vector<double>>();
    ASSERT_EQ(a.logprobs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(a.logprobs[i], expected[i], e * double(q.choices[i].answer.size() + 1)) << at << ", " << i;
  });
  EXPECT_EQ(at, 3u);
}

}  // namespace
}  // namespace toy::golden_test
