// The training engine: a model, its optimizer, and one compiled step.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "toy/data/corpus.h"
#include "toy/models/model.h"
#include "toy/models/transformer.h"

namespace toy {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;  ///< on matrices only
  double clip = 1.0;          ///< limit of the gradients' global norm; 0: none
};

struct TrainerOptions {
  int64_t batch = 8, tokens = 128;  ///< B sequences of T tokens
  AdamWOptions optimizer;
  /// Throws Error{bad_input} naming the option, its value and what would do.
  void validate() const;
};

/// The step as a graph: forward, loss, backward, clipping, AdamW.
struct TrainGraph {
  std::unique_ptr<Graph> graph;
  Value loss, norm;
  std::vector<Value> gradients;  ///< in the order of tensors_of(spec)
  std::vector<Value> updates;
};
TrainGraph build_train_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, const TrainerOptions& options);
/// Forward and loss only. Outputs: nll [N].
struct LossGraph {
  std::unique_ptr<Graph> graph;
  Value logits, loss, nll;
};
LossGraph build_loss_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch, int64_t tokens);

struct StepResult {
  double loss = 0;       ///< mean over the batch's tokens, before the update
  double grad_norm = 0;  ///< before clipping; not finite: the step was skipped
};

/// Mean negative log-likelihood of a text.
struct EvalResult {
  double nats = 0;  ///< sum over the tokens
  int64_t tokens = 0;
  double mean() const { return tokens ? nats / double(tokens) : 0; }
};

class Trainer {
 public:
  /// Compiles the step and allocates moments `<tensor>.m` and `.v`. Throws Error{bad_input} when the machine's memory
  /// will not suffice, before allocating. `model` must outlive the trainer; its weights change.
  Trainer(Device& device, Model& model, const TrainerOptions& options);

  /// One AdamW step on B windows of T tokens.
  StepResult step(const Windows& windows, double lr);
  /// Loss of a tokenized text in windows of T at stride T/4: every token but the first few is predicted from at
  /// least 3T/4 others. Reads at most `max_tokens` (0: all).
  EvalResult evaluate(std::span<const int32_t> ids, int64_t max_tokens = 0);

  /// Updates made: steps whose gradient was finite.
  int64_t updates() const { return updates_; }
  const Plan& plan() const { return *plan_; }
  Session& session() { return *session_; }
  const ParamStore& moments() const { return moments_; }
  /// Bytes that training and its evaluations hold: weights, moments, arenas, inputs.
  size_t planned_bytes() const;

 private:
  void feed_batch(Session& session) const;
  Device& device_;
  Model& model_;
  TrainerOptions options_;
  ParamStore moments_;
  std::shared_ptr<const Plan> plan_, eval_plan_;
  std::unique_ptr<Session> session_, eval_session_;
  int64_t updates_ = 0;
};

/// Names and types of the optimizer's moments.
std::vector<std::pair<std::string, TensorType>> moment_types(const ModelSpec& spec);

}  // namespace toy
