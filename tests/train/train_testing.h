// What tests of training share: a text to learn, gradients of a step, and an observer that stops a run.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "testing/models.h"
#include "toy/tensor/convert.h"
#include "toy/train/recipe.h"
#include "toy/train/trainer.h"

namespace toy::testing {

inline DType all_f32(const std::string&) { return DType::f32; }

/// Text with something to learn, of 97 tokens: a random walk with small steps.
inline std::vector<int32_t> walk(size_t n) {
  std::vector<int32_t> ids;
  const Philox random(3, "walk");
  int32_t at = 10;
  for (size_t i = 0; i < n; ++i) ids.push_back(at = int32_t((at + 1 + int32_t(random.below(i, 3))) % 97));
  return ids;
}

/// A Llama whose dimensions are no multiples of a vector.
inline ModelSpec odd_spec(bool tied) {
  return small_model(
      "tiny",
      {.vocab = 97, .d_model = 36, .context = 64, .tied = tied, .heads = 3, .kv_heads = 1, .d_head = 14, .d_ff = 50});
}

/// Learned positions, layer norms, biases, gelu.
inline ModelSpec gpt2_spec() {
  return small_model("gpt2-tiny",
                     {.vocab = 97, .d_model = 42, .context = 64, .heads = 3, .kv_heads = 3, .d_head = 14, .d_ff = 50});
}

/// Of so many steps on a walk.
inline std::vector<double> losses(Device& device, Model& model, int steps, int64_t batch = 3, int64_t tokens = 23,
                                  DType compute = DType::f32) {
  const auto ids = walk(4000);
  const WindowSampler sampler(ids, batch, tokens, 1);
  Trainer trainer(device, model, {.batch = batch, .tokens = tokens, .compute = compute});
  std::vector<double> result;
  for (int i = 0; i < steps; ++i) result.push_back(trainer.step(sampler.batch(i), 3e-3).loss);
  return result;
}

/// A step that shows its gradient: the velocity of plain SGD after the first one is what the optimizer saw.
inline TrainerOptions bare(int64_t batch, int64_t tokens, int64_t accumulate = 1) {
  return {
      .batch = batch,
      .tokens = tokens,
      .accumulate = accumulate,
      .optimizer = {.kind = OptimizerOptions::sgd, .momentum = 0.5, .nesterov = false, .weight_decay = 0, .clip = 0}};
}

/// Of one step with bare() options: of every weight, by name.
struct Gradient {
  std::map<std::string, std::vector<double>> of;
  double loss = 0, norm = 0;
};

inline Gradient gradient(Device& device, const ModelSpec& spec, const TrainerOptions& options, const Windows& w) {
  Model model = random_model(spec, device, 9, 2.0);
  Trainer trainer(device, model, options);
  const StepResult r = trainer.step(w, 1e-3);
  Gradient g{{}, r.loss, r.grad_norm.value()};
  for (const TensorSpec& t : tensors_of(spec)) {
    const HostTensor moment = trainer.moments().host(t.name + ".v");
    const View& v = moment.view();
    for (int64_t i = 0; i < v.count(); ++i) g.of[t.name].push_back(element(v, i));
  }
  return g;
}

/// Stops a run behind a step, or never, and keeps what it heard.
class Listener : public TrainObserver {
 public:
  explicit Listener(int64_t stop_behind = -1) : stop_behind_(stop_behind) {}
  void event(const runs::Event& e) override {
    if (const auto* step = e.as<runs::Step>()) at_ = *e.step, losses.push_back(step->loss);
    if (const auto* eval = e.as<runs::Eval>()) evals.emplace_back(eval->loss, eval->nats_per_byte);
    if (const auto* sample = e.as<runs::Sample>()) samples += sample->text;
    if (const auto* checkpoint = e.as<runs::Checkpoint>()) checkpoints.emplace_back(checkpoint->path, *e.step);
    if (const auto* note = e.as<runs::Note>()) notes += note->text + "\n";
    if (e.as<runs::Resume>()) resumed_at = *e.step;
  }
  bool stop() override { return at_ == stop_behind_; }

  /// What the next part of the same run said: `losses`, `evals` and `samples` are then those of both.
  void append(const Listener& part) {
    losses.insert(losses.end(), part.losses.begin(), part.losses.end());
    evals.insert(evals.end(), part.evals.begin(), part.evals.end());
    samples += part.samples;
  }

  std::vector<double> losses;
  std::vector<std::pair<double, double>> evals;  // loss, nats a byte
  std::string samples, notes;
  int64_t resumed_at = -1;
  std::vector<std::pair<std::string, int64_t>> checkpoints;

 private:
  int64_t stop_behind_, at_ = 0;
};

}  // namespace toy::testing
