// One row of a softmax cross-entropy.
#pragma once

#include <cstddef>

namespace toy::cpu {

/// -log softmax(logits)[target]. With `gradient` the row becomes weight * (softmax - [j == target]).
/// Any NaN, or an infinite maximum, gives NaN in the result and the whole gradient.
/// The sum of exponentials: sixteen f32 lanes over 1024 logits, added as a tree; such sums in order in f64.
float xent_row(float* logits, size_t vocab, size_t target, float weight, bool gradient);

/// Logits become cap tanh(logits / cap); slope[i], if wanted, the derivative there: 1 - tanh(logits / cap)^2.
void softcap_row(float* logits, size_t n, float cap, float* slope);
/// gradient *= slope.
void times_slope(float* gradient, const float* slope, size_t n);

}  // namespace toy::cpu
