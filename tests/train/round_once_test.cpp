// Training in bf16 where plans round operands once, against rounding inside of every product: the same bits, less
// memory.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "backend/forwarding_device.h"
#include "testing/adapters.h"
#include "testing/sanitizers.h"
#include "toy/backend/devices.h"
#include "train_testing.h"

namespace toy::round_once_tests::round_once_test {
namespace {

bool both_f32(const KernelQuery& q) noexcept {
  return q.products == DType::bf16 && q.in[0].dtype == DType::f32 && q.in[1].dtype == DType::f32;
}

// A device whose products take operands in f32 only, and round them on the way.
class RoundsInside final : public ForwardingDevice {
 public:
  explicit RoundsInside(Device& to) : ForwardingDevice(to), kernels_(to.kernels().begin(), to.kernels().end()) {
    std::set<std::string_view> seen;
    for (KernelRecord& k : kernels_) {
      const bool first = seen.insert(k.op).second;  // the one of products in bf16
      if (first && k.op.starts_with("linear")) k.accepts = both_f32;
    }
  }
  std::span<const KernelRecord> kernels() const override { return kernels_; }

 private:
  std::vector<KernelRecord> kernels_;
};

struct Case {
  const char* name;
  ModelSpec spec;
  TrainerOptions options = {};
  bool adapter = false;
};

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> weights;
  bool operator==(const Outcome&) const = default;
};

Outcome train(Device& device, const Case& c) {
  Model model = random_model(c.spec, device, 9);
  if (c.adapter) {
    testing::add_adapter(model, 5);
    model.spec.roles.train = {"*.lora_[ab]"};
  }
  TrainerOptions options = c.options;
  options.batch = 2, options.tokens = 20, options.compute = DType::bf16;
  Trainer trainer(device, model, options);
  const std::vector<int32_t> ids = testing::walk(2000);
  const WindowSampler sampler(ids, options.rows(), options.tokens, 1);
  Outcome o;
  for (int i = 0; i < (testing::kAddressSanitizer ? 1 : 4); ++i)  // which makes fibers slow
    o.losses.push_back(trainer.step(sampler.batch(i), 3e-3).loss);
  for (const TensorSpec& t : tensors_of(model.spec)) o.weights[t.name] = model.params->read(t.name);
  return o;
}

ModelSpec of_json(const char* json) { return spec_from_json(nlohmann::json::parse(json), "test"); }
constexpr const char* kHybrid = R"({"name": "hybrid", "architecture": "toy", "d_model": 24, "n_layers": 2, "n_heads": 3,
    "n_kv": 1, "d_ff": 40, "vocab": 97, "context": 64, "delta_key_heads": 1, "delta_value_heads": 2, "delta_width": 6,
    "layers": "gdn(conv_width=3),attn"})";
// Gates by gelu, norms after each part, softcaps.
constexpr const char* kGemma =
    R"({"name": "gemma", "architecture": "gemma2", "d_model": 24, "n_layers": 2, "n_heads": 2,
    "n_kv": 1, "d_head": 12, "d_ff": 40, "vocab": 97, "context": 64, "window": 4, "attention_softcap": 5,
    "logit_softcap": 4})";
// Norms of queries and keys.
constexpr const char* kQwen = R"({"name": "qwen", "architecture": "qwen3", "d_model": 24, "n_layers": 1, "n_heads": 2,
    "n_kv": 1, "d_head": 12, "d_ff": 40, "vocab": 97, "context": 64})";

class RoundOnce : public ::testing::TestWithParam<Case> {};

TEST_P(RoundOnce, HasTheBitsOfRoundingInProducts) {
  const auto emulated = make_emulated_device();
  RoundsInside inside(*emulated);
  const Outcome once = train(*emulated, GetParam()), expected = train(inside, GetParam());
  EXPECT_TRUE(once == expected);
  EXPECT_NE(once.losses.front(), once.losses.back());
}

INSTANTIATE_TEST_SUITE_P(
    Trainings, RoundOnce,
    ::testing::Values(
        Case{"llama", testing::odd_spec(true)}, Case{"gpt2", testing::gpt2_spec()}, Case{"hybrid", of_json(kHybrid)},
        Case{"gemma", of_json(kGemma)}, Case{"qwen", of_json(kQwen)},
        Case{"adapter", testing::odd_spec(false), {}, true},
        Case{"accumulated", testing::odd_spec(false), {.accumulate = 2}},
        Case{"streaming", testing::odd_spec(false), {.optimizer = {.clip = 0}, .updates = TrainerOptions::streaming}},
        Case{"recomputed", testing::odd_spec(true), {.recompute = {.whole = 1, .light = 1}}}),
    [](const auto& test) { return std::string(test.param.name); });

// The same kernels, compiled by an OpenCL driver.
TEST(RoundOnceOpenCl, HasTheBitsOfEmulated) {
  if (testing::kAddressSanitizer || testing::kThreadSanitizer) GTEST_SKIP() << "drivers leak and race by themselves";
  std::unique_ptr<Device> opencl;
  try {
    opencl = make_opencl_device();
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  const auto emulated = make_emulated_device();
  for (const Case& c : {Case{"llama", testing::odd_spec(true)}, Case{"gemma", of_json(kGemma)}})
    EXPECT_TRUE(train(*opencl, c) == train(*emulated, c)) << c.name;
}

// Of many rows: activations count, and the copies of weights do not. Where norms are recomputed, these are not
// kept either.
TEST(RoundOnceMemory, TakesLess) {
  const auto emulated = make_emulated_device();
  RoundsInside inside(*emulated);
  for (const Recompute& recompute : {Recompute{}, Recompute{.light = 2}}) {
    const TrainerOptions options{.batch = 16, .tokens = 64, .compute = DType::bf16, .recompute = recompute};
    const auto plans = [&](Device& device) {
      return compile_training(device, testing::odd_spec(true), testing::all_f32, options);
    };
    const TrainPlans once = plans(*emulated), rounded_inside = plans(inside);
    EXPECT_LT(once.arena_bytes(), rounded_inside.arena_bytes()) << recompute.light;
    EXPECT_LT(once.step->cost().bytes, rounded_inside.step->cost().bytes);
  }
}

// Where gradients are not kept, copies of weights are not either: one is there at a time.
TEST(RoundOnceMemory, KeepsNoCopiesBesideFewRows) {
  const auto emulated = make_emulated_device();
  RoundsInside inside(*emulated);
  Model adapted = random_model(testing::odd_spec(false), *emulated, 9);
  testing::add_adapter(adapted, 5);
  adapted.spec.roles.train = {"*.lora_[ab]"};
  int64_t all = 0, largest = 0;
  for (const TensorSpec& t : tensors_of(testing::odd_spec(false)))
    all += t.shape.count(), largest = std::max(largest, t.shape.count());
  ASSERT_GT(all, 3 * largest);
  for (const ModelSpec& spec : {adapted.spec, testing::odd_spec(false)}) {
    const TrainerOptions options{.batch = 1,
                                 .tokens = 2,
                                 .optimizer = {.clip = 0},
                                 .updates = TrainerOptions::streaming,
                                 .compute = DType::bf16};
    const auto bytes = [&](Device& device) {
      return compile_training(device, spec, testing::all_f32, options).arena_bytes();
    };
    EXPECT_LE(bytes(*emulated), bytes(inside) + 2 * size_t(largest) * size_of(DType::bf16));
  }
}

}  // namespace
}  // namespace toy::round_once_tests::round_once_test
