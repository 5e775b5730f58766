// Values from one element type to another.
#pragma once

#include "toy/tensor/shape.h"

namespace toy {

/// Copies `from` (any strides) into `to` (contiguous, the same shape), rounding to nearest even where the target is
/// narrower. Floats and quantized values (contiguous) convert to each other, by way of f32 where one is quantized, and
/// i32 to i32 or a float. Throws as quantize() does.
void convert(const View& from, const View& to);

/// Element i of a contiguous view, as f64.
double element(const View& v, int64_t i);

}  // namespace toy
