// Transposes of f32 matrices.
#if defined(TOY_CPU_TRANSPOSE_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_TRANSPOSE_INL_H_
#undef TOY_CPU_TRANSPOSE_INL_H_
#else
#define TOY_CPU_TRANSPOSE_INL_H_
#endif

#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// dst[p + i][j] for i < 4: a 4 x 4 block of rows src, src + stride, ... transposed.
HWY_INLINE void transpose4x4(const float* src, int64_t stride, float* dst, int64_t ld) {
  const hn::FixedTag<float, 4> d;
  const auto r0 = hn::LoadU(d, src), r1 = hn::LoadU(d, src + stride);
  const auto r2 = hn::LoadU(d, src + 2 * stride), r3 = hn::LoadU(d, src + 3 * stride);
  const auto lo01 = hn::InterleaveLower(d, r0, r1), hi01 = hn::InterleaveUpper(d, r0, r1);
  const auto lo23 = hn::InterleaveLower(d, r2, r3), hi23 = hn::InterleaveUpper(d, r2, r3);
  hn::StoreU(hn::ConcatLowerLower(d, lo23, lo01), d, dst);
  hn::StoreU(hn::ConcatUpperUpper(d, lo23, lo01), d, dst + ld);
  hn::StoreU(hn::ConcatLowerLower(d, hi23, hi01), d, dst + 2 * ld);
  hn::StoreU(hn::ConcatUpperUpper(d, hi23, hi01), d, dst + 3 * ld);
}

#if HWY_TARGET == HWY_AVX3
// A block of 16 x 16: transposed within 128 bits, then the 128-bit blocks among each other.
inline void transpose16(const float* from, int64_t ld, float* to, int64_t width) {
  const hn::RepartitionToWide<DF> d64;
  VF w[4][4];  // w[g][r], block b: column 4 b + r of rows 4 g to 4 g + 3
  for (int g = 0; g < 4; ++g) {
    const float* row = from + 4 * g * ld;
    const VF r0 = hn::LoadU(kF32, row), r1 = hn::LoadU(kF32, row + ld), r2 = hn::LoadU(kF32, row + 2 * ld),
             r3 = hn::LoadU(kF32, row + 3 * ld);
    const auto lo01 = hn::BitCast(d64, hn::InterleaveLower(kF32, r0, r1)),
               lo23 = hn::BitCast(d64, hn::InterleaveLower(kF32, r2, r3)),
               hi01 = hn::BitCast(d64, hn::InterleaveUpper(kF32, r0, r1)),
               hi23 = hn::BitCast(d64, hn::InterleaveUpper(kF32, r2, r3));
    w[g][0] = hn::BitCast(kF32, hn::InterleaveLower(d64, lo01, lo23));
    w[g][1] = hn::BitCast(kF32, hn::InterleaveUpper(d64, lo01, lo23));
    w[g][2] = hn::BitCast(kF32, hn::InterleaveLower(d64, hi01, hi23));
    w[g][3] = hn::BitCast(kF32, hn::InterleaveUpper(d64, hi01, hi23));
  }
  for (int r = 0; r < 4; ++r) {
    const VF even01 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(w[1][r]), w[0][r]),
             odd01 = hn::OddEvenBlocks(w[1][r], hn::SwapAdjacentBlocks(w[0][r])),
             even23 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(w[3][r]), w[2][r]),
             odd23 = hn::OddEvenBlocks(w[3][r], hn::SwapAdjacentBlocks(w[2][r]));
    hn::StoreU(hn::ConcatLowerLower(kF32, even23, even01), kF32, to + r * width);
    hn::StoreU(hn::ConcatLowerLower(kF32, odd23, odd01), kF32, to + (4 + r) * width);
    hn::StoreU(hn::ConcatUpperUpper(kF32, even23, even01), kF32, to + (8 + r) * width);
    hn::StoreU(hn::ConcatUpperUpper(kF32, odd23, odd01), kF32, to + (12 + r) * width);
  }
}
#endif

// to[j][i] = from[i][j] for `rows` rows and `cols` columns; zeros for columns of `to` from `rows` to `width`, a
// multiple of 16. Lines of `to` are written one after the other.
inline void transpose(const float* from, int64_t ld, int64_t rows, int64_t cols, float* to, int64_t width) {
  for (int64_t line = 0; line < width; line += 16) {
    int64_t j = 0;
#if HWY_TARGET == HWY_AVX3
    for (; line + 16 <= rows && j + 16 <= cols; j += 16)
      transpose16(from + line * ld + j, ld, to + j * width + line, width);
#endif
    for (; j < cols; j += 4)
      for (int64_t i = line; i < line + 16; i += 4) {
        if (i + 4 <= rows && j + 4 <= cols) {
          transpose4x4(from + i * ld + j, ld, to + j * width + i, width);
          continue;
        }
        for (int64_t p = j; p < HWY_MIN(cols, j + 4); ++p)
          for (int64_t r = i; r < i + 4; ++r) to[p * width + r] = r < rows ? from[r * ld + p] : 0.0f;
      }
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_TRANSPOSE_INL_H_
