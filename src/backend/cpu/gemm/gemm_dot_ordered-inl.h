// Rows of w read one after the other (NJ at a time), in the order in which they lie: for products that wait for memory.
// The hardware fetches along, and we fetch about 9 KiB ahead to L2: fetches to L1 wait for one of its few buffers for
// misses, and so do the loads behind them. One core of Zen 5 reads 39 GB/s so for one row of x and 28 to 37 for two to
// eight (then fetching to L1), against 28 and 17 to 25 when eight rows of w are read side by side. Where fetching ends
// with pages (fetching.h), kSideBySide rows of x and fewer are faster side by side. As many K-blocks of a row are read
// in one go as keep x in L1. The lanes of every (K-block, row of x, output) wait for their tree of sums.
#if defined(TOY_CPU_GEMM_DOT_ORDERED_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_GEMM_DOT_ORDERED_INL_H_
#undef TOY_CPU_GEMM_DOT_ORDERED_INL_H_
#else
#define TOY_CPU_GEMM_DOT_ORDERED_INL_H_
#endif

#include "backend/cpu/gemm/gemm_dot_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

constexpr size_t kAhead = 9216, kOrderedX = 24576;                             // bytes
constexpr size_t kOrdered = kLanes == 16 ? kMaxOrdered : kLanes == 8 ? 4 : 2;  // what the registers have room for
constexpr size_t kSideBySide = 4;                                              // of x, where fetching ends with pages

// What comes after some rows of a strip, in the order in which it is read.
template <class T>
struct NextRows {
  const T *here, *after;  // this pass; the pass behind it (or the next strip)
  size_t ld, ahead;       // in elements; in rows, up to kStrip
  HWY_INLINE const T* operator()(size_t j) const {
    return j + ahead < kStrip ? here + (j + ahead) * ld : after + (j + ahead - kStrip) * ld;
  }
};

template <int MR, int NJ, class T>
HWY_INLINE void block_in_order(const float* HWY_RESTRICT x, size_t len, const T* const (&w)[NJ],
                               const T* const (&next)[NJ], float* HWY_RESTRICT lanes) {
  VF acc[MR][NJ][kParts];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (size_t n = 0; n < NJ; ++n)
#pragma GCC unroll 4
      for (size_t h = 0; h < kParts; ++h) acc[i][n][h] = hn::Zero(kF32);
  for (size_t k = 0; k < len; k += 16, x += MR * 16) {
#pragma GCC unroll 4
    for (size_t n = 0; n < NJ; ++n)
      if (k * sizeof(T) % 64 == 0) __builtin_prefetch(next[n] + k, 0, 2);
#pragma GCC unroll 4
    for (size_t h = 0; h < kParts; ++h) {
      VF v[NJ];
#pragma GCC unroll 4
      for (size_t n = 0; n < NJ; ++n) {
        v[n] = load_f32(kF32, w[n] + k + h * kLanes);
        keep(v[n]);
      }
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        VF a = hn::Load(kF32, x + i * 16 + h * kLanes);
        if (NJ > 1) keep(a);
#pragma GCC unroll 4
        for (size_t n = 0; n < NJ; ++n) acc[i][n][h] = hn::MulAdd(a, v[n], acc[i][n][h]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (size_t n = 0; n < NJ; ++n)
#pragma GCC unroll 4
      for (size_t h = 0; h < kParts; ++h)
        hn::Store(acc[i][n][h], kF32, lanes + (size_t(i) * kStrip + n) * 16 + h * kLanes);
}

// All lanes of a strip of eight rows of w, `after` being what will be read next. x: [block][step][MR][16],
// lanes: [block][MR][8][16].
template <int MR, int NJ, class T>
HWY_NOINLINE void lanes_in_order(const float* x, const KBlocks& blocks, const T* const (&row)[kStrip], const T* after,
                                 float* lanes) {
  const size_t pass = std::max<size_t>(1, kOrderedX / (MR * blocks.len * sizeof(float)));  // K-blocks in one go
  for (size_t first = 0; first < blocks.count; first += pass) {
    const size_t end = std::min(first + pass, blocks.count),
                 run = std::min(end * blocks.len, blocks.k) - first * blocks.len;
    NextRows<T> next{row[0] + first * blocks.len, end < blocks.count ? row[0] + end * blocks.len : after, blocks.k,
                     std::clamp<size_t>(ceil_div(kAhead, run * sizeof(T)), 1, kStrip)};
    for (size_t j = 0; j < kStrip; j += NJ)
      for (size_t b = first; b < end; ++b) {
        const T *w[NJ], *fetch[NJ];
#pragma GCC unroll 4
        for (size_t n = 0; n < NJ; ++n) {
          w[n] = row[j + n] + b * blocks.len;
          fetch[n] = next(j + n) + (b - first) * blocks.len;
        }
        block_in_order<MR, NJ>(x + b * blocks.len * MR, blocks.size(b), w, fetch, lanes + (b * MR * kStrip + j) * 16);
      }
  }
}

// The tree of sums of eight outputs, [output][16].
HWY_INLINE void tree_of_lanes(const float* HWY_RESTRICT lanes, Half (&out)[kSums]) {
#if HWY_MAX_BYTES >= 64
  VF v[kStrip];
#pragma GCC unroll 8
  for (size_t j = 0; j < kStrip; ++j) v[j] = hn::Load(kF32, lanes + j * 16);
#else
  Half v[kStrip];
#pragma GCC unroll 8
  for (size_t j = 0; j < kStrip; ++j)
#pragma GCC unroll 4
    for (size_t low = 0; low < kParts / 2; ++low) {  // lanes l and l+8 first, then (four lanes) l and l+4
      const float* p = lanes + j * 16 + low * kLanes;
      const Half sum = hn::Add(hn::Load(kF32, p), hn::Load(kF32, p + 8));
      v[j] = low == 0 ? sum : hn::Add(v[j], sum);
    }
#endif
  tree(v, out);
}

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_GEMM_DOT_ORDERED_INL_H_
