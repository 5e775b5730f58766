// Mistakes of a program that decodes: an Error each, and nothing has changed.
#include <gtest/gtest.h>

#include <limits>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/decode/decoder.h"
#include "toy/decode/sampler.h"
#include "toy/decode/scheduler.h"
#include "toy/models/model.h"

namespace toy::misuse_test {
namespace {

using testing::error_of;

struct DecodeMisuse : ::testing::Test {
  std::unique_ptr<Device> device = make_test_device(1);
  Model model = random_model(model_spec("tiny"), *device, 1);
  ModelSpec with_heads(int64_t width) const {
    ModelSpec spec = model.spec;
    for (LayerSpec& l : spec.layers) l.d_head = width;
    return spec;
  }
};

TEST_F(DecodeMisuse, States) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  Decoder d(*device, model, {.sequences = 2, .context = 64, .max_rows = 8});
  const DecodeRow rows[] = {{0, 1, true}, {0, 2, true}};
  d.decode(rows);
  DecodeState& state = d.state();
  EXPECT_EQ(error_of([&] { state.extend(0, -1); }), "decoder: sequence 0 cannot be extended by -1 positions");
  EXPECT_EQ(error_of([&] { state.extend(0, kHuge); }),
            "context: sequence 0 holds 2 positions, 9223372036854775807 more do not fit into 64; use a larger --ctx");
  EXPECT_EQ(error_of([&] { state.length(9); }), "decoder: sequence 9 of 2");
  EXPECT_EQ(error_of([&] { state.length(-1); }), "decoder: sequence -1 of 2");
  EXPECT_EQ(error_of([&] { state.reset(9); }), "decoder: sequence 9 of 2");
  EXPECT_EQ(error_of([&] { state.snapshot(9); }), "decoder: sequence 9 of 2");
  EXPECT_EQ(state.length(0), 2);
  EXPECT_EQ(error_of([&] { Scheduler(d, {0, 0}); }), "scheduler: sequence 0 is given twice");
  EXPECT_NE(error_of([&] { Decoder(*device, model, {.context = -1}); }).find("context of -1"), std::string::npos);
  EXPECT_NE(error_of([&] { Decoder(*device, model, {.max_rows = 0}); }).find("at most 0 rows"), std::string::npos);
}

TEST_F(DecodeMisuse, Shapes) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const auto message = [&](const DecodeShape& shape) {
    return error_of([&] { DecodeState(model.spec, *device, shape); });
  };
  EXPECT_EQ(message({-1, 64}), "decoder: -1 sequences, expected at least 1");
  EXPECT_EQ(message({0, 64}), "decoder: 0 sequences, expected at least 1");
  EXPECT_EQ(message({1, 0}), "decoder: a context of 0 positions, expected at least 1");
  EXPECT_EQ(message({2, kHuge}),
            "decoder: 2 sequences of 9223372036854775807 positions, expected at most 2147483647 in all");
  EXPECT_EQ(state_bytes(model.spec, {1, kHuge}), size_t(1) << 62);
}

// What a device stores in f64 takes twice the bytes.
TEST_F(DecodeMisuse, BytesAreThoseOfTheDevice) {
  const auto reference = make_reference_device();
  const DecodeShape shape{2, 100};
  for (const Device* on : {device.get(), reference.get()})
    EXPECT_EQ(state_bytes(model.spec, shape, on), DecodeState(model.spec, *on, shape).bytes()) << on->name();
  EXPECT_EQ(state_bytes(model.spec, shape, reference.get()), 2 * state_bytes(model.spec, shape));
  const ModelSpec wide = with_heads(32);
  const size_t values = state_bytes(wide, shape) / 4;
  EXPECT_EQ(state_bytes(wide, {2, 100, DType::f16}), 2 * values);
  EXPECT_EQ(state_bytes(wide, {2, 100, DType::q8_0}), values / 32 * 34);
  EXPECT_EQ(DecodeState(wide, *device, {2, 100, DType::q8_0}).bytes(), values / 32 * 34);
}

// f32 where all weights are, else f16; and what a model's heads cannot have is refused.
TEST_F(DecodeMisuse, TypesOfKeysAndValues) {
  EXPECT_EQ(Decoder(*device, model, {.context = 64}).kv(), DType::f32);
  const testing::Folder folder;
  save_model(random_model(with_heads(32), *device, 1), folder.path("half.gguf"), DType::f16);
  const Model half = load_model(folder.path("half.gguf"), *device);
  EXPECT_EQ(Decoder(*device, half, {.context = 64}).kv(), DType::f16);
  EXPECT_EQ(Decoder(*device, half, {.context = 64, .kv = DType::q8_0}).kv(), DType::q8_0);
  const Model odd = random_model(with_heads(48), *device, 1);
  EXPECT_EQ(error_of([&] { Decoder(*device, odd, {.kv = DType::q8_0}); }),
            "decoder: keys and values as q8_0 need heads whose width is a multiple of 32, but layer 0 has 48; use f16");
  EXPECT_EQ(error_of([&] { Decoder(*device, model, {.kv = DType::bf16}); }),
            "decoder: keys and values as bf16; use f32, f16 or q8_0");
}

TEST_F(DecodeMisuse, AModelOfAnotherDevice) {
  const auto reference = make_reference_device();
  const std::string made = "was made for the device '" + std::string(device->name()) + "'";
  EXPECT_NE(error_of([&] { Decoder(*reference, model, {}); }).find(made), std::string::npos);
}

TEST_F(DecodeMisuse, LogitsAndHistories) {
  const std::vector<float> logits{1, 2};
  const std::vector<int32_t> outside{99999999}, negative{-4};
  EXPECT_EQ(error_of([&] { log_softmax_at(logits, 9); }), "token id 9 is outside the 2 logits");
  EXPECT_EQ(error_of([] { log_softmax_at({}, 0); }), "token id 0 is outside the 0 logits");
  EXPECT_EQ(error_of([] { Sampler({.temperature = 1}).pick({}, 0); }), "there are no logits to choose from");
  EXPECT_EQ(error_of([] { Sampler({}).pick({}, 0); }), "there are no logits to choose from");
  Sampler penalizing({.repeat_penalty = 2});
  EXPECT_EQ(error_of([&] { penalizing.pick(logits, 0, outside); }), "token id 99999999 is outside the 2 logits");
  EXPECT_EQ(error_of([&] { penalizing.pick(logits, 0, negative); }), "token id -4 is outside the 2 logits");
  EXPECT_TRUE(top_logprobs({}, 3).empty());
}

TEST_F(DecodeMisuse, Saving) {
  const std::string path = ::testing::TempDir() + "toy_misuse.gguf";
  EXPECT_EQ(error_of([&] { save_model(model, path, DType::f64); }),
            "save: weights cannot be stored as f64; expected f32, f16 or bf16");
  Model empty;
  empty.spec = model.spec;
  EXPECT_EQ(error_of([&] { save_model(empty, path); }), "save: the model has no weights");
}

}  // namespace
}  // namespace toy::misuse_test
