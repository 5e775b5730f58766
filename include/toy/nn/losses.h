// Losses of small nets, written in ops. A language model's is linear_xent(), which never holds all logits.
#pragma once

#include "toy/ops/ops.h"

namespace toy::nn {

/// The mean over rows of -log softmax(logits)[target], in nats: the log of how many classes the net hesitates between.
/// logits:[N,C] targets:i32[N], each from 0 to C - 1 -> [].
Value cross_entropy(Value logits, Value targets);
/// The mean of (prediction - target)^2 over all elements. Both of one shape -> [].
Value mse(Value prediction, Value target);

}  // namespace toy::nn
