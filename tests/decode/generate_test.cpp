#include "toy/decode/generate.h"

#include <gtest/gtest.h>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/sanitizers.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/text_stream.h"

namespace toy::generate_test {
namespace {

TEST(Generate, StopsWhenAskedAndAtTheEnd) {
  const auto device = make_test_device(1);
  const Model model = random_model(model_spec("tiny"), *device, 1);
  Decoder d(*device, model, {.context = 64});
  const std::vector<int32_t> prompt{1, 2, 3};
  const auto all = generate(d, 0, prompt, {}, {.max_tokens = 10});
  ASSERT_EQ(all.size(), 10u);
  d.state().reset(0);
  int seen = 0;
  EXPECT_EQ(generate(d, 0, prompt, {}, {.max_tokens = 10}, [&](const GeneratedToken&) { return ++seen < 4; }).size(),
            4u);
  d.state().reset(0);
  const int32_t stop = all[5].chosen.id;
  const auto cut = generate(d, 0, prompt, std::vector{stop}, {.max_tokens = 10});
  EXPECT_EQ(cut.back().chosen.id, stop);
  EXPECT_LE(cut.size(), 6u);
  EXPECT_THROW(generate(d, 0, {}, std::vector<int32_t>{}, {}), Error);
}

// Text to text is the same tokens as by hand, and ends where it should.
TEST(Generate, TextToText) {
  const auto device = make_test_device(2);
  Model model = random_model(model_spec("tiny"), *device, 1);
  model.tokenizer = make_byte_tokenizer();
  const std::string prompt = "toy";
  Decoder d(*device, model, {.context = 64});
  std::vector<int32_t> ids;
  for (const auto& t : generate(d, 0, encode_prompt(*model.tokenizer, prompt), {}, {.max_tokens = 30}))
    ids.push_back(t.chosen.id);
  TextStream stream(*model.tokenizer, encode_prompt(*model.tokenizer, prompt));
  std::string by_hand;
  for (const int32_t id : ids) by_hand += stream.push(id);
  by_hand += stream.finish();

  EXPECT_EQ(generate(*device, model, prompt, {.max_tokens = 30}), by_hand);
  EXPECT_EQ(generate(*device, model, prompt, {.max_tokens = 0}), "");
  const std::string stop = by_hand.substr(9, 2);
  EXPECT_EQ(generate(*device, model, prompt, {.max_tokens = 30}, {stop}), by_hand.substr(0, by_hand.find(stop)));
  const GenerateOptions drawn{.max_tokens = 30, .sampler = {.temperature = 1, .seed = 5}};
  EXPECT_EQ(generate(*device, model, prompt, drawn), generate(*device, model, prompt, drawn));
  EXPECT_NE(generate(*device, model, prompt, drawn), by_hand);
}

TEST(Generate, TextEndsWithTheContextAndNeedsATokenizer) {
  const auto device = make_test_device(1);
  Model model = random_model(model_spec("tiny", 0, 16), *device, 1);
  const auto message = [&](std::string_view prompt, const GenerateOptions& o = {}) {
    return testing::message_of([&] { generate(*device, model, prompt, o); });
  };
  testing::expect_contains(message("toy"), "tokenizer");
  model.tokenizer = make_byte_tokenizer();
  // 16 positions hold the prompt and all of the text but its last token.
  EXPECT_EQ(generate(*device, model, "0123456789").size(), 7u);
  testing::expect_contains(message(""), "0 tokens");
  testing::expect_contains(message("0123456789abcdefg"), "17 tokens");
  testing::expect_contains(message("a", {.max_tokens = -1}), "-1");
}

// The published greedy output of a real trained model (../shared/data/README.md).
class SharedStories : public ::testing::TestWithParam<const char*> {};

TEST_P(SharedStories, GreedyTextIsThePublishedOne) {
  const std::string path = testing::shared_path("data/stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "no data/stories260K.gguf under TOY_SHARED_DIR";
  const std::string wanted = GetParam();
  std::unique_ptr<Device> device;
  if (wanted == "opencl") {
    if (testing::kAddressSanitizer || testing::kThreadSanitizer) GTEST_SKIP() << "drivers run without sanitizers";
    try {
      device = make_opencl_device();
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  } else {
    device = wanted == "cpu" ? make_test_device(2) : make_reference_device();
  }
  const Model model = load_model(path, *device);
  Decoder d(*device, model, {.context = 256});
  std::vector<int32_t> ids{1};
  for (const auto& t :
       generate(d, 0, std::vector<int32_t>{1}, model.tokenizer->end_of_generation(), {.max_tokens = 200}))
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

INSTANTIATE_TEST_SUITE_P(SharedDevices, SharedStories, ::testing::Values("cpu", "reference", "opencl"));

}  // namespace
}  // namespace toy::generate_test
