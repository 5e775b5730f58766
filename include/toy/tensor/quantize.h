// Values of quantized tensors, and quantized tensors of values.
#pragma once

#include <cstdint>
#include <span>

#include "toy/tensor/dtype.h"

namespace toy {

/// The values of `blocks`, which hold out.size() elements (whole blocks), with the bits that ggml computes: every
/// product is exact in f32, so only the one subtraction of a minimum rounds. `blocks` need not be aligned.
void dequantize(DType type, const void* blocks, std::span<float> out);
/// The same of `rows` rows that begin `stride` bytes apart, one after the other.
void dequantize_rows(DType type, const void* blocks, size_t stride, size_t rows, std::span<float> out);

/// The first of `count` blocks whose scale is infinite or no number (for mxfp4: exponent 255), or -1: such a file is
/// damaged.
int64_t find_broken_block(DType type, const void* blocks, int64_t count);

/// Blocks whose values are close to `values`: rows of whole blocks, of importance.size() elements each. The sum of
/// importance * error^2 is made small; without importance large values count more than small ones of their block.
/// Throws Error{bad_input} for values that are not finite or too large for the type, and for importance that is
/// negative or not finite.
void quantize(DType type, std::span<const float> values, std::span<const float> importance, void* blocks);

/// One block of q8_0 in one pass, without quantize()'s search: the scale, which is returned, is the largest magnitude /
/// 127 as f16, levels are the nearest of value / scale, ties to even. Where a value is not finite, or the scale would
/// not be, the scale is NaN.
F16 round_q8_0(std::span<const float, 32> values, int8_t* levels);
/// Blocks of q8_0 with the scales of round_q8_0(), and levels that hardly change the product with the sum u of
/// `queries` (rows of key.size() elements, a multiple of 32). What the levels so far made of it, off = sum (level scale
/// - key) u, is spread over the elements from i on, where it costs least: key_i - off u_i / (|u|^2 / P + u_i^2 + ... +
/// u_P^2) is what is rounded to the nearest level. With no queries, or zeros, the levels are those of round_q8_0().
void round_key_q8_0(std::span<const float> key, std::span<const float> queries, F16* scales, int8_t* levels);

}  // namespace toy
