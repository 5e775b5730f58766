// The smallest training step.
#pragma once

#include <vector>

#include "toy/graph/autodiff.h"
#include "toy/ops/ops.h"

namespace toy::testing {

/// The step of gradient descent on sum(exp(w)): every phase has ops.
inline void build_step(Graph& g, std::vector<Value>& roots) {
  const TensorType scalar{DType::f32, {}, 0};
  const Value w = g.param("blk.0.w", {DType::f32, {3}, 0}), lr = g.input("lr", scalar);
  Value loss;
  {
    const auto block = g.block(0);
    const auto mixer = g.scope("mixer");
    loss = sum_all(exp(w));
  }
  const std::vector<Value> wrt{w}, gradient = gradients(loss, wrt);
  const auto layer = g.scope("optimizer");
  roots = {loss, sgd({w, {}}, gradient[0], lr, g.scalar(1), {0, 0, false}).w};
}

}  // namespace toy::testing
