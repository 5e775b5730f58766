// Where logits lie in a device's own memory, greedy texts need only ids from there.
#include <gtest/gtest.h>

#include <cmath>

#include "testing/decoding.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/generate.h"

namespace toy {
namespace {

ModelSpec spec_of() {
  return testing::small_model(
      "tiny",
      {.vocab = 61, .d_model = 40, .context = 100, .layers = 2, .heads = 2, .kv_heads = 2, .d_head = 20, .d_ff = 52});
}

std::vector<GeneratedToken> text_of(Device& device, const Model& model, const GenerateOptions& options) {
  Decoder decoder(device, model, {.context = 64, .max_rows = 8});
  return generate(decoder, 0, testing::random_ids(20, 61, Philox(7, "prompt")), std::span<const int32_t>(), options);
}
std::vector<int32_t> ids_of(const std::vector<GeneratedToken>& text) {
  std::vector<int32_t> ids;
  for (const GeneratedToken& t : text) ids.push_back(t.chosen.id);
  return ids;
}

TEST(Largest, IsThatOfTheLogits) {
  ProtectedDevice device(make_cpu_device(1));
  const Model model = random_model(spec_of(), device, 3);
  Decoder decoder(device, model, {.context = 64, .max_rows = 8});
  const std::vector<int32_t> ids = testing::random_ids(21, 61, Philox(7, "prompt"));
  std::vector<DecodeRow> rows;  // of three calls, and some rows want nothing
  for (size_t i = 0; i < ids.size(); ++i) rows.push_back({0, ids[i], i % 4 != 1 && i != 20});
  for (const bool read_first : {false, true}) {
    decoder.state().reset(0);
    decoder.decode(rows);
    ASSERT_EQ(decoder.logits_count(), 15u);
    if (read_first) decoder.logits(0);
    for (size_t i = 0; i < decoder.logits_count(); ++i) {
      const std::optional<int32_t> largest = decoder.largest(i);
      const auto logits = decoder.logits(i);
      EXPECT_EQ(largest, int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
  }
  const auto host = make_cpu_device(1);
  const Model same = random_model(spec_of(), *host, 3);
  Decoder visible(*host, same, {.context = 64, .max_rows = 8});
  visible.decode(rows);
  EXPECT_EQ(visible.largest(0), std::nullopt);
  EXPECT_TRUE(std::ranges::equal(visible.logits(14), decoder.logits(14)));
}

TEST(Largest, TextsAreTheSameWithAndWithoutLogprobs) {
  for (const bool own_memory : {false, true}) {
    std::unique_ptr<Device> device = make_cpu_device(1);
    if (own_memory) device = std::make_unique<ProtectedDevice>(std::move(device));
    const Model model = random_model(spec_of(), *device, 3);
    for (const double temperature : {0.0, 0.9}) {
      GenerateOptions options{.max_tokens = 12, .sampler = {.temperature = temperature}};
      const std::vector<GeneratedToken> all = text_of(*device, model, options);
      options.logprobs = false;
      const std::vector<GeneratedToken> ids = text_of(*device, model, options);
      EXPECT_EQ(ids_of(all), ids_of(ids));
      EXPECT_LE(all.front().chosen.logprob, 0);
      EXPECT_TRUE(std::isnan(ids.front().chosen.logprob));
      options.top_logprobs = 2;
      EXPECT_EQ(text_of(*device, model, options).front().chosen.logprob, all.front().chosen.logprob);
    }
  }
}

// Nothing is chosen from logits that are not numbers.
TEST(Largest, NaNIsAnError) {
  ProtectedDevice device(make_cpu_device(1));
  Model model = random_model(spec_of(), device, 3);
  std::vector<float> table = model.params->read("token_embd.weight");
  table[5 * size_t(model.spec.d_model)] = NAN;
  model.params->write("token_embd.weight", table);
  Decoder decoder(device, model, {.context = 64});
  decoder.decode(std::vector<DecodeRow>{{0, 1, true}});
  EXPECT_EQ(decoder.largest(0), std::nullopt);
  EXPECT_THROW(text_of(device, model, {.max_tokens = 2, .logprobs = false}), Error);
}

}  // namespace
}  // namespace toy
