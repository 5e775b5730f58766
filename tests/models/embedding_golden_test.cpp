// Embeddings of the service against transformers' hidden states (tests/golden/make_embedding_golden.py).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "testing/errors.h"
#include "testing/family_golden.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/service.h"

namespace toy::embedding_golden_test {
namespace {

using testing::GoldenFamily;
using testing::numbers;

class EmbeddingGolden : public ::testing::TestWithParam<const char*> {
 protected:
  // The prompt's embedding, with so many sequences and rows in a call. `others`: requests of other kinds run meanwhile.
  static std::vector<float> embed(const Device& device, const Model& model, std::span<const int32_t> ids,
                                  Pooling pooling, const DecoderOptions& options, bool others = false) {
    Decoder decoder(const_cast<Device&>(device), model, options);
    GenerationService service(decoder, nullptr);
    std::vector<float> result;
    TextRequest r{.prompt = {ids.begin(), ids.end()}, .options = {.max_tokens = 0}};
    r.embed = EmbedOptions{.pooling = pooling};
    r.on_end = [&](const TextEnd& end) {
      EXPECT_FALSE(end.error);
      result = end.embedding;
    };
    if (others) {
      service.submit({.prompt = {ids.begin(), ids.end()}, .options = {.max_tokens = 20}});
      service.submit({.prompt = {ids.begin(), ids.begin() + 9}, .options = {.max_tokens = 40}});
    }
    service.submit(r);
    if (others)
      service.submit({.prompt = {ids.begin(), ids.end()}, .options = {.max_tokens = 0}, .score_prompt = true});
    service.run();
    return result;
  }
};

TEST_P(EmbeddingGolden, MeanLastAndFirst) {
  const GoldenFamily g(GetParam());
  const gguf::File golden = gguf::File::open(std::string(TOY_SOURCE_DIR) + "/tests/golden/embeddings.golden.gguf");
  const std::span<const int32_t> ids(g.ids.data(), 64);
  for (const bool reference : {true, false}) {
    const auto device = reference ? make_reference_device() : make_test_device(2);
    const Model model = load_model(g.write(), *device);
    for (const auto& [pooling, name] :
         {std::pair(Pooling::mean, "mean"), std::pair(Pooling::last, "last"), std::pair(Pooling::first, "first")}) {
      const std::vector<float> want = numbers<float>(golden, fmt::format("{}.{}", GetParam(), name));
      const std::vector<float> got = embed(*device, model, ids, pooling, {.context = 64, .hidden = true});
      ASSERT_EQ(got.size(), want.size());
      double top = 0, most = 0, length = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        top = std::max(top, double(std::abs(want[i])));
        most = std::max(most, double(std::abs(got[i] - want[i])));
        length += double(got[i]) * double(got[i]);
      }
      // As family_golden_test.cpp: units of 2^-24 of the largest magnitude, to which our elements and the golden ones
      // are rounded. Dividing by the length rounds once more, by up to one unit.
      const double units = most / (top * 0x1p-24);
      RecordProperty(fmt::format("{} {}", name, reference ? "reference" : "cpu"), fmt::format("{:.2f}", units));
      EXPECT_LE(units, reference ? 2.1 : 128) << name;
      // Each element is rounded once.
      EXPECT_NEAR(length, 1, 0x1p-23) << name;
    }
  }
}

// Alone, in pieces, in a small cache, and among other requests with the same prompt.
TEST_P(EmbeddingGolden, TheSameBitsInAnyBatch) {
  const GoldenFamily g(GetParam());
  const auto device = make_test_device(2);
  const Model model = load_model(g.write(), *device);
  const std::span<const int32_t> ids(g.ids.data(), 150);
  for (const Pooling pooling : {Pooling::mean, Pooling::last, Pooling::first}) {
    const std::vector<float> alone = embed(*device, model, ids, pooling, {.context = 200, .hidden = true});
    EXPECT_FALSE(alone.empty());
    EXPECT_EQ(embed(*device, model, ids, pooling, {.context = 200, .max_rows = 7, .hidden = true}), alone);
    for (const int sequences : {1, 3}) {
      DecoderOptions o{.sequences = sequences, .context = 200, .max_rows = 33, .hidden = true};
      EXPECT_EQ(embed(*device, model, ids, pooling, o, true), alone);
      // Too small for all: the youngest are preempted and computed again.
      const DecodeShape shape = decode_shape(model, o);
      const auto paged = [](const StateSlot& slot) { return slot.kind == StateSlot::Kind::paged && slot.pool == 0; };
      if (std::ranges::all_of(state_slots(model.spec, shape), paged) && page_pools(model.spec, shape)[0].window == 0)
        o.cache = 4 * shared_page_bytes(model.spec, shape);
      EXPECT_EQ(embed(*device, model, ids, pooling, o, true), alone);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transformers, EmbeddingGolden,
                         ::testing::Values("llama", "gemma2", "qwen3", "gpt2", "gpt_oss", "qwen35", "lfm2",
                                           "granitehybrid"));

TEST(Embedding, WhatCannotBe) {
  const GoldenFamily g("llama");
  const auto device = make_test_device(1);
  const Model model = load_model(g.write(), *device);
  TextRequest r{.prompt = {1, 2, 3}, .options = {.max_tokens = 0}};
  r.embed = EmbedOptions{};
  Decoder without(*device, model, {.context = 64});
  GenerationService cannot(without, nullptr);
  EXPECT_NE(testing::error_of([&] { cannot.submit(r); }).find("hidden"), std::string::npos);
  EXPECT_NE(testing::error_of([&] {
              without.decode(std::vector<DecodeRow>{{0, 1, false, true}});
            }).find("hidden"),
            std::string::npos);
  Decoder with(*device, model, {.context = 64, .hidden = true});
  GenerationService service(with, nullptr);
  r.options.max_tokens = 5;
  EXPECT_NE(testing::error_of([&] { service.submit(r); }).find("without a text"), std::string::npos);
  r.options.max_tokens = 0;
  r.prompt.clear();
  EXPECT_NE(testing::error_of([&] { service.submit(r); }).find("at least one token"), std::string::npos);
}

}  // namespace
}  // namespace toy::embedding_golden_test
