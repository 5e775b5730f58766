// Ten steps of an adapter beside transformers and PEFT (tests/golden/make_lora_golden.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/models/adapter.h"
#include "toy/tensor/convert.h"
#include "toy/train/trainer.h"
#include "train_testing.h"

namespace toy::lora_golden_test {
namespace {

constexpr const char* kGolden = TOY_SOURCE_DIR "/tests/golden/";

class Golden {
 public:
  explicit Golden(const std::string& name)
      : file(gguf::File::open(std::string(kGolden) + "lora_" + name + ".golden.gguf")) {}
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
  LoraOptions options() const {
    LoraOptions o{.rank = number("rank"),
                  .alpha = file.get_f32("alpha"),
                  .dora = file.get_u32("dora", 0) > 0,
                  .pissa = file.get_u32("pissa", 0) > 0};
    std::istringstream targets(file.get_string("targets", "all-linear"));
    o.targets.clear();
    for (std::string target; std::getline(targets, target, ',');) o.targets.push_back(target);
    return o;
  }
  const gguf::File file;
};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double d = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) d = std::max(d, std::fabs(double(a[i]) - double(b[i])));
  return d;
}

// Sum of squares of b a.
double energy(const std::vector<float>& a, const std::vector<float>& b, int64_t rank) {
  const size_t r = size_t(rank), columns = a.size() / r;
  double sum = 0;
  for (size_t o = 0; o < b.size() / r; ++o)
    for (size_t i = 0; i < columns; ++i) {
      double v = 0;
      for (size_t k = 0; k < r; ++k) v += double(b[o * r + k]) * double(a[k * columns + i]);
      sum += v * v;
    }
  return sum;
}

// Both compute in f64, from the same f32 weights; rates and bias corrections are f32 here. On the cpu all is f32: AdamW
// divides gradients by their own size, so that small ones count as much as large ones.
class LoraGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(LoraGolden, TenStepsBesidePeft) {
  const Golden golden(GetParam());
  for (const bool reference : {true, false}) {
    const auto device = reference ? make_reference_device() : make_test_device(2);
    const double exact = reference ? 2e-7 : 2e-5, moved = reference ? 2e-6 : 2e-3;
    Model model = load_model(std::string(kGolden) + "llama_bias.model.gguf", *device);
    model.spec.adapters = {lora_adapter(model.spec, golden.options())};
    model.spec.roles.train = {"*.lora_[abm]"};
    add_adapter_weights(model, 1);
    std::vector<std::string> names;
    for (const TensorSpec& t : trained_tensors(model.spec)) {
      names.push_back(t.name);
      if (golden.file.find("start." + t.name)) model.params->write(t.name, golden.floats("start." + t.name));
    }
    for (const auto& [weight, map] : model.spec.adapters[0].maps) {
      if (!map.principal) continue;
      const AdapterNames n(weight, 0);
      const std::vector<float> a = golden.floats("start." + n.a), b = golden.floats("start." + n.b);
      const double ours = energy(model.params->read(n.a0), model.params->read(n.b0), map.rank);
      EXPECT_NEAR(ours / energy(a, b, map.rank), 1, 1e-4) << weight;  // four iterations, and PEFT's exact values
      model.params->write(n.a0, a), model.params->write(n.b0, b);
    }
    size_t ends = 0;
    for (const gguf::TensorInfo& t : golden.file.tensors()) ends += t.name.starts_with("end.");
    EXPECT_EQ(names.size(), ends);
    TrainerOptions o{.batch = golden.number("batch"), .tokens = golden.number("tokens")};
    o.optimizer.clip = 0, o.optimizer.weight_decay = 0;
    o.optimizer.lr_for = {{"*.lora_b", golden.file.get_f32("ratio", 1)}};
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

INSTANTIATE_TEST_SUITE_P(Kinds, LoraGolden, ::testing::Values("llama", "plus", "dora", "pissa", "output"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace toy::lora_golden_test
