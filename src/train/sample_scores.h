// Log probabilities and entropies of targets, from the logits of training's forward pass.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "toy/base/threads.h"
#include "toy/data/corpus.h"
#include "toy/models/model.h"
#include "toy/models/transformer.h"

namespace toy {

/// The forward pass of a training step, and the logits of some of its rows. It computes in f64 from these logits what a
/// sampler does, so the numbers are the sampler's to the bit if and only if the logits are.
class SampleScorer {
 public:
  /// For batches of `batch` sequences of `tokens`. `model` must outlive it. `spec`: that of the model, perhaps without
  /// its last adapter. Throws Error{bad_input} where memory will not suffice.
  SampleScorer(Device& device, const Model& model, ModelSpec spec, int64_t batch, int64_t tokens);
  /// What is known of a target.
  struct Score {
    double logprob = 0, entropy = 0;
  };
  /// Of the targets of one batch that count, in their order.
  std::vector<Score> operator()(const Windows& batch);

 private:
  const ModelSpec spec_;
  int64_t tokens_;
  ThreadPool team_;
  std::unique_ptr<Session> rows_, logits_;
};

}  // namespace toy
