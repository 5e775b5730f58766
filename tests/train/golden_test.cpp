// Ten steps of each optimizer beside PyTorch's, Lion and Muon beside a NumPy statement of the papers
// (tests/golden/make_optimizer_golden.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "toy/backend/devices.h"
#include "toy/train/optimizer.h"

namespace toy::golden_test {
namespace {

using nlohmann::json;

// The script's formula.
double number(int64_t tensor, int64_t step, int64_t i) {
  const auto mixed = uint32_t(uint64_t(i * 7919 + step * 104729 + tensor * 15485863) * 2654435761u);
  return (double(mixed >> 22) - 512) / 512;
}
std::vector<float> numbers(int64_t tensor, int64_t step, int64_t n) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(float(number(tensor, step, i)));
  return v;
}

OptimizerOptions options_of(const json& j) {
  OptimizerOptions o;
  read_value(j.at("optimizer").get<std::string>(), {}, o.kind);
  const std::pair<const char*, double OptimizerOptions::*> fields[] = {
      {"beta1", &OptimizerOptions::beta1},
      {"beta2", &OptimizerOptions::beta2},
      {"eps", &OptimizerOptions::eps},
      {"momentum", &OptimizerOptions::momentum},
      {"weight_decay", &OptimizerOptions::weight_decay},
      {"decay_rate", &OptimizerOptions::decay_rate},
      {"update_clip", &OptimizerOptions::update_clip},
      {"adamw_factor", &OptimizerOptions::adamw_factor}};
  for (const auto& [name, field] : fields) o.*field = j.value(name, o.*field);
  o.nesterov = j.value("nesterov", false);
  o.relative_step = j.value("relative_step", false);
  if (j.value("muon_scale", "original") == "match-rms") o.muon_scale = OptimizerOptions::match_rms;
  return o;
}

ModelSpec spec() {
  ModelSpec s = model_spec("tiny");
  s.vocab = 8, s.d_model = 6;
  s.layers.assign(1, {.heads = 1, .kv_heads = 1, .d_head = 4, .d_ff = 10});
  return s;
}

// The reference computes in f64, but takes learning rate, bias corrections and mix in f32: a relative error of at most
// 2^-24 in each of three factors of a step, whose elements are below 5 lr (SGD with momentum; AdamW's and Muon's are
// near lr).
TEST(OptimizerGolden, TenStepsBesidePyTorch) {
  std::ifstream file(std::string(TOY_SOURCE_DIR) + "/tests/golden/optimizers.golden.json");
  const json golden = json::parse(file);
  const double lr = golden.at("lr");
  const std::vector<std::string> names{"token_embd.weight", "blk.0.attn_norm.weight", "blk.0.ffn_up.weight",
                                       "blk.0.ffn_down.weight"};
  const auto device = make_reference_device();
  const std::vector<TensorSpec> tensors = tensors_of(spec());
  size_t compared = 0;
  for (const json& c : golden.at("cases")) {
    const OptimizerOptions o = options_of(c.at("options"));
    const std::vector<TensorUpdate> how = tensor_updates(spec(), o);
    Graph g;
    g.input("clip", f32());  // which feed_optimizer() feeds; not used here
    Update update(g, o, {});
    ParamStore store(*device);
    std::vector<Value> updates;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto at = std::find(names.begin(), names.end(), tensors[i].name);
      if (at == names.end()) continue;
      const TensorType type{DType::f32, tensors[i].shape, 0};
      store.add(*at, type);
      store.write(*at, numbers(at - names.begin(), 0, type.count()));
      for (const auto& [name, state] : how[i].state) store.add(name, state);
      for (const Value& v : update(tensors[i], how[i], g.param(*at, type), g.input("g." + *at, type)))
        updates.push_back(v);
    }
    Session session(*device, std::make_shared<const Plan>(compile(g, {}, updates, *device)), {&store});
    for (int step = 1; step <= 10; ++step) {
      for (size_t t = 0; t < names.size(); ++t)
        session.set("g." + names[t], numbers(int64_t(t), step, store.type(names[t]).count()));
      feed_optimizer(session, o, step - 1, lr);
      session.run();
      const auto expected = c.at("weights").find(std::to_string(step));
      if (expected == c.at("weights").end()) continue;
      for (const std::string& name : names) {
        const std::vector<double> w = expected->at(name);
        const HostTensor tensor = store.host(name);
        const double* found = tensor.view().as<double>();
        ASSERT_EQ(int64_t(w.size()), tensor.view().count());
        for (size_t i = 0; i < w.size(); ++i, ++compared)
          EXPECT_NEAR(found[i], w[i], step * 3 * 0x1p-24 * 5 * lr) << c.at("options") << " " << name << " " << i;
      }
    }
  }
  EXPECT_EQ(compared, golden.at("cases").size() * 2 * (48 + 6 + 60 + 60));
  EXPECT_EQ(golden.at("cases").size(), 8u);
}

}  // namespace
}  // namespace toy::golden_test
