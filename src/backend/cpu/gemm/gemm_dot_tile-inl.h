// Tiles of dot_product with eight rows of w side by side: sums of up to three rows of x by eight outputs in registers,
// and where they go.
#if defined(TOY_CPU_GEMM_DOT_TILE_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_GEMM_DOT_TILE_INL_H_
#undef TOY_CPU_GEMM_DOT_TILE_INL_H_
#else
#define TOY_CPU_GEMM_DOT_TILE_INL_H_
#endif

#include "backend/cpu/gemm/gemm_dot.h"
#include "backend/cpu/gemm/gemm_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

constexpr size_t kSums = kStrip / kHalfLanes;  // vectors of a row of eight sums

template <class T>
struct InPlaceStrip {  // eight rows of w where they lie
  const T* row[kStrip];
  HWY_INLINE VF operator()(size_t step, size_t r, size_t part) const {
    return load_f32(kF32, row[r] + step * 16 + part * kLanes);
  }
};
struct PackedStrip {  // [step][row][16]
  const float* p;
  HWY_INLINE VF operator()(size_t step, size_t r, size_t part) const {
    return hn::Load(kF32, p + (step * kStrip + r) * 16 + part * kLanes);
  }
};

// Rows of the unit that comes next, fetched to L2 while this one is computed: one line a step and row.
// Fetching to L1 is no better than not fetching: both lose 20 to 35% for one to four rows.
struct Prefetch {
  const char* p = nullptr;
  size_t row = 0, step = 0;
  template <int n>
  HWY_INLINE void at(size_t s) const {
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) __builtin_prefetch(p + i * row + s * step, 0, 2);
  }
};

// Sums of MR rows by eight outputs over one K-block. x: [step][MR][16].
#if HWY_MAX_BYTES >= 64
template <int MR, int PF, class W>
HWY_INLINE void dot_tile(const float* HWY_RESTRICT x, size_t steps, const W w, const Prefetch next,
                         Half (&out)[MR][kSums]) {
  VF acc[MR][8];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) acc[i][j] = hn::Zero(kF32);
  for (size_t s = 0; s < steps; ++s) {
    next.template at<PF>(s);
    VF a[MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      a[i] = hn::Load(kF32, x + i * 16);
      keep(a[i]);
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      VF b = w(s, j, 0);
      keep(b);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) acc[i][j] = hn::MulAdd(a[i], b, acc[i][j]);
    }
    x += MR * 16;
  }
  // Unrolled arrays of constants only: a run-time index would send all sums through the stack.
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) tree(acc[i], out[i]);
}
#else
// Sums of MR rows by four outputs (16 registers) for one of the vectors that make up the 16 lanes.
template <int MR, int PF, class W>
HWY_INLINE void dot_part(const float* HWY_RESTRICT x, size_t steps, const W w, const Prefetch next, size_t first,
                         size_t part, VF (&acc)[MR][4]) {
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < 4; ++j) acc[i][j] = hn::Zero(kF32);
  for (size_t s = 0; s < steps; ++s) {
    if (first == 0 && part == 0) next.template at<PF>(s);
    VF a[MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) a[i] = hn::Load(kF32, x + (s * MR + i) * 16 + part * kLanes);
#pragma GCC unroll 8
    for (int j = 0; j < 4; ++j) {
      VF b = w(s, first + j, part);
      keep(b);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) acc[i][j] = hn::MulAdd(a[i], b, acc[i][j]);
    }
  }
}

template <int MR, int PF, class W>
HWY_INLINE void dot_tile(const float* HWY_RESTRICT x, size_t steps, const W w, const Prefetch next,
                         Half (&out)[MR][kSums]) {
  Half h[MR][8];
  for (size_t g = 0; g < 8; g += 4)
    for (size_t low = 0; low < kParts / 2; ++low) {  // lanes l and l+8 first, then (four lanes) l and l+4
      VF a[MR][4], b[MR][4];
      dot_part<MR, PF>(x, steps, w, next, g, low, a);
      dot_part<MR, PF>(x, steps, w, next, g, low + kParts / 2, b);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < 4; ++j) {
          const Half sum = hn::Add(a[i][j], b[i][j]);
          h[i][g + j] = low == 0 ? sum : hn::Add(h[i][g + j], sum);
        }
    }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) tree(h[i], out[i]);
}
#endif

// Where the sums of a unit go: partial sums to `sum`, from the last block on to y. All at the unit's first
// row.
struct Store {
  float* sum;
  size_t ld_sum;
  const float* bias;
  const float* acc;
  float* y;
  size_t ld;    // of acc and y
  size_t outs;  // up to 8
  bool first, last;

  HWY_INLINE float* to(size_t row) const { return last ? y + row * ld : sum + row * ld_sum; }

  // Ahead of put(): of many rows none is still in the first-level cache from the strip before.
  HWY_INLINE void fetch(size_t row, size_t rows) const {
#pragma GCC unroll 4
    for (size_t i = 0; i < rows; ++i) __builtin_prefetch(to(row + i), 1, 3);
  }

  HWY_INLINE void put(const Half (&s)[kSums], size_t row) const {
    const HalfTag d;
    if (HWY_LIKELY(outs == kStrip)) {
#pragma GCC unroll 2
      for (size_t q = 0; q < kSums; ++q) {
        const size_t o = q * kHalfLanes;
        Half v = s[q];
        if (!first) v = hn::Add(hn::LoadU(d, sum + row * ld_sum + o), v);
        if (last && bias) v = hn::Add(v, hn::LoadU(d, bias + o));
        if (last && acc) v = hn::Add(v, hn::LoadU(d, acc + row * ld + o));
        hn::StoreU(v, d, to(row) + o);
      }
      return;
    }
    alignas(32) float t[kStrip];
    for (size_t q = 0; q < kSums; ++q) hn::Store(s[q], d, t + q * kHalfLanes);
    put_some(t, row);
  }

  // Of the last strip. Not inlined: it would be half of the code of every tile.
  HWY_NOINLINE void put_some(const float* t, size_t row) const {
    for (size_t j = 0; j < outs; ++j) {
      float v = t[j];
      if (!first) v = sum[row * ld_sum + j] + v;
      if (last && bias) v = v + bias[j];
      if (last && acc) v = v + acc[row * ld + j];
      to(row)[j] = v;
    }
  }
};

// One tile. Not inlined: it keeps its registers.
template <int MR, int PF, class W>
HWY_NOINLINE void dot_tile_store(const float* x, size_t steps, const W& w, Prefetch next, const Store& to, size_t row) {
  Half s[MR][kSums];
  to.fetch(row, MR);
  dot_tile<MR, PF>(x, steps, w, next, s);
#pragma GCC unroll 4
  for (int i = 0; i < MR; ++i) to.put(s[i], row + i);
}

template <int PF, class W>
HWY_INLINE void dot_rows(size_t mr, const float* x, size_t steps, const W& w, const Prefetch& next, const Store& to,
                         size_t row) {
  if (mr == 3)
    dot_tile_store<3, PF>(x, steps, w, next, to, row);
  else if (mr == 2)
    dot_tile_store<2, PF>(x, steps, w, next, to, row);
  else
    dot_tile_store<1, PF>(x, steps, w, next, to, row);
}

HWY_INLINE size_t tile_rows(size_t left) { return left == 4 ? 2 : std::min(left, kTileRows); }

// All rows of a unit. Each of the first tiles fetches some rows of the next unit's weights.
template <class T>
void few_rows_unit(const float* x, size_t rows, size_t steps, const InPlaceStrip<T>& w, Prefetch next,
                   const Store& to) {
  const size_t tiles = rows == 4 ? 2 : ceil_div(rows, kTileRows);
  const size_t per = tiles == 1 ? 8 : tiles <= 3 ? 4 : tiles <= 7 ? 2 : 1;
  size_t left = next.p ? kStrip : 0;
  for (size_t r = 0; r < rows;) {
    const size_t mr = tile_rows(rows - r);
    const float* xt = x + r * steps * 16;
    if (left == 0)
      dot_rows<0>(mr, xt, steps, w, next, to, r);
    else if (per == 1)
      dot_rows<1>(mr, xt, steps, w, next, to, r);
    else if (per == 2)
      dot_rows<2>(mr, xt, steps, w, next, to, r);
    else if (per == 4)
      dot_rows<4>(mr, xt, steps, w, next, to, r);
    else
      dot_rows<8>(mr, xt, steps, w, next, to, r);
    left -= std::min(left, per);
    next.p += per * next.row;
    r += mr;
  }
}
HWY_MAYBE_UNUSED void many_rows_unit(const float* x, size_t rows, size_t steps, const PackedStrip& w, Prefetch next,
                                     const Store& to) {
  size_t left = next.p ? kStrip : 0;
  for (size_t r = 0; r < rows;) {
    const size_t mr = tile_rows(rows - r);
    const float* xt = x + r * steps * 16;
    if (left == 0) {
      dot_rows<0>(mr, xt, steps, w, next, to, r);
    } else {
      dot_rows<1>(mr, xt, steps, w, next, to, r);
      --left;
      next.p += next.row;
    }
    r += mr;
  }
}

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_GEMM_DOT_TILE_INL_H_
