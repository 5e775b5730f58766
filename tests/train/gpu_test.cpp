// Training with the kernels of GPUs against the cpu's, which add in other orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "testing/files.h"
#include "testing/sanitizers.h"
#include "toy/backend/devices.h"
#include "toy/synth/stories.h"
#include "toy/train/from_scratch.h"
#include "train_testing.h"

namespace toy::gpu_test {
namespace {

using testing::walk;

struct Case {
  const char* json;
  int steps;
};

// Losses of steps from weights that are `off` roundings away from the initial ones, up or down by chance.
std::vector<double> losses(Device& device, const ModelSpec& spec, int steps, double off = 0) {
  Model model = random_model(spec, device, 9);
  for (const TensorSpec& t : tensors_of(spec)) {
    std::vector<float> w = model.params->read(t.name);
    const Philox random(4, t.name);
    for (size_t i = 0; i < w.size(); ++i) w[i] *= float(1 + (random.uniform(i) < 0.5 ? off : -off) * 0x1p-24);
    model.params->write(t.name, w);
  }
  const std::vector<int32_t> ids = walk(2000);
  const WindowSampler sampler(ids, 2, 12, 1);
  Trainer trainer(device, model, {.batch = 2, .tokens = 12});
  std::vector<double> result;
  for (int i = 0; i < steps; ++i) result.push_back(trainer.step(sampler.batch(i), 5e-4).loss);
  return result;
}

class GpuTrainingOf : public ::testing::TestWithParam<Case> {};

// A value is within n + 16 roundings of what its operands say, n being the longest sum (here no row is longer than 64).
// So losses may be as far apart as weights that differ by so much take them, times 8 for the spread of that estimate:
// some roundings help, others do not.
TEST_P(GpuTrainingOf, StaysNearTheCpu) {
  const ModelSpec spec = spec_from_json(nlohmann::json::parse(GetParam().json), "test");
  const auto cpu = make_cpu_device(1), gpu = make_emulated_device();
  const int steps = testing::kAddressSanitizer ? 2 : GetParam().steps;  // which makes fibers slow
  const std::vector<double> expected = losses(*cpu, spec, steps), moved = losses(*cpu, spec, steps, 64 + 16),
                            actual = losses(*gpu, spec, steps);
  double most = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    most = std::max(most, std::fabs(moved[i] - expected[i]));
    EXPECT_NEAR(actual[i], expected[i], 8 * most + 4 * 0x1p-24 * expected[i]) << "step " << i;
  }
  EXPECT_LT(most, 0.01);  // a difference that says something
}

INSTANTIATE_TEST_SUITE_P(
    Models, GpuTrainingOf,
    ::testing::Values(Case{R"({"name": "llama", "architecture": "llama", "d_model": 24, "n_layers": 2, "n_heads": 3,
                               "n_kv": 1, "d_ff": 40, "vocab": 97, "context": 64})",
                           50},
                      Case{R"({"name": "hybrid", "architecture": "toy", "d_model": 24, "n_layers": 2, "n_heads": 3,
                               "n_kv": 1, "d_ff": 40, "vocab": 97, "context": 64, "delta_key_heads": 1,
                               "delta_value_heads": 2, "delta_width": 6, "layers": "gdn(conv_width=3),attn"})",
                           50},
                      Case{R"({"name": "experts", "architecture": "granitehybrid", "d_model": 24, "n_layers": 2,
                               "n_heads": 2, "n_kv": 1, "d_ff": 24, "vocab": 97, "context": 64, "mamba2_heads": 4,
                               "mamba2_width": 12, "mamba2_state": 10, "experts": 4, "experts_used": 2,
                               "shared_d_ff": 24, "layers": "mamba2,attn"})",
                           5},
                      Case{R"({"name": "gemma", "architecture": "gemma2", "d_model": 24, "n_layers": 2, "n_heads": 2,
                               "n_kv": 1, "d_head": 12, "d_ff": 40, "vocab": 97, "context": 64, "window": 4,
                               "attention_softcap": 5, "logit_softcap": 4})",
                           5}),
    [](const auto& test) { return nlohmann::json::parse(test.param.json).at("name").template get<std::string>(); });

// A run that is stopped and resumed writes the bytes of one that never was.
TEST(GpuTraining, AResumedRunWritesTheSameBytes) {
  const testing::Folder folder;
  folder.write("text.txt", write_stories({.bytes = 1500}));
  folder.write("size.json", R"({"name": "hybrid", "architecture": "toy", "d_model": 24, "n_layers": 2, "n_heads": 3,
                                "n_kv": 1, "d_ff": 40, "context": 64, "delta_key_heads": 1, "delta_value_heads": 2,
                                "delta_width": 6, "layers": "gdn(conv_width=3),attn"})");
  const auto run = [&](const std::string& out, int64_t stop) {
    FromScratchOptions o;
    o.data.corpus = {folder.path("text.txt")};
    o.size = folder.path("size.json"), o.out = folder.path(out);
    o.trainer.batch = 1, o.trainer.tokens = 12;
    o.steps = 4, o.warmup = 2, o.lr = 1e-2, o.seed = 7, o.eval_tokens = 20, o.sample_tokens = 3, o.resume = true;
    const auto device = make_emulated_device();
    testing::Listener heard(stop);
    return testing::slurp(train_from_scratch(o, *device, heard).model_path);
  };
  const auto whole = run("whole", -1);
  run("parts", 1), run("parts", 3);
  EXPECT_TRUE(run("parts", -1) == whole);
}

}  // namespace
}  // namespace toy::gpu_test
