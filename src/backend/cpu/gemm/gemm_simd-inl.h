// Vectors for the dense products: the tree of sums of eight outputs at once, transposition.
#if defined(TOY_CPU_GEMM_SIMD_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_GEMM_SIMD_INL_H_
#undef TOY_CPU_GEMM_SIMD_INL_H_
#else
#define TOY_CPU_GEMM_SIMD_INL_H_
#endif

#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

using HalfTag = hn::CappedTag<float, 8>;  // lanes of a transposition or of a row of eight sums
using Half = hn::Vec<HalfTag>;
constexpr size_t kHalfLanes = kLanes < 8 ? kLanes : 8;

// The last steps of the tree of sums for eight outputs at once. Every h[j] holds, per output j, what is left
// of the 16 lanes: eight, or four where vectors have four. The sums come out side by side.
HWY_INLINE Half fold_2(Half a, Half b) {  // l + (l+2) inside each group of four lanes: a, b, a, b
  const HalfTag d;
  const hn::Repartition<double, HalfTag> dd;
  const auto x = hn::BitCast(dd, a), y = hn::BitCast(dd, b);
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(dd, x, y)), hn::BitCast(d, hn::InterleaveUpper(dd, x, y)));
}
HWY_INLINE Half fold_1(Half a, Half b) {  // l + (l+1): a, b, a, b
  const HalfTag d;
  return hn::Add(hn::OddEven(b, a), hn::Reverse2(d, hn::OddEven(a, b)));
}
#if HWY_MAX_BYTES >= 64
// Sixteen lanes each: whole vectors are folded in pairs, so that a sum of eight outputs takes 26 operations.
HWY_INLINE VF fold_8(VF a, VF b) {  // l + (l+8): a, b
  return hn::Add(hn::ConcatLowerLower(kF32, b, a), hn::ConcatUpperUpper(kF32, b, a));
}
HWY_INLINE VF fold_4(VF a, VF b) {  // l + (l+4) of a's two groups and b's, groups taking turns
  return hn::Add(hn::OddEvenBlocks(b, a), hn::SwapAdjacentBlocks(hn::OddEvenBlocks(a, b)));
}
HWY_INLINE void tree(const VF (&s)[8], Half (&out)[1]) {
  const hn::Repartition<double, DF> dd;
  const auto x = hn::BitCast(dd, fold_4(fold_8(s[0], s[4]), fold_8(s[2], s[6])));
  const auto y = hn::BitCast(dd, fold_4(fold_8(s[1], s[5]), fold_8(s[3], s[7])));
  const VF two =
      hn::Add(hn::BitCast(kF32, hn::InterleaveLower(dd, x, y)), hn::BitCast(kF32, hn::InterleaveUpper(dd, x, y)));
  out[0] = hn::LowerHalf(HalfTag(), hn::Add(hn::ConcatEven(kF32, two, two), hn::ConcatOdd(kF32, two, two)));
}
#elif HWY_MAX_BYTES >= 32
HWY_INLINE Half fold_4(Half a, Half b) {  // l + (l+4): a, b
  const HalfTag d;
  return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
}
HWY_INLINE void tree(const Half (&h)[8], Half (&out)[1]) {
  out[0] = fold_1(fold_2(fold_4(h[0], h[4]), fold_4(h[2], h[6])), fold_2(fold_4(h[1], h[5]), fold_4(h[3], h[7])));
}
#else
HWY_INLINE void tree(const Half (&h)[8], Half (&out)[2]) {
  out[0] = fold_1(fold_2(h[0], h[2]), fold_2(h[1], h[3]));
  out[1] = fold_1(fold_2(h[4], h[6]), fold_2(h[5], h[7]));
}
#endif

// r[i] becomes column i of the square that the r[] were rows of.
#if HWY_MAX_BYTES >= 32
HWY_INLINE void transpose(Half (&r)[8]) {
  const HalfTag d;
  const hn::Repartition<double, HalfTag> dd;
  Half t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = hn::ConcatLowerLower(d, r[i + 4], r[i]);
    t[i + 4] = hn::ConcatUpperUpper(d, r[i + 4], r[i]);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 8; h += 4) {
    const auto a = hn::BitCast(dd, hn::InterleaveLower(d, t[h], t[h + 1]));
    const auto b = hn::BitCast(dd, hn::InterleaveUpper(d, t[h], t[h + 1]));
    const auto c = hn::BitCast(dd, hn::InterleaveLower(d, t[h + 2], t[h + 3]));
    const auto e = hn::BitCast(dd, hn::InterleaveUpper(d, t[h + 2], t[h + 3]));
    r[h] = hn::BitCast(d, hn::InterleaveLower(dd, a, c));
    r[h + 1] = hn::BitCast(d, hn::InterleaveUpper(dd, a, c));
    r[h + 2] = hn::BitCast(d, hn::InterleaveLower(dd, b, e));
    r[h + 3] = hn::BitCast(d, hn::InterleaveUpper(dd, b, e));
  }
}
#else
HWY_INLINE void transpose(Half (&r)[4]) {
  const HalfTag d;
  const hn::Repartition<double, HalfTag> dd;
  const auto a = hn::BitCast(dd, hn::InterleaveLower(d, r[0], r[1]));
  const auto b = hn::BitCast(dd, hn::InterleaveUpper(d, r[0], r[1]));
  const auto c = hn::BitCast(dd, hn::InterleaveLower(d, r[2], r[3]));
  const auto e = hn::BitCast(dd, hn::InterleaveUpper(d, r[2], r[3]));
  r[0] = hn::BitCast(d, hn::InterleaveLower(dd, a, c));
  r[1] = hn::BitCast(d, hn::InterleaveUpper(dd, a, c));
  r[2] = hn::BitCast(d, hn::InterleaveLower(dd, b, e));
  r[3] = hn::BitCast(d, hn::InterleaveUpper(dd, b, e));
}
#endif

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
