// Runs that train an adapter or a part of a model: resumed, and what they write.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/models/adapter.h"
#include "toy/synth/stories.h"
#include "toy/train/fine_tune.h"
#include "toy/train/from_scratch.h"
#include "train_testing.h"

namespace toy::lora_run_test {
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::slurp;

class LoraRun : public ::testing::Test, protected testing::Folder {
 protected:
  LoraRun() {
    write("text.txt", write_stories({.bytes = 2500}));
    write("size.json", R"({"d_model": 32, "n_layers": 2, "n_heads": 2, "n_kv": 1, "d_head": 16, "d_ff": 64})");
    FromScratchOptions o;
    o.data.corpus = {path("text.txt")};
    o.size = path("size.json"), o.out = path("base");
    o.trainer.batch = 2, o.trainer.tokens = 32, o.steps = 3;
    testing::Listener listener;
    const auto device = make_test_device(2);
    train_from_scratch(o, *device, listener);
    // In blocks of 32, as people have them.
    const gguf::File plain = gguf::File::open(path("base/model.gguf"));
    gguf::Writer writer(plain.get_string("general.architecture"));
    for (const auto& [key, value] : plain.metadata()) writer.set(key, value);
    for (const gguf::TensorInfo& t : plain.tensors())
      writer.add(t.name, View(const_cast<std::byte*>(t.data), *t.dtype, t.shape),
                 t.shape.rank() >= 2 ? DType::q8_0 : DType::f32);
    writer.finish(path("base.gguf"));
  }

  FineTuneOptions options(const std::string& out) const {
    FineTuneOptions o;
    o.init = path("base.gguf");
    o.data.corpus = {path("text.txt")};
    o.out = path(out);
    o.trainer.batch = 2, o.trainer.tokens = 32;
    o.steps = 9, o.warmup = 3, o.lr = 1e-2, o.seed = 7;
    o.data.validation_fraction = 0.2;
    o.eval_every = 3, o.eval_tokens = 40, o.sample_tokens = 6;
    o.lora = LoraOptions{.rank = 4, .dropout = 0.1};
    o.resume = true;
    return o;
  }
};

TEST_F(LoraRun, ResumesToTheSameBytes) {
  std::map<std::string, std::string> results;  // of any number of threads
  for (const std::string kind : {"lora", "pissa", "part"})
    for (const int threads : {1, 3}) {
      const auto device = make_test_device(threads);
      const auto with = [&](const std::string& out) {
        FineTuneOptions o = options(fmt::format("{}_{}_{}", out, kind, threads));
        if (kind == "pissa") o.lora->pissa = true;
        if (kind == "part") o.lora.reset(), o.roles = {{"blk.1.*"}, {"*_norm.weight"}};
        return o;
      };
      testing::Listener whole, parts;
      const TrainResult end = train_fine_tune(with("whole"), *device, whole);
      TrainResult r;
      for (const int64_t stop : {1, 4, 9, -1}) {
        testing::Listener part(stop);
        r = train_fine_tune(with("parts"), *device, part);
        parts.append(part);
      }
      EXPECT_EQ(parts.losses, whole.losses);
      EXPECT_EQ(parts.evals, whole.evals);
      EXPECT_EQ(parts.samples, whole.samples);
      EXPECT_EQ(std::filesystem::path(r.model_path).filename(), kind == "part" ? "model.gguf" : "adapter.gguf");
      EXPECT_TRUE(slurp(r.model_path) == slurp(end.model_path));
      EXPECT_TRUE(results.emplace(kind, slurp(r.model_path)).first->second == slurp(r.model_path)) << kind;
      EXPECT_LT(whole.losses.back(), whole.losses.front());
      // Complete: nothing is trained again.
      testing::Listener again;
      EXPECT_TRUE(train_fine_tune(with("parts"), *device, again).was_complete);
    }
}

// Each tensor moves by the sign of its gradient times its rate in AdamW's first step.
TEST_F(LoraRun, LoraPlusIsAFasterB) {
  const auto moved = [&](double ratio, double own_rate) {
    const auto device = make_test_device(1);
    FineTuneOptions o = options(fmt::format("plus_{}_{}", ratio, own_rate));
    o.lora->lr_ratio = ratio, o.lora->dropout = 0;
    o.steps = 1, o.warmup = 0;
    o.trainer.optimizer.clip = 0;
    if (own_rate > 0) o.trainer.optimizer.lr_for = {{"blk.0.*.lora_b", own_rate}};
    testing::Listener listener;
    Model model = load_model(path("base.gguf"), *device);
    load_adapter(model, train_fine_tune(o, *device, listener).model_path);
    double largest = 0;
    for (const float v : model.params->read("blk.0.attn_q.weight.lora_b"))
      largest = std::max(largest, std::fabs(double(v)));
    return largest;
  };
  const double plain = moved(1, 0);
  EXPECT_GT(plain, 0);
  EXPECT_NEAR(moved(16, 0), 16 * plain, 1e-5 * plain);
  EXPECT_NEAR(moved(16, 3), 3 * plain, 1e-5 * plain);  // the user's own rate
}

TEST_F(LoraRun, OnlyWhatIsTrainedChanges) {
  const auto device = make_test_device(2);
  FineTuneOptions o = options("some");
  o.lora.reset(), o.roles = {{"blk.1.*"}, {"*_norm.weight"}};
  testing::Listener listener;
  const std::string result = train_fine_tune(o, *device, listener).model_path;
  const Model before = load_model(path("base.gguf"), *device, LoadMode::trainable), after = load_model(result, *device);
  size_t changed = 0;
  for (const TensorSpec& t : tensors_of(before.spec)) {
    const bool trained = t.block == 1 && !t.name.ends_with("_norm.weight");
    changed += trained;
    EXPECT_EQ(after.params->read(t.name) != before.params->read(t.name), trained) << t.name;
  }
  EXPECT_EQ(changed, 7u);
}

TEST_F(LoraRun, ACheckpointHasOnlyWhatIsTrained) {
  const auto device = make_test_device(2);
  testing::Listener listener(4);
  const TrainResult r = train_fine_tune(options("stopped"), *device, listener);
  EXPECT_FALSE(std::filesystem::exists(r.checkpoint + "/weights.gguf"));
  Model model = load_model(path("base.gguf"), *device);
  load_adapter(model, r.checkpoint + "/adapter.gguf");
  EXPECT_EQ(model.spec.adapters[0].maps.size(), 14u);
  // Another base, even with the same dimensions, is refused.
  std::string bytes = slurp(path("base.gguf"));
  bytes.back() = char(bytes.back() + 1);
  write("base.gguf", bytes);
  testing::Listener again;
  FineTuneOptions o = options("stopped");
  o.allow_changes = true;
  expect_contains(message_of([&] { train_fine_tune(o, *device, again); }), "belongs to another base");
}

// Over quantized weights, too: what is trained is held in f32, so that the plan is that of a new model.
TEST_F(LoraRun, AStepOfFullFineTuningIsThatOfFromScratch) {
  const auto device = make_test_device(2);
  const gguf::File file = gguf::File::open(path("base.gguf"));
  const ModelSpec spec = spec_from_gguf(file);
  const TrainerOptions o{.batch = 2, .tokens = 32};
  const TrainPlans tuned = compile_training(*device, spec, held_types(file, spec), o),
                   fresh = compile_training(*device, spec, testing::all_f32, o);
  ASSERT_EQ(tuned.step->steps.size(), fresh.step->steps.size());
  for (size_t i = 0; i < tuned.step->steps.size(); ++i) EXPECT_EQ(tuned.step->steps[i].op, fresh.step->steps[i].op);
  EXPECT_EQ(tuned.bytes(*device), fresh.bytes(*device));
}

TEST_F(LoraRun, PatternsThatFitNothing) {
  const auto device = make_test_device(2);
  FineTuneOptions o = options("none");
  o.lora.reset(), o.roles.freeze = {"blk.0.atn_q.weight"};
  testing::Listener listener;
  expect_contains(message_of([&] { train_fine_tune(o, *device, listener); }), "did you mean 'blk.0.attn_q.weight'?");
  o.roles.freeze = {"*"};
  expect_contains(message_of([&] { train_fine_tune(o, *device, listener); }), "nothing would be trained");
}

}  // namespace
}  // namespace toy::lora_run_test
