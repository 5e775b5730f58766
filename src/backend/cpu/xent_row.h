// One row of a softmax cross-entropy.
#pragma once

#include <cstddef>

namespace toy::cpu {

/// -log softmax(logits)[target]. With `gradient` the row becomes weight * (softmax - [j == target]).
/// Any NaN, or an infinite maximum, gives NaN in the result and the whole gradient.
/// The sum of exponentials: sixteen f32 lanes over 1024 logits, added as a tree; such sums in order in f64.
float xent_row(float* logits, size_t vocab, size_t target, float weight, bool gradient);

}  // namespace toy::cpu
