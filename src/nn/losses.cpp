#include "toy/nn/losses.h"

#include "toy/base/error.h"

namespace toy::nn {

// log sum exp(z) - z[target] with z = x - max x, so that no exp overflows.
Value cross_entropy(Value logits, Value targets) {
  const Shape& shape = logits.type().shape;
  check(shape.rank() == 2 && targets.type().shape.rank() == 1 && targets.type().shape[0] == shape[0],
        "cross_entropy: logits are {} and targets {}; use [N,C] and i32[N]", logits.type().str(), targets.type().str());
  const Value z = logits - stop_gradient(max(logits, 1));
  return sum_all(log(sum(exp(z), 1)) - sum(z * one_hot(targets, shape[1]), 1)) / double(shape[0]);
}

Value mse(Value prediction, Value target) {
  const TensorType& type = prediction.type();
  check(type.shape == target.type().shape, "mse: the prediction is {} and the target {}; use the same shape",
        type.str(), target.type().str());
  return sum_all(sqr(prediction - target)) / double(type.count());
}

}  // namespace toy::nn
