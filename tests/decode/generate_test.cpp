#include "toy/decode/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "toy/backend/devices.h"

namespace toy {
namespace {

TEST(Sampler, GreedyTakesTheFirstOfTheLikeliest) {
  const std::vector<float> logits{1, 5, 5, 2};
  EXPECT_EQ(Sampler({}).pick(logits, 0), 1);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits{std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  const Sampler sampler({.temperature = 1, .seed = 5});
  std::vector<int> count(3);
  const int n = 30000;
  for (int i = 0; i < n; ++i) ++count[size_t(sampler.pick(logits, uint64_t(i)))];
  const double p[] = {0.1, 0.6, 0.3};
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(count[i], n * p[i], 5 * std::sqrt(n * p[i] * (1 - p[i]))) << i;  // 5 sigma
}

TEST(Sampler, TemperatureSharpens) {
  const std::vector<float> logits{0, 1};
  const Sampler cold({.temperature = 0.25, .seed = 1});
  int ones = 0;
  for (int i = 0; i < 10000; ++i) ones += cold.pick(logits, uint64_t(i));
  const double p = 1 / (1 + std::exp(-4.0));
  EXPECT_NEAR(ones, 10000 * p, 5 * std::sqrt(10000 * p * (1 - p)));
}

TEST(Sampler, TopKAndTopPCut) {
  const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  const Sampler k({.temperature = 1, .top_k = 2}), p({.temperature = 1, .top_p = 0.6}),
      one({.temperature = 1, .top_p = 1e-9});
  for (uint64_t i = 0; i < 2000; ++i) {
    EXPECT_LT(k.pick(logits, i), 2);
    EXPECT_LT(p.pick(logits, i), 2);
    EXPECT_EQ(one.pick(logits, i), 0);
  }
}

TEST(Sampler, DrawsDependOnSeedAndStepAlone) {
  const std::vector<float> logits(100, 0.0f);
  const Sampler a({.temperature = 1, .seed = 1}), b({.temperature = 1, .seed = 1}), c({.temperature = 1, .seed = 2});
  int differ = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(a.pick(logits, i), b.pick(logits, i));
    differ += a.pick(logits, i) != c.pick(logits, i);
  }
  EXPECT_GT(differ, 80);
}

TEST(Sampler, RefusesImpossibleOptions) {
  EXPECT_THROW(Sampler({.temperature = -1}), Error);
  EXPECT_THROW(Sampler({.temperature = NAN}), Error);
  EXPECT_THROW(Sampler({.top_k = -1}), Error);
  EXPECT_THROW(Sampler({.top_p = 0}), Error);
  EXPECT_THROW(Sampler({.top_p = 1.5}), Error);
}

TEST(Sampler, NanIsAFailure) {
  try {
    Sampler({}).pick(std::vector<float>{0, NAN}, 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::failure);
  }
}

TEST(Logprobs, AreLogSoftmax) {
  const std::vector<float> logits{1, 2, 3};
  const double lse = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  EXPECT_NEAR(log_softmax_at(logits, 0), 1 - lse, 1e-12);
  const auto best = top_logprobs(logits, 2);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].id, 2);
  EXPECT_EQ(best[1].id, 1);
  EXPECT_NEAR(best[0].logprob, 3 - lse, 1e-12);
}

TEST(Generate, StopsWhenAskedAndAtTheEnd) {
  const auto device = make_cpu_device(1);
  const Model model = random_model(model_spec("tiny"), *device, 1);
  Decoder d(*device, model, {.context = 64});
  const std::vector<int32_t> prompt{1, 2, 3};
  const auto all = generate(d, 0, prompt, std::nullopt, {.max_tokens = 10});
  ASSERT_EQ(all.size(), 10u);
  d.state().reset(0);
  int seen = 0;
  EXPECT_EQ(generate(d, 0, prompt, std::nullopt, {.max_tokens = 10}, [&](const GeneratedToken&) { return ++seen < 4; })
                .size(),
            4u);
  d.state().reset(0);
  const int32_t stop = all[5].chosen.id;
  const auto cut = generate(d, 0, prompt, stop, {.max_tokens = 10});
  EXPECT_EQ(cut.back().chosen.id, stop);
  EXPECT_LE(cut.size(), 6u);
  EXPECT_THROW(generate(d, 0, {}, std::nullopt, {}), Error);
}

// The published greedy output of a real trained model (../shared/data/README.md).
class SharedStories : public testing::TestWithParam<const char*> {};

TEST_P(SharedStories, GreedyTextIsThePublishedOne) {
  const std::string path = std::string(TOY_SHARED_DIR) + "/data/stories260K.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "../shared is absent: " << path;
  const auto device = std::string(GetParam()) == "cpu" ? make_cpu_device(2) : make_reference_device();
  const Model model = load_model(path, *device);
  Decoder d(*device, model, {.context = 256});
  std::vector<int32_t> ids{1};
  for (const auto& t : generate(d, 0, std::vector<int32_t>{1}, model.tokenizer->eos(), {.max_tokens = 200}))
    ids.push_back(t.chosen.id);
  const std::vector<int32_t> first(ids.begin() + 1, ids.begin() + 17);
  EXPECT_EQ(first,
            (std::vector<int32_t>{403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426, 338}));
  EXPECT_EQ(model.tokenizer->decode(ids),
            "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she "
            "saw a big, "
            "red ball. She wanted to play with it, but it was too high.\n"
            "Lily's mom said, \"Lily, let's go to the park.\" Lily was sad and didn't know what to do. She said, \"I "
            "want to play "
            "with your ball, but I can't find it.\"\n"
            "Lily was sad and didn't know what to do. She said, \"I'm sorry, Lily. I didn't know what to do.\"\n"
            "Lily didn't want to help her mom, so she");
}

INSTANTIATE_TEST_SUITE_P(SharedDevices, SharedStories, testing::Values("cpu", "reference"));

}  // namespace
}  // namespace toy
