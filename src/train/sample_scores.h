// Log probabilities of targets, from the logits of training's forward pass.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "toy/base/threads.h"
#include "toy/data/corpus.h"
#include "toy/models/model.h"
#include "toy/models/transformer.h"

namespace toy {

/// Log probabilities of some rows' targets, from the logits of training's forward pass. It computes in f64 from these
/// logits what a sampler does, so the numbers are the sampler's to the bit if and only if the logits are.
class SampleScorer {
 public:
  /// For batches of `batch` sequences of `tokens`, whose attention sees `spread` rows where they share beginnings; see
  /// TrainerOptions::spread. `model` must outlive it. `spec`: that of the model, perhaps without its last adapter.
  /// Without `forward` there is no plan but that of the logits. Throws Error{bad_input} where memory will not suffice.
  SampleScorer(Device& device, const Model& model, ModelSpec spec, int64_t batch, int64_t tokens, int64_t spread,
               bool forward);
  /// Bytes that one holds in addition to the weights. Allocates nothing.
  static size_t bytes(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch,
                      int64_t tokens, int64_t spread, bool forward);
  /// Of the targets of one batch that count, in their order.
  std::vector<double> operator()(const Windows& batch);
  /// The same of those that `wanted` says, from what Head takes of all places: `hidden` [N,D].
  std::vector<double> of(std::span<const float> hidden, const Windows& batch, const std::vector<size_t>& wanted);

 private:
  const ModelSpec spec_;
  int64_t tokens_;
  ThreadPool team_;
  std::unique_ptr<Session> rows_, logits_;
};

}  // namespace toy
