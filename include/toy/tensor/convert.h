// Values from one element type to another.
#pragma once

#include "toy/tensor/shape.h"

namespace toy {

/// Copies `from` (any strides) into `to` (contiguous, the same shape), rounding to nearest even where the target is
/// narrower. Floats convert to floats, i32 to i32 or a float.
void convert(const View& from, const View& to);

/// Element i of a contiguous view, as f64.
double element(const View& v, int64_t i);

}  // namespace toy
