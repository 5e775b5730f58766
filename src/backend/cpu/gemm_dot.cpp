// dot_product: y = x w^T (+ bias) (+ acc). The order of sums is stated in gemm.h.
//
// A unit of work is a strip of eight outputs by one K-block, for all rows of a thread's block. Inside it
// tiles of three rows by eight outputs keep 24 sums in registers; eight outputs make the tree of sums end in
// eight neighbours of y. x is packed by each thread for itself (private packing measured faster than sharing
// between two cores), w is read where it lies for few rows and through a converted copy of the strip in L1
// for many.
#include "backend/cpu/gemm.h"
#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm_dot.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/gemm_simd-inl.h"
#include "toy/base/threads.h"

#ifndef TOY_CPU_GEMM_DOT_ONCE_
#define TOY_CPU_GEMM_DOT_ONCE_
namespace toy::cpu {
constexpr size_t kStrip = 8;       // outputs of a unit
constexpr size_t kTileRows = 3;    // rows of a register tile
constexpr size_t kFewRows = 48;    // up to here w is read in place, strip by strip
constexpr size_t kMaxOrdered = 8;  // up to here (at most, by the number of registers) w is read row after row
constexpr size_t kRowBlock = 256;  // rows for which a packed K-block of x stays in L2
constexpr size_t kGroup = 32;      // strips whose partial sums are held aside when y must not be touched yet
constexpr size_t kMaxRows = kRowBlock + kTileRows;  // of a block, after rounding to whole tiles

// Floats of one thread's workspace: packed x, a strip of w, partial sums.
struct DotSpace {
  size_t x, strip, sums, ld_sums, lanes;
  DotSpace(size_t rows, size_t outs, const KBlocks& blocks) {
    const size_t few = std::min(rows, kFewRows) * blocks.len * blocks.count;
    x = std::max(few, std::min(round_up(rows, kTileRows), kMaxRows) * blocks.len);
    strip = kStrip * blocks.len;
    ld_sums = std::min(round_up(outs, kStrip), kGroup * kStrip);
    sums = round_up(blocks.count == 1 ? 0 : std::min(rows, kMaxRows) * ld_sums, 16);
    lanes = std::min(rows, kMaxOrdered) * kStrip * 16 * blocks.count;
  }
  size_t bytes() const { return round_up((x + strip + sums + lanes) * sizeof(float), 64); }
};
}  // namespace toy::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

constexpr size_t kSums = kStrip / kHalfLanes;  // vectors of a row of eight sums

template <class T>
struct InPlaceStrip {  // eight rows of w where they lie
  const T* row[kStrip];
  HWY_INLINE Full operator()(size_t step, size_t r, size_t part) const {
    return load_f32(FullTag(), row[r] + step * 16 + part * kLanes);
  }
};
struct PackedStrip {  // [step][row][16]
  const float* p;
  HWY_INLINE Full operator()(size_t step, size_t r, size_t part) const {
    return hn::Load(FullTag(), p + (step * kStrip + r) * 16 + part * kLanes);
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
  const FullTag d;
  Full acc[MR][8];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) acc[i][j] = hn::Zero(d);
  for (size_t s = 0; s < steps; ++s) {
    next.template at<PF>(s);
    Full a[MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      a[i] = hn::Load(d, x + i * 16);
      keep(a[i]);
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      Full b = w(s, j, 0);
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
                         size_t part, Full (&acc)[MR][4]) {
  const FullTag d;
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < 4; ++j) acc[i][j] = hn::Zero(d);
  for (size_t s = 0; s < steps; ++s) {
    if (first == 0 && part == 0) next.template at<PF>(s);
    Full a[MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) a[i] = hn::Load(d, x + (s * MR + i) * 16 + part * kLanes);
#pragma GCC unroll 8
    for (int j = 0; j < 4; ++j) {
      Full b = w(s, first + j, part);
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
      Full a[MR][4], b[MR][4];
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

// Rows of w read one after the other (NJ at a time), in the order in which they lie: for products that wait for memory.
// The hardware fetches along, and we fetch about 9 KiB ahead to L1. One core of Zen 5 reads 39 GB/s so for one row of x
// and 28 to 37 for two to eight, against 28 and 17 to 25 when eight rows of w are read side by side. As many K-blocks
// of a row are read in one go as keep x in L1. The lanes of every (K-block, row of x, output) wait for their tree of
// sums.
constexpr size_t kAhead = 9216, kOrderedX = 24576;                             // bytes
constexpr size_t kOrdered = kLanes == 16 ? kMaxOrdered : kLanes == 8 ? 4 : 2;  // what the registers have room for

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
  const FullTag d;
  Full acc[MR][NJ][kParts];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (size_t n = 0; n < NJ; ++n)
#pragma GCC unroll 4
      for (size_t h = 0; h < kParts; ++h) acc[i][n][h] = hn::Zero(d);
  for (size_t k = 0; k < len; k += 16, x += MR * 16) {
#pragma GCC unroll 4
    for (size_t n = 0; n < NJ; ++n) __builtin_prefetch(next[n] + k, 0, 3);
#pragma GCC unroll 4
    for (size_t h = 0; h < kParts; ++h) {
      Full v[NJ];
#pragma GCC unroll 4
      for (size_t n = 0; n < NJ; ++n) {
        v[n] = load_f32(d, w[n] + k + h * kLanes);
        keep(v[n]);
      }
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        Full a = hn::Load(d, x + i * 16 + h * kLanes);
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
        hn::Store(acc[i][n][h], d, lanes + (size_t(i) * kStrip + n) * 16 + h * kLanes);
}

// All lanes of a strip of eight rows of w. x: [block][step][MR][16], lanes: [block][MR][8][16].
template <int MR, int NJ, class T>
HWY_NOINLINE void lanes_in_order(const float* x, const KBlocks& blocks, const T* const (&row)[kStrip], float* lanes) {
  const size_t pass = std::max<size_t>(1, kOrderedX / (MR * blocks.len * sizeof(float)));  // K-blocks in one go
  for (size_t first = 0; first < blocks.count; first += pass) {
    const size_t end = std::min(first + pass, blocks.count),
                 run = std::min(end * blocks.len, blocks.k) - first * blocks.len;
    NextRows<T> next{row[0] + first * blocks.len, row[0] + (end < blocks.count ? end * blocks.len : kStrip * blocks.k),
                     blocks.k, std::clamp<size_t>(ceil_div(kAhead, run * sizeof(T)), 1, kStrip)};
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
  const FullTag d;
#if HWY_MAX_BYTES >= 64
  Full v[kStrip];
#pragma GCC unroll 8
  for (size_t j = 0; j < kStrip; ++j) v[j] = hn::Load(d, lanes + j * 16);
#else
  Half v[kStrip];
#pragma GCC unroll 8
  for (size_t j = 0; j < kStrip; ++j)
#pragma GCC unroll 4
    for (size_t low = 0; low < kParts / 2; ++low) {  // lanes l and l+8 first, then (four lanes) l and l+4
      const float* p = lanes + j * 16 + low * kLanes;
      const Half sum = hn::Add(hn::Load(d, p), hn::Load(d, p + 8));
      v[j] = low == 0 ? sum : hn::Add(v[j], sum);
    }
#endif
  tree(v, out);
}

// `rows` lines of `len` values as f32 in [step][row][16]; the tail of K is zero.
template <class T>
HWY_INLINE void pack_rows(const T* const* row, size_t rows, size_t len, float* HWY_RESTRICT out) {
  const FullTag d;
  const size_t full = len / 16;
  for (size_t s = 0; s < full; ++s)
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (size_t h = 0; h < 16; h += kLanes)
        hn::Store(load_f32(d, row[r] + s * 16 + h), d, out + (s * rows + r) * 16 + h);
  if (len % 16 == 0) return;
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < 16; ++i) {
      const size_t k = full * 16 + i;
      out[(full * rows + r) * 16 + i] = k < len ? to_float(row[r][k]) : 0.0f;
    }
}

// Rows [r0, r0+rows) of x over one K-block, in tiles of [step][row of tile][16].
HWY_MAYBE_UNUSED void pack_x(const DotProduct& p, const KBlocks& blocks, size_t r0, size_t rows, size_t block,
                             float* out) {
  const size_t len = blocks.size(block), steps = ceil_div(len, 16);
  for (size_t r = 0; r < rows;) {
    const size_t mr = tile_rows(rows - r);
    const float* row[kTileRows];
    for (size_t i = 0; i < mr; ++i) row[i] = p.x + (r0 + r + i) * p.k + block * blocks.len;
    if (mr == 3)
      pack_rows(row, 3, len, out);
    else if (mr == 2)
      pack_rows(row, 2, len, out);
    else
      pack_rows(row, 1, len, out);
    out += mr * steps * 16;
    r += mr;
  }
}

// One thread's part of the product: a block of rows by some strips.
template <class T>
class DotTask {
 public:
  DotTask(const DotProduct& p, Range rows, Range strips, float* workspace)
      : p_(p), blocks_(dot_blocks(p.k)), rows_(rows), strips_(strips) {
    const DotSpace space(p.rows, p.outs, blocks_);
    x_ = workspace;
    strip_ = x_ + space.x;
    sums_ = strip_ + space.strip;
    lanes_ = sums_ + space.sums;
    ld_sums_ = space.ld_sums;
  }

  void run() {
    if (size_t(rows_.size()) <= kFewRows)
      few();
    else
      many();
  }

 private:
  // Strip by strip, its K-blocks in turn: w is read once, in the file's order.
  void few() {
    const size_t rows = size_t(rows_.size()), step = blocks_.len * rows;  // between the K-blocks of packed x
    if (p_.k > 0 && p_.k % 16 == 0 && rows <= kOrdered) return in_order(rows);
    for (size_t b = 0; b < blocks_.count; ++b) pack_x(p_, blocks_, rows_.begin, rows, b, x_ + b * step);
    for (size_t s = strips_.begin; s < size_t(strips_.end); ++s)
      for (size_t b = 0; b < blocks_.count; ++b) {
        const bool last = b + 1 == blocks_.count;
        const Prefetch next = last ? fetch(s + 1 < size_t(strips_.end), s + 1, 0) : fetch(true, s, b + 1);
        const Store to = store(rows_.begin, s, b, sums_, kStrip);
        if (p_.k % 16 == 0) {
          InPlaceStrip<T> w;
          find_rows(s, b, w.row);
          few_rows_unit(x_ + b * step, rows, steps(b), w, next, to);
        } else {
          many_rows_unit(x_ + b * step, rows, steps(b), pack_strip(s, b), next, to);
        }
      }
  }

  // One tile of all rows, and all K-blocks of a row of w in one go.
  template <int MR = int(kOrdered)>
  void in_order(size_t rows) {
    if constexpr (MR > 1) {
      if (rows < MR) return in_order<MR - 1>(rows);
    }
    for (size_t b = 0; b < blocks_.count; ++b) {
      const float* row[MR];
      for (size_t i = 0; i < MR; ++i) row[i] = p_.x + (rows_.begin + i) * p_.k + b * blocks_.len;
      pack_rows(row, MR, blocks_.size(b), x_ + b * blocks_.len * MR);
    }
    for (size_t s = strips_.begin; s < size_t(strips_.end); ++s) {
      const T* row[kStrip];
      find_rows(s, 0, row);
      lanes_in_order<MR, MR <= 4 ? 1 : 2>(x_, blocks_, row, lanes_);
      for (size_t b = 0; b < blocks_.count; ++b) {
        const Store to = store(rows_.begin, s, b, sums_, kStrip);
        for (size_t i = 0; i < MR; ++i) {
          Half sum[kSums];
          tree_of_lanes(lanes_ + (b * MR + i) * kStrip * 16, sum);
          to.put(sum, i);
        }
      }
    }
  }

  // K-block by K-block, so that its packed x stays in L2 while the strips pass.
  void many() {
    const size_t total = size_t(rows_.size()), count = ceil_div(total, kRowBlock);
    const size_t row_block = count == 1 ? total : round_up(ceil_div(total, count), kTileRows);
    // Partial sums lie in y, unless y still holds what has to be added last.
    const bool aside = p_.acc == p_.y && blocks_.count > 1;
    const size_t group = aside ? kGroup : size_t(strips_.size());
    for (size_t r0 = rows_.begin; r0 < size_t(rows_.end); r0 += row_block)
      for (size_t g = strips_.begin; g < size_t(strips_.end); g += group)
        for (size_t b = 0; b < blocks_.count; ++b) {
          const size_t rows = std::min(row_block, rows_.end - r0), end = std::min<size_t>(g + group, strips_.end);
          pack_x(p_, blocks_, r0, rows, b, x_);
          for (size_t s = g; s < end; ++s) {
            float* sum = aside ? sums_ + (s - g) * kStrip : p_.y + r0 * p_.outs + s * kStrip;
            const Store to = store(r0, s, b, sum, aside ? ld_sums_ : p_.outs);
            const PackedStrip w = pack_strip(s, b);
            many_rows_unit(x_, rows, steps(b), w, fetch(s + 1 < end, s + 1, b), to);
          }
        }
  }

  size_t steps(size_t b) const { return ceil_div(blocks_.size(b), 16); }

  // The eight rows of a strip; past the last output it is repeated, and not stored.
  void find_rows(size_t s, size_t b, const T* (&row)[kStrip]) const {
    const T* w = static_cast<const T*>(p_.w) + b * blocks_.len;
    for (size_t i = 0; i < kStrip; ++i) row[i] = w + std::min(s * kStrip + i, p_.outs - 1) * p_.k;
  }
  PackedStrip pack_strip(size_t s, size_t b) {
    const T* row[kStrip];
    find_rows(s, b, row);
    pack_rows(row, kStrip, blocks_.size(b), strip_);
    return {strip_};
  }
  Prefetch fetch(bool wanted, size_t s, size_t b) const {
    if (!wanted) return {};
    const T* w = static_cast<const T*>(p_.w) + s * kStrip * p_.k + b * blocks_.len;
    return {reinterpret_cast<const char*>(w), p_.k * sizeof(T), 16 * sizeof(T)};
  }
  Store store(size_t r0, size_t s, size_t b, float* sum, size_t ld_sum) const {
    const size_t at = r0 * p_.outs + s * kStrip;
    return {.sum = sum,
            .ld_sum = ld_sum,
            .bias = p_.bias ? p_.bias + s * kStrip : nullptr,
            .acc = p_.acc ? p_.acc + at : nullptr,
            .y = p_.y + at,
            .ld = p_.outs,
            .outs = std::min(kStrip, p_.outs - s * kStrip),
            .first = b == 0,
            .last = b + 1 == blocks_.count};
  }

  const DotProduct& p_;
  const KBlocks blocks_;
  const Range rows_, strips_;
  float *x_, *strip_, *sums_, *lanes_;
  size_t ld_sums_;
};

HWY_MAYBE_UNUSED void dot_part_of_thread(const DotProduct& p, Range rows, Range strips, float* workspace) {
  switch (p.w_type) {
    case DType::f16:
      return DotTask<F16>(p, rows, strips, workspace).run();
    case DType::bf16:
      return DotTask<BF16>(p, rows, strips, workspace).run();
    default:
      return DotTask<float>(p, rows, strips, workspace).run();
  }
}

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
HWY_EXPORT(dot_part_of_thread);

size_t dot_workspace(size_t rows, size_t outs, size_t k, int threads) {
  return DotSpace(rows, outs, dot_blocks(k)).bytes() * size_t(threads);
}

void dot_product(const DotProduct& p, int thread, int threads, std::byte* workspace) {
  if (p.rows == 0 || p.outs == 0) return;
  // The team as a grid of row parts by strip parts, whichever leaves a thread the least to do: an element of
  // work is a row by a strip; packing a row costs about half of one, passing over a strip about four.
  const size_t tiles = ceil_div(p.rows, kTileRows), strips = ceil_div(p.outs, kStrip);
  int best = 1;
  double least = 0;
  for (int parts = 1; parts <= threads; ++parts) {
    if (threads % parts) continue;
    const double r = double(std::min(p.rows, ceil_div(tiles, parts) * kTileRows));
    const double s = double(ceil_div(strips, size_t(threads / parts)));
    const double cost = r * s + 0.5 * r + 4 * s;
    if (parts == 1 || cost < least) best = parts, least = cost;
  }
  const int strip_parts = threads / best;
  const Range t = part(int64_t(tiles), thread / strip_parts, best);
  const Range rows{t.begin * int64_t(kTileRows), std::min<int64_t>(t.end * int64_t(kTileRows), int64_t(p.rows))};
  const Range mine = part(int64_t(strips), thread % strip_parts, strip_parts);
  if (rows.size() <= 0 || mine.size() == 0) return;
  const size_t bytes = DotSpace(p.rows, p.outs, dot_blocks(p.k)).bytes();
  HWY_DYNAMIC_DISPATCH(dot_part_of_thread)
  (p, rows, mine, reinterpret_cast<float*>(workspace + size_t(thread) * bytes));
}

}  // namespace toy::cpu
#endif
