// What programs draw with where nobody says it: one temperature, and what a model's file asks for.
#include <gtest/gtest.h>

#include "toy/decode/usual_sampling.h"
#include "toy/formats/sampling_keys.h"

namespace toy::usual_sampling_test {
namespace {

TEST(UsualSampling, IsOneTemperatureAndWhatTheFileSays) {
  const UsualSampling none = usual_sampling();
  EXPECT_EQ(none.options.temperature, 0.8);
  EXPECT_EQ(none.options.top_k, 0);
  EXPECT_EQ(none.text(), "temperature 0.8");
  const UsualSampling qwen = usual_sampling({{"general.sampling.temp", 0.6f},
                                             {"general.sampling.top_k", int32_t(20)},
                                             {"general.sampling.top_p", 0.95f},
                                             {"general.sampling.min_p", 7.0f},                           // out of range
                                             {"general.sampling.penalty_repeat", std::string("1.1")}});  // no number
  EXPECT_EQ(qwen.options.temperature, 0.6);
  EXPECT_EQ(qwen.options.top_k, 20);
  EXPECT_EQ(qwen.options.top_p, 0.95);
  EXPECT_EQ(qwen.options.min_p, 0);
  EXPECT_EQ(qwen.options.repeat_penalty, 1);
  EXPECT_EQ(qwen.text(), "temperature 0.6, top_k 20, top_p 0.95 (the file's)");
  EXPECT_EQ(qwen.text({"temperature", "top_p"}), "top_k 20 (the file's)");
  EXPECT_EQ(usual_sampling({{"general.sampling.top_k", 2.5f}}).said.size(), 0u);
}

TEST(UsualSampling, EveryKeyIsOfAField) {
  for (const SamplingKey& key : kSamplingKeys) {
    int found = 0;
    const SamplerOptions options;
    SamplerOptions::fields(options, [&](const Option& o, const auto&) { found += o.name == key.field; });
    EXPECT_EQ(found, 1) << key.field;
    EXPECT_TRUE(usual_sampling({{std::string(key.gguf), int32_t(1)}}).says(key.field)) << key.field;
  }
}

TEST(UsualSampling, GivesWayToWhatIsGiven) {
  const UsualSampling usual =
      usual_sampling({{"general.sampling.temp", 0.6f}, {"general.sampling.top_k", int32_t(20)}});
  SamplerOptions given{.temperature = 0.1, .top_p = 0.5};
  const SamplerOptions s = with_usual(given, usual, {"temperature", "top_p"});
  EXPECT_EQ(s.temperature, 0.1);
  EXPECT_EQ(s.top_k, 20);
  EXPECT_EQ(s.top_p, 0.5);
  // A chain without top_k, and mirostat, which takes its place, are no error.
  given.steps = {SamplerStep::temperature};
  EXPECT_EQ(with_usual(given, usual, {"temperature"}).top_k, 0);
  given.steps = default_sampler_steps(), given.mirostat = true, given.top_p = 1;
  const SamplerOptions mirostat = with_usual(given, usual, {"temperature"});
  EXPECT_EQ(mirostat.top_k, 0);
  const Sampler goes_together(mirostat);
}

}  // namespace
}  // namespace toy::usual_sampling_test
