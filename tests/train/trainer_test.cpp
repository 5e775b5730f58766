// The training engine: bit-identical losses for any number of threads, and what it saves is what it has.
#include "toy/train/trainer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "toy/backend/devices.h"
#include "toy/base/philox.h"
#include "toy/decode/decoder.h"
#include "toy/train/schedule.h"

namespace toy {
namespace {

ModelSpec odd_spec(bool tied) {
  ModelSpec s = model_spec("tiny");
  s.name = "odd";
  s.vocab = 97;
  s.d_model = 36;
  s.context = 64;
  s.tied = tied;
  s.layers.assign(2, {.heads = 3, .kv_heads = 1, .d_head = 14, .d_ff = 50});
  return s;
}

// Text with something to learn: a random walk with small steps.
std::vector<int32_t> walk(size_t n) {
  std::vector<int32_t> ids;
  const Philox random(3, "walk");
  int32_t at = 10;
  for (size_t i = 0; i < n; ++i) ids.push_back(at = int32_t((at + 1 + int32_t(random.below(i, 3))) % 97));
  return ids;
}

std::vector<double> losses(Device& device, Model& model, int steps, int64_t batch = 3, int64_t tokens = 23) {
  const auto ids = walk(4000);
  const WindowSampler sampler(ids, batch, tokens, 1);
  Trainer trainer(device, model, {.batch = batch, .tokens = tokens});
  std::vector<double> result;
  for (int i = 0; i < steps; ++i) result.push_back(trainer.step(sampler.batch(i), 3e-3).loss);
  return result;
}

TEST(Trainer, SameBitsForAnyNumberOfThreads) {
  for (const bool tied : {true, false}) {
    std::vector<double> first;
    std::vector<float> first_weights;
    for (const int threads : {1, 2, 3}) {
      const auto device = make_cpu_device(threads);
      Model model = random_model(odd_spec(tied), *device, 9);
      const auto l = losses(*device, model, 12);
      const auto w = model.params->read("token_embd.weight");
      if (first.empty()) first = l, first_weights = w;
      EXPECT_EQ(l, first) << threads;
      EXPECT_EQ(std::memcmp(w.data(), first_weights.data(), w.size() * 4), 0) << threads;
    }
  }
}

TEST(Trainer, Learns) {
  const auto device = make_cpu_device(2);
  Model model = random_model(odd_spec(true), *device, 9);
  const auto l = losses(*device, model, 300, 8, 32);
  EXPECT_NEAR(l.front(), std::log(97.0), 0.2);
  EXPECT_LT(l.back(), 1.5);  // the walk itself has log 3 = 1.1 nats a token
}

TEST(Trainer, CpuFollowsTheReference) {
  std::vector<std::vector<double>> all;
  for (const bool cpu : {true, false}) {
    const auto device = cpu ? make_cpu_device(2) : make_reference_device();
    Model model = random_model(odd_spec(true), *device, 9);
    all.push_back(losses(*device, model, 5));
  }
  for (size_t i = 0; i < all[0].size(); ++i) EXPECT_NEAR(all[0][i], all[1][i], 160 * 0x1p-24 * all[1][i]) << i;
}

TEST(Trainer, NonFiniteGradientSkipsTheStep) {
  const auto device = make_cpu_device(1);
  Model model = random_model(odd_spec(false), *device, 9);
  auto w = model.params->read("output.weight");
  w[5] = INFINITY;
  model.params->write("output.weight", w);
  const auto before = model.params->read("blk.0.attn_q.weight");
  const auto ids = walk(500);
  Trainer trainer(*device, model, {.batch = 2, .tokens = 16});
  const StepResult r = trainer.step(WindowSampler(ids, 2, 16, 1).batch(0), 1e-2);
  EXPECT_FALSE(std::isfinite(r.grad_norm));
  EXPECT_EQ(model.params->read("blk.0.attn_q.weight"), before);
}

TEST(Trainer, EvaluationCountsEveryTokenOnce) {
  const auto device = make_cpu_device(2);
  Model model = random_model(odd_spec(true), *device, 9);
  const auto ids = walk(333);
  Trainer trainer(*device, model, {.batch = 3, .tokens = 16});
  const EvalResult r = trainer.evaluate(ids);
  EXPECT_EQ(r.tokens, 332);
  EXPECT_NEAR(r.mean(), std::log(97.0), 0.2);
  EXPECT_EQ(trainer.evaluate(ids, 100).tokens, 100);
}

// Train, save, load, decode: the same logits to the bit, alone and through the file.
TEST(Trainer, SavedModelGivesTheSameLogits) {
  const auto device = make_cpu_device(2);
  Model model = random_model(odd_spec(true), *device, 9);
  model.tokenizer = nullptr;
  losses(*device, model, 5);
  const auto folder = std::filesystem::temp_directory_path() / ("toy_trainer_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "m.gguf").string();
  save_model(model, path);
  const Model loaded = load_model(path, *device);
  EXPECT_EQ(loaded.spec.rope, model.spec.rope);
  EXPECT_EQ(loaded.spec.rms_eps, model.spec.rms_eps);
  std::vector<DecodeRow> rows;
  for (const int32_t id : walk(50)) rows.push_back({0, id, true});
  Decoder a(*device, model, {}), b(*device, loaded, {});
  a.decode(rows);
  b.decode(rows);
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(std::memcmp(a.logits(i).data(), b.logits(i).data(), 97 * 4), 0) << i;
  for (const TensorSpec& t : tensors_of(model.spec)) EXPECT_EQ(loaded.params->read(t.name), model.params->read(t.name));
  std::filesystem::remove_all(folder);
}

// Training's forward pass and decoding compute the same bits.
TEST(Trainer, TrainingForwardEqualsDecoding) {
  const auto device = make_cpu_device(2);
  const Model model = random_model(odd_spec(true), *device, 9, 2.0);
  const auto ids = walk(64);
  LossGraph l = build_loss_graph(
      model.spec, [](const std::string&) { return DType::f32; }, 1, 64);
  auto plan = std::make_shared<const Plan>(compile(*l.graph, std::vector<Value>{l.logits}, {}, *device));
  Session session(*device, plan, {model.params.get()});
  std::vector<int32_t> position;
  for (int32_t i = 0; i < 64; ++i) position.push_back(i);
  session.set("tokens", ids);
  session.set("sequence", std::vector<int32_t>(64, 0));
  session.set("position", position);
  session.run();
  const auto training = session.values(0);
  Decoder d(*device, model, {});
  std::vector<DecodeRow> rows;
  for (const int32_t id : ids) rows.push_back({0, id, true});
  d.decode(rows);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(std::memcmp(d.logits(i).data(), training.data() + i * 97, 97 * 4), 0) << i;
}

TEST(Trainer, MappedWeightsCannotBeTrained) {
  const auto device = make_cpu_device(1);
  const std::string path = std::string(TOY_SOURCE_DIR) + "/tests/golden/llama_tied.model.gguf";
  Model model = load_model(path, *device);
  EXPECT_THROW(Trainer(*device, model, {.batch = 1, .tokens = 8}), Error);
}

// The first loss of a loaded model is its loss on that batch, and the same bits as going on without the file.
TEST(Trainer, GoesOnFromASavedModel) {
  const auto device = make_cpu_device(2);
  Model model = random_model(odd_spec(false), *device, 9);
  losses(*device, model, 20);
  const auto path = std::filesystem::temp_directory_path() / ("toy_goes_on_" + std::to_string(getpid()) + ".gguf");
  save_model(model, path.string());
  Model loaded = load_model(path.string(), *device, LoadMode::trainable);
  const auto ids = walk(4000);
  const Windows w = WindowSampler(ids, 1, 24, 2).batch(0);
  std::vector<int32_t> text = w.inputs;
  text.push_back(w.targets.back());
  Trainer on(*device, loaded, {.batch = 1, .tokens = 24}), without(*device, model, {.batch = 1, .tokens = 24});
  const double eval = on.evaluate(text).mean(), loss = on.step(w, 1e-3).loss;
  EXPECT_NEAR(loss, eval, 24 * 0x1p-24 * eval);  // the step sums in f32, evaluate() in f64
  EXPECT_EQ(loss, without.step(w, 1e-3).loss);
  EXPECT_EQ(loaded.params->read("output.weight"), model.params->read("output.weight"));
  EXPECT_LT(loss, std::log(97.0));
  std::filesystem::remove(path);
}

TEST(Trainer, RefusesImpossibleOptimizers) {
  const auto device = make_cpu_device(1);
  Model model = random_model(odd_spec(true), *device, 9);
  const auto make = [&](const AdamWOptions& o) {
    const Trainer trainer(*device, model, {.batch = 1, .tokens = 8, .optimizer = o});
  };
  EXPECT_NO_THROW(make({}));
  for (const AdamWOptions& o : std::vector<AdamWOptions>{{.beta1 = 1},
                                                         {.beta1 = -0.1},
                                                         {.beta2 = 1},
                                                         {.beta2 = NAN},
                                                         {.eps = 0},
                                                         {.eps = -1},
                                                         {.eps = INFINITY},
                                                         {.weight_decay = -1},
                                                         {.clip = -1}})
    EXPECT_THROW(make(o), Error);
}

TEST(Schedule, WarmsUpAndDecays) {
  const CosineSchedule s{.peak = 2, .warmup = 10, .steps = 110, .final_fraction = 0.1};
  EXPECT_DOUBLE_EQ(s.at(0), 0.2);
  EXPECT_DOUBLE_EQ(s.at(9), 2.0);
  EXPECT_DOUBLE_EQ(s.at(10), 2.0);
  EXPECT_NEAR(s.at(109), 0.2, 1e-12);
  for (int64_t i = 11; i < 110; ++i) EXPECT_LT(s.at(i), s.at(i - 1));
}

}  // namespace
}  // namespace toy
