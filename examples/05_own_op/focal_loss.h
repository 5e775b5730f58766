// A loss that toy does not have. It is made of ops, so its gradient comes by itself.
#pragma once

#include "toy/ops/ops.h"

namespace own {

/// Focal loss with gamma = 2 (Lin et al. 2017): the mean of -(1 - p)^2 log p, p being the probability that softmax
/// gives to a row's target. What is already right counts little. logits:[N,V] targets:i32[N] -> [].
inline toy::Value focal_loss(toy::Value logits, toy::Value targets) {
  using namespace toy;
  const Value p = sum(softmax(logits) * one_hot(targets, logits.dim(1)), 1);  // [N,1]
  const Value miss = 1.0 - p;
  return -sum_all(miss * miss * log(p)) / double(logits.dim(0));
}

}  // namespace own
