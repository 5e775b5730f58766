// Ten steps of each preference loss beside PyTorch (tests/golden/make_preference_golden.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/models/adapter.h"
#include "toy/train/trainer.h"
#include "train_testing.h"

namespace toy::preference_golden_test {
namespace {

constexpr const char* kGolden = TOY_SOURCE_DIR "/tests/golden/";
constexpr int64_t kTokens = 24;  // a row holds one pair

class PreferenceGolden : public ::testing::Test {
 protected:
  std::vector<float> floats(const std::string& name) const {
    const gguf::TensorInfo& t = file_.require(name);
    const auto* v = reinterpret_cast<const float*>(t.data);
    return {v, v + t.shape.count()};
  }
  std::span<const int32_t> ints(const std::string& name) const {
    const gguf::TensorInfo& t = file_.require(name);
    return {reinterpret_cast<const int32_t*>(t.data), size_t(t.shape.count())};
  }
  int64_t pairs() const { return file_.get_u32("pairs"); }
  int64_t steps() const { return file_.get_u32("steps"); }

  // The answers of a step, a pair in each row.
  Windows windows(int64_t step) const {
    const auto ids = ints("ids"), lengths = ints("lengths");
    Windows w;
    size_t at = 0;
    const size_t first = size_t(step % 2 * 2 * pairs()), end = first + size_t(2 * pairs());
    for (size_t i = 0; i < end; ++i) {
      const auto n = size_t(lengths[2 * i]), prompt = size_t(lengths[2 * i + 1]);
      const auto answer = ids.subspan(std::exchange(at, at + n), n);
      if (i < first) continue;
      w.answers.push_back({int64_t(w.inputs.size()), int64_t(n) - 1, i % 2 == 0});
      for (size_t t = 0; t + 1 < n; ++t) {
        w.inputs.push_back(answer[t]), w.targets.push_back(answer[t + 1]);
        w.sequence.push_back(int32_t(i)), w.position.push_back(int32_t(t));
        w.trained.push_back(t + 1 >= prompt);
      }
      if (i % 2 == 0) continue;
      while (w.inputs.size() % kTokens != 0) {
        w.inputs.push_back(0), w.targets.push_back(0), w.sequence.push_back(-1 - int32_t(w.inputs.size()));
        w.position.push_back(0), w.trained.push_back(0);
      }
    }
    return w;
  }

  Model model(Device& device) const {
    Model model = load_model(std::string(kGolden) + "llama_bias.model.gguf", device);
    model.spec.adapters = {lora_adapter(model.spec, {.rank = file_.get_u32("rank"), .alpha = file_.get_f32("alpha")})};
    model.spec.roles.train = {"*.lora_[ab]"};
    add_adapter_weights(model, 1);
    for (const TensorSpec& t : trained_tensors(model.spec)) model.params->write(t.name, floats("start." + t.name));
    return model;
  }
  TrainerOptions options(PreferenceLoss loss, int64_t accumulate = 1) const {
    TrainerOptions o{.batch = pairs() / accumulate, .tokens = kTokens, .accumulate = accumulate};
    o.optimizer.clip = 0, o.optimizer.weight_decay = 0;
    o.preference = {loss, double(file_.get_f32("beta"))};
    return o;
  }
  double lr() const { return file_.get_f32("lr"); }

  const gguf::File file_ = gguf::File::open(std::string(kGolden) + "preference_llama.golden.gguf");
};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double d = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) d = std::max(d, std::fabs(double(a[i]) - double(b[i])));
  return d;
}

// Log probabilities of tokens come back in f32: 2^-22 of each is what the loss and its slopes start from, even where
// all else is f64. A gradient is a slope of at most 2 (ipo) times the gradients of some ten log probabilities.
TEST_F(PreferenceGolden, TenStepsOfEachLossBesidePyTorch) {
  for (const bool reference : {true, false})
    for (const PreferenceLoss loss :
         {PreferenceLoss::dpo, PreferenceLoss::ipo, PreferenceLoss::kto, PreferenceLoss::orpo}) {
      const auto device = reference ? make_reference_device() : make_test_device(2);
      const double exact = reference ? 1e-6 : 2e-5, moved = reference ? 1e-6 : 2e-4;
      const std::string name(name_of(loss));
      Model m = model(*device);
      Trainer trainer(*device, m, options(loss));
      const std::vector<float> losses = floats(name + ".losses"), margins = floats(name + ".margins");
      for (int64_t step = 0; step < steps(); ++step) {
        const StepResult s = trainer.step(windows(step), lr());
        EXPECT_NEAR(s.loss, losses[size_t(step)], 5 * exact) << name << " " << step;
        EXPECT_NEAR(s.preference.rewards().margin.value(), margins[size_t(step)], 5 * exact) << name << " " << step;
        EXPECT_EQ(s.preference.rewards().accuracy.has_value(), takes_pairs(loss));
        if (step > 0) continue;
        EXPECT_NEAR(s.loss, losses[0], exact) << name;
        for (const TensorSpec& t : trained_tensors(m.spec)) {  // AdamW's m is 0.1 g now
          std::vector<float> g = trainer.moments().read(t.name + ".m");
          for (float& v : g) v = float(double(v) / 0.1);
          const double d = distance(g, floats(name + ".grad." + t.name));
          EXPECT_LE(d, exact) << name << " " << t.name;
        }
      }
      for (const TensorSpec& t : trained_tensors(m.spec))
        EXPECT_LE(distance(m.params->read(t.name), floats(name + ".end." + t.name)), moved) << name << " " << t.name;
    }
}

// The loss and gradient of a step are those of all its answers, however many batches they come in.
TEST_F(PreferenceGolden, AccumulatedBatchesAreOneBatch) {
  const auto device = make_reference_device();
  for (const PreferenceLoss loss :
       {PreferenceLoss::dpo, PreferenceLoss::ipo, PreferenceLoss::kto, PreferenceLoss::orpo}) {
    Model m = model(*device);
    Trainer trainer(*device, m, options(loss, pairs()));
    const std::string name(name_of(loss));
    for (int64_t step = 0; step < steps(); ++step)
      EXPECT_NEAR(trainer.step(windows(step), lr()).loss, floats(name + ".losses")[size_t(step)], 1e-6);
    for (const TensorSpec& t : trained_tensors(m.spec))
      EXPECT_LE(distance(m.params->read(t.name), floats(name + ".end." + t.name)), 1e-6) << name << " " << t.name;
  }
}

}  // namespace
}  // namespace toy::preference_golden_test
