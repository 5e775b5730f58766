// Element types: what they are called, how they lie in memory, and conversions of the 16-bit ones.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>

namespace toy {

/// Element type of a tensor. From q4_0 on: the quantized types of GGUF, whose elements exist only in blocks.
enum class DType : uint8_t {
  f32,
  f64,
  f16,
  bf16,
  i32,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4
};

/// What a type is. A row of a tensor is a number of blocks, `block` elements in `bytes` bytes each.
struct DTypeInfo {
  enum Kind : uint8_t { floating, integer, quantized };
  DType type;
  std::string_view name;
  Kind kind;
  uint16_t block;  ///< 1 unless quantized
  uint16_t bytes;
  double roundoff = 0;  ///< half the distance from 1 to the next number; 0 where that differs from block to block
};

/// Every type, in the order of DType.
inline constexpr DTypeInfo kDTypes[] = {
    {DType::f32, "f32", DTypeInfo::floating, 1, 4, 0x1p-24},
    {DType::f64, "f64", DTypeInfo::floating, 1, 8, 0x1p-53},
    {DType::f16, "f16", DTypeInfo::floating, 1, 2, 0x1p-11},
    {DType::bf16, "bf16", DTypeInfo::floating, 1, 2, 0x1p-8},
    {DType::i32, "i32", DTypeInfo::integer, 1, 4},
    {DType::q4_0, "q4_0", DTypeInfo::quantized, 32, 18},
    {DType::q4_1, "q4_1", DTypeInfo::quantized, 32, 20},
    {DType::q5_0, "q5_0", DTypeInfo::quantized, 32, 22},
    {DType::q5_1, "q5_1", DTypeInfo::quantized, 32, 24},
    {DType::q8_0, "q8_0", DTypeInfo::quantized, 32, 34},
    {DType::q2_k, "q2_k", DTypeInfo::quantized, 256, 84},
    {DType::q3_k, "q3_k", DTypeInfo::quantized, 256, 110},
    {DType::q4_k, "q4_k", DTypeInfo::quantized, 256, 144},
    {DType::q5_k, "q5_k", DTypeInfo::quantized, 256, 176},
    {DType::q6_k, "q6_k", DTypeInfo::quantized, 256, 210},
    {DType::iq4_nl, "iq4_nl", DTypeInfo::quantized, 32, 18},
    {DType::iq4_xs, "iq4_xs", DTypeInfo::quantized, 256, 136},
    {DType::mxfp4, "mxfp4", DTypeInfo::quantized, 32, 17},
};
static_assert([] {
  for (size_t i = 0; i < std::size(kDTypes); ++i)
    if (size_t(kDTypes[i].type) != i) return false;
  return true;
}());

/// What a type is.
constexpr const DTypeInfo& info_of(DType t) { return kDTypes[size_t(t)]; }

/// "f32", "q4_k", ...
constexpr std::string_view name_of(DType t) { return size_t(t) < std::size(kDTypes) ? info_of(t).name : "?"; }

/// f32, f64, f16 and bf16: elements that ops can compute with.
constexpr bool is_float(DType t) { return info_of(t).kind == DTypeInfo::floating; }
/// Stored in blocks: a single element has no address and no size.
constexpr bool is_quantized(DType t) { return info_of(t).kind == DTypeInfo::quantized; }

/// Throws Error{failure}.
[[noreturn]] void fail_without_element_size(DType t);
/// Bytes of one element of a type that is not quantized.
constexpr size_t size_of(DType t) {
  if (is_quantized(t)) fail_without_element_size(t);
  return info_of(t).bytes;
}
/// Bytes of elements that follow each other in memory: any number, of a quantized type a multiple of its block.
constexpr size_t bytes_of(DType t, int64_t count) { return size_t(count) / info_of(t).block * info_of(t).bytes; }

/// Half the distance from 1 to the next number: the largest relative error of one rounding. 0 for integers and
/// quantized types.
constexpr double unit_roundoff(DType t) { return info_of(t).roundoff; }

/// Storage of an IEEE 754 half: bits only, so it cannot be used in arithmetic by accident.
struct F16 {
  uint16_t bits;
};
/// Storage of a bfloat16, the upper half of an f32.
struct BF16 {
  uint16_t bits;
};

/// Exact.
inline float to_float(BF16 v) { return std::bit_cast<float>(uint32_t(v.bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
inline BF16 to_bf16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {uint16_t((u >> 16) | 0x40)};
  return {uint16_t((u + 0x7fffu + ((u >> 16) & 1)) >> 16)};
}

/// Exact.
inline float to_float(F16 v) {
  const uint32_t sign = uint32_t(v.bits & 0x8000u) << 16, exponent = (v.bits >> 10) & 31, fraction = v.bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in f32
    const float magnitude = float(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

/// Rounds to nearest, ties to even; beyond 65504 (after rounding) becomes infinity.
inline F16 to_f16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return {uint16_t(sign | 0x7e00u)};
  if (a >= 0x477ff000u) return {uint16_t(sign | 0x7c00u)};
  if (a < 0x38800000u) {  // subnormal result: let one f32 addition round to a multiple of 2^-24
    const float shifted = std::bit_cast<float>(a) + 0.5f;
    return {uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  return {uint16_t(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1)) >> 13))};
}

/// For templates over the storage types.
inline float to_float(float v) { return v; }

}  // namespace toy
