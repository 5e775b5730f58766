// The optimizer: its options, what it keeps between steps, and its step on one tensor as a graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "toy/models/spec.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"

namespace toy {

/// The optimizer: AdamW (Loshchilov and Hutter 2019) or SGD with momentum, with clipping.
struct OptimizerOptions {
  enum Kind { adamw, sgd } kind = adamw;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  ///< of AdamW
  double momentum = 0.9;                         ///< of SGD; 0: none, and no memory for velocities
  bool nesterov = false;                         ///< of SGD: step along gradient + momentum * velocity
  double weight_decay = 0.1;                     ///< on matrices only; SGD adds it to the gradient
  double clip = 1.0;                             ///< limit of the gradients' global norm; 0: none
  /// Throws Error{bad_input} naming the option, its value and what would do.
  void validate() const;
};

/// Names and types of what the optimizer keeps of each tensor: AdamW `<tensor>.m` and `.v`, SGD with momentum `.v`.
std::vector<std::pair<std::string, TensorType>> moment_types(const ModelSpec& spec, const OptimizerOptions& optimizer);

/// The optimizer's step on one tensor. Makes the inputs that change from step to step; see feed_optimizer().
class Update {
 public:
  /// `gscale`: [] multiplies every gradient; where it is not finite nothing changes. The options must outlive this.
  Update(Graph& graph, const OptimizerOptions& options, Value gscale);
  /// What the weight and the moments become.
  std::vector<Value> operator()(const TensorSpec& spec, Value weight, Value gradient) const;

 private:
  Graph& graph_;
  const OptimizerOptions& o_;
  Value lr_, bias1_, bias2_, gscale_;
};

/// Feeds the inputs of Update for the step behind `updates` updates at learning rate `lr`.
void feed_optimizer(Session& session, const OptimizerOptions& options, int64_t updates, double lr);

}  // namespace toy
