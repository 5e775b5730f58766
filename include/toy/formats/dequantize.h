// Values of block-quantized tensors.
#pragma once

#include <span>

#include "toy/formats/gguf.h"

namespace toy::gguf {

/// Can the values of a tensor of this type be computed? Q8_0 so far.
bool can_dequantize(const TensorInfo& info);
/// The values as f32, row-major: exact, because a scale has 11 significant bits and a quantum 8. Throws naming the
/// tensor if a scale is not finite.
void dequantize(const TensorInfo& info, std::span<float> out);

}  // namespace toy::gguf
