// Values from one element type to another.
#pragma once

#include "toy/tensor/shape.h"

namespace toy {

/// Copies `from` (any strides) into `to` (contiguous, the same shape), rounding to nearest even where the target is
/// narrower. Floats and quantized values (contiguous) convert to each other, by way of f32 where one is quantized, and
/// i32 to i32 or a float. Throws as quantize() does.
void convert(const View& from, const View& to);

/// As convert(). Throws Error{bad_input} for a finite value that is too large for f16 (above 65504), where `to` has
/// that type: it would become infinite.
void convert_finite(const View& from, const View& to);

/// Element i of a contiguous view, as f64.
double element(const View& v, int64_t i);

}  // namespace toy
