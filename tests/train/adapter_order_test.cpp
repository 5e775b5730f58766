// Several adapters of one weight.
#include <gtest/gtest.h>

#include <cmath>

#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/models/adapter.h"
#include "train_testing.h"

namespace toy::adapter_order_test {
namespace {

double loss_of(Device& device, Model& model) {
  const auto ids = testing::walk(200);
  Trainer trainer(device, model, {.batch = 2, .tokens = 32});
  return trainer.evaluate(TokenView(ids)).nats;
}

// PEFT 0.21: W1 = m1 (W + D1) / |W + D1|, and then W2 = m2 (W1 + D2) / |W + D2|, row by row; without magnitudes
// W2 = W1 + D2.
TEST(Lora, SeveralAdaptersOfAMapApplyInTheirOrder) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  const ModelSpec spec = testing::odd_spec(false);
  const std::string weight = "blk.0.attn_q.weight";
  struct Change {
    std::vector<double> d;
    std::vector<float> m;
  };
  std::vector<Change> changes;
  for (const bool dora : {true, true, false}) {
    Model model = random_model(spec, *device, 3);
    model.spec.adapters.push_back(lora_adapter(spec, {.rank = 4, .dora = dora}));
    model.spec.roles.train = {"*.lora_[abm]"};
    add_adapter_weights(model, 5 + changes.size());
    const Philox random(20 + changes.size(), "numbers");
    for (const TensorSpec& t : tensors_of(model.spec)) {
      const bool is_m = t.name.ends_with(".lora_m");
      if (!is_m && !t.name.ends_with(".lora_b")) continue;
      std::vector<float> values = model.params->read(t.name);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = is_m ? values[i] * float(1 + 0.2 * random.normal(i)) : float(0.05 * random.normal(i));
      model.params->write(t.name, values);
    }
    const AdapterFactors f = factors_of(model, weight, 0);
    const size_t rank = size_t(f.rank), columns = f.a.size() / rank, rows = f.b.size() / rank;
    Change& c = changes.emplace_back(Change{std::vector<double>(rows * columns), {}});
    for (size_t o = 0; o < rows; ++o)
      for (size_t r = 0; r < rank; ++r)
        for (size_t i = 0; i < columns; ++i)
          c.d[o * columns + i] += double(model.spec.adapters[0].maps.at(weight).scale) * double(f.b[o * rank + r]) *
                                  double(f.a[r * columns + i]);
    if (dora) c.m = model.params->read("blk.0.attn_q.weight.lora_m");
    save_adapter(model, 0, folder.path(fmt::format("{}.gguf", changes.size())));
  }
  const std::vector<float> w = random_model(spec, *device, 3).params->read(weight);
  std::vector<double> want(w.begin(), w.end());
  for (const Change& c : changes) {
    const size_t columns = c.m.empty() ? w.size() : w.size() / c.m.size();
    for (size_t begin = 0; begin < w.size(); begin += columns) {
      double norm = 0;
      for (size_t i = begin; i < begin + columns; ++i) norm += std::pow(double(w[i]) + c.d[i], 2);
      const double gain = c.m.empty() ? 1 : double(c.m[begin / columns]) / std::sqrt(norm);
      for (size_t i = begin; i < begin + columns; ++i) want[i] = gain * (want[i] + c.d[i]);
    }
  }
  Model model = random_model(spec, *device, 3);
  for (const char* name : {"1.gguf", "2.gguf", "3.gguf"}) load_adapter(model, folder.path(name));
  const double loss = loss_of(*device, model);
  merge_adapters(model);
  const std::vector<float> merged = model.params->read(weight);
  for (size_t i = 0; i < merged.size(); ++i) ASSERT_NEAR(merged[i], want[i], 1e-6) << i;
  EXPECT_NEAR(loss_of(*device, model), loss, 1e-4 * loss);
}

}  // namespace
}  // namespace toy::adapter_order_test
