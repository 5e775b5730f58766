// The 8-bit code of AdamW's moments: dynamic tree quantization (Dettmers 2016; Dettmers et al. 2021, section 1.3) on a
// scale from -1 to 1, or from 0 to 1 for numbers that are not negative.
//
// Each of seven decades, from 10^-7..10^-6 to 10^-1..1, is divided into equal parts whose midpoints are the values:
// decade i, counted from 0, into 2^i parts for a code with sign, into 2^(i+1) without. With 0 and 1 (there is no -1)
// that makes 256. A code is the place of its value in ascending order; a number gets the code of the nearest value, the
// lower one on a tie.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace toy {

/// A code: 256 values and the thresholds between them.
struct DynamicCode {
  std::array<float, 256> value{};      ///< ascending
  std::array<float, 256> threshold{};  ///< numbers above threshold[k] have a code above k; the last is infinite

  /// The number of thresholds below x.
  constexpr uint8_t of(double x) const {
    int code = 0;
    for (int bit = 128; bit > 0; bit /= 2)
      if (x > double(threshold[size_t(code + bit - 1)])) code += bit;
    return uint8_t(code);
  }
};

/// The code from -1 to 1, or from 0 to 1.
constexpr DynamicCode dynamic_code(bool has_sign) {
  constexpr double kTop[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  DynamicCode c;
  size_t n = 0;
  const auto middle = [&](int decade, int part, int parts) {
    return float(kTop[decade] * (0.1 + 0.9 * (part + 0.5) / parts));
  };
  if (has_sign)
    for (int d = 6; d >= 0; --d)
      for (int part = (1 << d) - 1; part >= 0; --part) c.value[n++] = -middle(d, part, 1 << d);
  c.value[n++] = 0;
  for (int d = 0; d < 7; ++d)
    for (int part = 0, parts = has_sign ? 1 << d : 2 << d; part < parts; ++part) c.value[n++] = middle(d, part, parts);
  c.value[n] = 1;
  c.threshold[255] = std::numeric_limits<float>::infinity();
  for (size_t k = 0; k < 255; ++k) c.threshold[k] = float((double(c.value[k]) + double(c.value[k + 1])) / 2);
  return c;
}

inline constexpr DynamicCode kSignedCode = dynamic_code(true), kUnsignedCode = dynamic_code(false);
static_assert(kSignedCode.value[127] == 0 && kSignedCode.value[255] == 1 && kUnsignedCode.value[255] == 1);

}  // namespace toy
