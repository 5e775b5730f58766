// Ten steps of an adapter beside transformers and PEFT (tests/golden/make_lora_golden.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/models/adapter.h"
#include "toy/tensor/convert.h"
#include "toy/train/trainer.h"
#include "train_testing.h"

namespace toy {
namespace {

constexpr const char* kGolden = TOY_SOURCE_DIR "/tests/golden/";

class Golden {
 public:
  std::vector<float> floats(const std::string& name) const {
    const gguf::TensorInfo& t = file.require(name);
    const auto* v = reinterpret_cast<const float*>(t.data);
    return {v, v + t.shape.count()};
  }
  // Of a step.
  std::vector<int32_t> ids(const std::string& name, int64_t step) const {
    const auto* v = reinterpret_cast<const int32_t*>(file.require(name).data);
    const int64_t n = int64_t(file.get_u32("batch")) * file.get_u32("tokens");
    return {v + step * n, v + (step + 1) * n};
  }
  int64_t number(const char* key) const { return file.get_u32(key); }
  explicit Golden(const std::string& variant)
      : file(gguf::File::open(std::string(kGolden) + "lora_" + variant + ".golden.gguf")) {}
  bool has(const std::string& name) const { return file.find(name) != nullptr; }
  const gguf::File file;
};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double d = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) d = std::max(d, std::fabs(double(a[i]) - double(b[i])));
  return d;
}

struct Variant {
  std::string name;
  LoraOptions options;  // but for rank and alpha
  size_t tensors;
};

void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

class LoraGolden : public ::testing::TestWithParam<Variant> {};

// The model with an adapter as PEFT's script begins with it.
Model start_of(const Golden& golden, LoraOptions options, const Device& device) {
  Model model = load_model(std::string(kGolden) + "llama_bias.model.gguf", device);
  options.rank = golden.number("rank"), options.alpha = golden.file.get_f32("alpha");
  model.spec.adapters = {lora_adapter(model.spec, options)};
  if (options.pissa) model.spec.adapters.push_back(principal_part(model.spec.adapters[0]));
  model.spec.roles.train = {"*.lora_[abm]"};
  options.pissa ? add_principal_weights(model, 1) : add_adapter_weights(model, 1);
  for (const TensorSpec& t : tensors_of(model.spec)) {
    const std::string name = "start." + (t.name.ends_with(".1") ? t.name.substr(0, t.name.size() - 2) : t.name);
    if (golden.has(name)) model.params->write(t.name, golden.floats(name));
  }
  return model;
}

// Both compute in f64, from the same f32 weights; rates and bias corrections are f32 here. On the cpu all is f32: AdamW
// divides gradients by their own size, so that small ones count as much as large ones.
TEST_P(LoraGolden, TenStepsBesidePeft) {
  const Golden golden(GetParam().name);
  for (const bool reference : {true, false}) {
    const auto device = reference ? make_reference_device() : make_test_device(2);
    const double exact = reference ? 2e-7 : 2e-5, moved = reference ? 2e-6 : 2e-3;
    Model model = start_of(golden, GetParam().options, *device);
    std::vector<std::string> names;
    for (const TensorSpec& t : trained_tensors(model.spec)) names.push_back(t.name);
    EXPECT_EQ(names.size(), GetParam().tensors);
    TrainerOptions o{.batch = golden.number("batch"), .tokens = golden.number("tokens")};
    o.optimizer.clip = 0, o.optimizer.weight_decay = 0;
    const std::vector<float> losses = golden.floats("losses");

    // Gradients of the first two steps: AdamW's m is 0.1 g after one, and 0.9 of that + 0.1 g after two.
    Trainer trainer(*device, model, o);
    std::map<std::string, std::vector<float>> before;
    for (int64_t step = 0; step < golden.number("steps"); ++step) {
      const Windows w{golden.ids("inputs", step), golden.ids("targets", step), {}, {}};
      EXPECT_NEAR(trainer.step(w, golden.file.get_f32("lr")).loss, losses[size_t(step)], 5 * moved) << step;
      if (step > 1) continue;
      for (const std::string& name : names) {
        std::vector<float> m = trainer.moments().read(name + ".m"), g = m;
        for (size_t i = 0; i < g.size(); ++i)
          g[i] = float((double(m[i]) - (step == 0 ? 0 : 0.9 * double(before[name][i]))) / 0.1);
        EXPECT_LE(distance(g, golden.floats((step == 0 ? "grad." : "grad2.") + name)), 10 * exact) << name;
        before[name] = m;
      }
    }
    for (const std::string& name : names)
      EXPECT_LE(distance(model.params->read(name), golden.floats("end." + name)), moved) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LoraGolden,
                         ::testing::Values(Variant{"llama", {}, 28},
                                           Variant{
                                               "output", {.targets = {"embed_tokens", "lm_head=2:5", "v_proj=3:4"}}, 8},
                                           Variant{"dora", {.dora = true}, 42}, Variant{"pissa", {.pissa = true}, 28}),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace toy
