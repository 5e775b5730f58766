// Pairs of bf16 from f32. Included between the pragmas that choose the instruction set (AVX512_BF16), by files of
// intrinsics alone.
#pragma once

#include <immintrin.h>

#include <cstddef>

namespace toy::cpu {
namespace {

inline __mmask16 first(size_t n) { return __mmask16(n >= 16 ? 0xffff : (1u << n) - 1); }

// Two lines of sixteen f32 as sixteen pairs (low, high).
inline __m512i pairs(__m512 low, __m512 high) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

}  // namespace
}  // namespace toy::cpu
