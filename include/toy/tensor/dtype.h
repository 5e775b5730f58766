// Element types and their conversions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace toy {

/// Element type of a tensor.
enum class DType : uint8_t { f32, f64, f16, bf16, i32 };

/// Bytes of one element.
constexpr size_t size_of(DType t) {
  switch (t) {
    case DType::f64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
  }
  return 0;
}

/// "f32", "f64", ...
constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
  }
  return "?";
}

/// All dtypes except i32.
constexpr bool is_float(DType t) { return t != DType::i32; }

/// Half the distance from 1 to the next number: the largest relative error of one rounding.
constexpr double unit_roundoff(DType t) {
  switch (t) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::i32:
      return 0;
  }
  return 0;
}

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
