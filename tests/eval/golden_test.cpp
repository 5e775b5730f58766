// Perplexity against PyTorch in f64 (tests/golden/make_eval_golden.py): windows, strides, documents.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/eval/score.h"

namespace toy {
namespace {

// A logit is within `roundings` units of 2^-24 of the largest (as in tests/models/golden_test.cpp: 64 on the cpu; the
// reference computes in f64 and rounds once, when logits are read). log p is a logit minus a soft maximum of logits, so
// it moves by at most twice as much, and a mean of such by no more.
void expect_golden(Device& device, double roundings) {
  const std::string folder = std::string(TOY_SOURCE_DIR) + "/tests/golden/";
  std::ifstream file(folder + "eval_bytes.golden.json");
  ASSERT_TRUE(file) << folder;
  const auto golden = nlohmann::json::parse(file);
  const double tolerance = 2 * roundings * 0x1p-24 * golden.at("largest_logit").get<double>();
  const Model model = load_model(folder + "eval_bytes.model.gguf", device);
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

}  // namespace
}  // namespace toy
