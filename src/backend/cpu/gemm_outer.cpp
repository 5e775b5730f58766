// outer_product: C = init + A B. The order of sums is stated in gemm.h.
//
// The scheme of Goto and van de Geijn ("Anatomy of High-Performance Matrix Multiplication", 2008): a block of
// A is packed to L2 as panels [k][kMR], a panel of B as [k][width] just before its use against all panels of
// A; the inner loop keeps kMR x width sums in registers, width being up to kNV vectors. Packing is private to
// a thread: no barrier, no large workspace.
#include "backend/cpu/gemm.h"
#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm_outer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/gemm_simd-inl.h"
#include "toy/base/threads.h"

#ifndef TOY_CPU_GEMM_OUTER_ONCE_
#define TOY_CPU_GEMM_OUTER_ONCE_
namespace toy::cpu {
constexpr size_t kMaxMR = 8, kMaxNR = 48;  // of any target
constexpr size_t kBlockRows = 384;         // rows of A packed at a time

// Floats of one thread's workspace.
struct OuterSpace {
  size_t a, b;
  OuterSpace(size_t m, size_t k) {
    const size_t len = std::min(outer_blocks(k).len * outer_blocks(k).count, outer_blocks(512).len);  // grows with k
    a = (std::min(round_up(m, kMaxMR), kBlockRows) + 2 * kMaxMR) * len + 64;  // stores run past a panel's end
    b = kMaxNR * len + 64;
  }
  size_t bytes() const { return round_up(a * sizeof(float), 64) + round_up(b * sizeof(float), 64); }
};

// One thread's part of C.
struct OuterPart {
  Range rows, cols;
};
}  // namespace toy::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

// Register tile: 24 sums with AVX-512 (three loads and eight broadcasts for 24 FMAs), 12 with 16 registers.
// Eight rows divide 64, 256, 1024: a tile's surplus rows are work.
constexpr size_t kNV = kLanes == 16 ? 3 : 2;
constexpr size_t kMR = kLanes == 16 ? 8 : 6;
constexpr size_t kNR = kNV * kLanes;
static_assert(kMR <= kMaxMR && kNR <= kMaxNR);

// `rows` lines from p (the last repeats up to `width`), each `len` long and contiguous, to [len][width].
// Groups are written last to first: a group's stores may overlap the next one's, when kMR is not a multiple
// of kHalfLanes.
template <class T>
void pack_transposed(const T* p, size_t stride, size_t rows, size_t len, size_t width, float* HWY_RESTRICT out) {
  const HalfTag d;
  for (size_t g = ceil_div(width, kHalfLanes); g-- > 0;) {
    const T* row[kHalfLanes];
    for (size_t i = 0; i < kHalfLanes; ++i) row[i] = p + std::min(g * kHalfLanes + i, rows - 1) * stride;
    float* o = out + g * kHalfLanes;
    for (size_t k = 0; k < len; k += kHalfLanes, o += kHalfLanes * width) {
      Half v[kHalfLanes];
      const size_t n = std::min(kHalfLanes, len - k);
      if (HWY_LIKELY(n == kHalfLanes)) {
#pragma GCC unroll 8
        for (size_t i = 0; i < kHalfLanes; ++i) v[i] = load_f32(d, row[i] + k);
      } else {
        for (size_t i = 0; i < kHalfLanes; ++i) {
          float t[kHalfLanes] = {};
          for (size_t l = 0; l < n; ++l) t[l] = to_float(row[i][k + l]);
          v[i] = hn::LoadU(d, t);
        }
      }
      transpose(v);
      if (HWY_LIKELY(n == kHalfLanes)) {
#pragma GCC unroll 8
        for (size_t i = 0; i < kHalfLanes; ++i) hn::StoreU(v[i], d, o + i * width);
      } else {
        for (size_t i = 0; i < n; ++i) hn::StoreU(v[i], d, o + i * width);
      }
    }
  }
}

// `len` lines from p, each with `cols` contiguous values, of which `width` are taken (zeros where there are
// fewer), to [len][width].
template <class T>
void pack_straight(const T* p, size_t stride, size_t cols, size_t len, size_t width, float* HWY_RESTRICT out) {
  const FullTag d;
  for (size_t k = 0; k < len; ++k, out += width) {
    const T* a = p + k * stride;
    __builtin_prefetch(a + 24 * stride, 0, 3);
    for (size_t j = 0; j < width; j += kLanes) {
      if (HWY_LIKELY(j + kLanes <= cols)) {
        hn::StoreU(load_f32(d, a + j), d, out + j);  // may run into the next line, which is rewritten
      } else {
        float t[kLanes] = {};
        for (size_t i = j; i < std::min({j + kLanes, cols, width}); ++i) t[i - j] = to_float(a[i]);
        hn::StoreU(hn::LoadU(d, t), d, out + j);
      }
    }
  }
}

// Sixteen runs of lines of what is packed next, fetched to L2 one line a step.
struct Fetch {
  const char* p = nullptr;
  size_t run = 0, line = 0;
};

// A tile of MR <= kMR rows; the panel of A stays kMR wide.
template <size_t MR, size_t NV>
HWY_NOINLINE void micro(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, size_t steps, const Fetch fetch,
                        const float* init, size_t ld_init, float* c, size_t ldc) {
  const FullTag d;
  Full acc[MR][NV];
#pragma GCC unroll 16
  for (size_t i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (size_t j = 0; j < NV; ++j) {
      __builtin_prefetch(c + i * ldc + j * kLanes, 1, 3);
      acc[i][j] = hn::Zero(d);
    }
  const auto step = [&]() HWY_ATTR {
    Full bv[NV];
#pragma GCC unroll 4
    for (size_t j = 0; j < NV; ++j) {
      bv[j] = hn::LoadU(d, b + j * kLanes);
      keep(bv[j]);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < MR; ++i) {
      Full av = hn::Set(d, a[i]);
      keep(av);
#pragma GCC unroll 4
      for (size_t j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(av, bv[j], acc[i][j]);
    }
    a += kMR;
    b += NV * kLanes;
  };
  size_t done = 0;
  if (fetch.p) {
    for (size_t r = 0; r < 16; ++r) {
      const char* q = fetch.p + r * fetch.run;
      for (size_t s = 0; s < steps / 16; ++s, q += fetch.line) {
        __builtin_prefetch(q, 0, 2);
        step();
      }
    }
    done = steps / 16 * 16;
  }
  for (; done < steps; ++done) step();
#pragma GCC unroll 16
  for (size_t i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (size_t j = 0; j < NV; ++j) {
      Full v = acc[i][j];
      if (init) v = hn::Add(hn::LoadU(d, init + i * ld_init + j * kLanes), v);
      hn::StoreU(v, d, c + i * ldc + j * kLanes);
    }
}

template <size_t NV, size_t MR = kMR>
HWY_INLINE void micro_rows(size_t rows, const float* a, const float* b, size_t steps, const Fetch& fetch,
                           const float* init, size_t ld_init, float* c, size_t ldc) {
  if constexpr (MR > 1) {
    if (rows < MR) return micro_rows<NV, MR - 1>(rows, a, b, steps, fetch, init, ld_init, c, ldc);
  }
  micro<MR, NV>(a, b, steps, fetch, init, ld_init, c, ldc);
}
HWY_INLINE void micro_tile(size_t width, size_t rows, const float* a, const float* b, size_t steps, const Fetch& fetch,
                           const float* init, size_t ld_init, float* c, size_t ldc) {
  if (HWY_LIKELY(width == kNR)) return micro_rows<kNV>(rows, a, b, steps, fetch, init, ld_init, c, ldc);
  if (kNV == 3 && width == 2 * kLanes) return micro_rows<2>(rows, a, b, steps, fetch, init, ld_init, c, ldc);
  micro_rows<1>(rows, a, b, steps, fetch, init, ld_init, c, ldc);
}

// One thread's block of C.
template <class T>
class OuterTask {
 public:
  OuterTask(const OuterProduct& p, const OuterPart& part, float* workspace)
      : p_(p), part_(part), blocks_(outer_blocks(p.k)), a_(workspace), b_(workspace + space_of_a(p)) {}

  void run() {
    const size_t m = size_t(part_.rows.size());
    const size_t mc = m <= kBlockRows ? m : round_up(ceil_div(m, ceil_div(m, kBlockRows)), kMR);
    for (size_t r0 = part_.rows.begin; r0 < size_t(part_.rows.end); r0 += mc) {
      const size_t r1 = std::min<size_t>(r0 + mc, part_.rows.end);
      for (size_t kb = 0; kb < blocks_.count; ++kb) {
        for (size_t r = r0; r < r1; r += kMR) pack_a(r, kb, a_ + (r - r0) * blocks_.size(kb));
        for (size_t j = part_.cols.begin; j < size_t(part_.cols.end); j += width_of(j)) {
          pack_b(j, kb);
          panel(r0, r1, kb, j);
        }
      }
    }
  }

 private:
  static size_t space_of_a(const OuterProduct& p) { return round_up(OuterSpace(p.m, p.k).a, 16); }
  // Columns of the panel from j on: the columns that are left in panels as equal as whole vectors allow, so
  // that 64 columns are not done as 48 and 48.
  size_t width_of(size_t j) const {
    const size_t vectors = ceil_div(size_t(part_.cols.end) - j, kLanes);
    return ceil_div(vectors, ceil_div(vectors, kNV)) * kLanes;
  }
  bool b_along_k() const { return p_.b.row_stride == 1 && p_.b.col_stride != 1; }
  const T* b_at(size_t kb, size_t j) const {
    return static_cast<const T*>(p_.b.data) + kb * blocks_.len * p_.b.row_stride + j * p_.b.col_stride;
  }

  void pack_a(size_t r, size_t kb, float* out) const {
    const Matrix& a = p_.a;
    const float* p = static_cast<const float*>(a.data) + r * a.row_stride + kb * blocks_.len * a.col_stride;
    const size_t rows = size_t(part_.rows.end) - r, len = blocks_.size(kb);
    if (a.col_stride == 1)
      pack_transposed(p, a.row_stride, rows, len, kMR, out);
    else
      pack_straight(p, a.col_stride, rows, len, kMR, out);
  }
  void pack_b(size_t j, size_t kb) {
    const size_t width = width_of(j), len = blocks_.size(kb), cols = std::min(part_.cols.end - j, width);
    if (b_along_k())
      pack_transposed(b_at(kb, j), p_.b.col_stride, cols, len, width, b_);
    else
      pack_straight(b_at(kb, j), p_.b.row_stride, cols, len, width, b_);
  }

  // The next panel of B is fetched during the first tiles of this one: dX of 64 rows went from 60 to 81% of
  // the peak.
  Fetch fetch(size_t tile, size_t kb, size_t next_j) const {
    if (tile >= std::max<size_t>(1, kNR / 16) || next_j >= size_t(part_.cols.end)) return {};
    const T* next = b_at(kb, next_j);
    const size_t run = blocks_.size(kb) / 16;
    if (b_along_k())
      return {reinterpret_cast<const char*>(next + tile * 16 * p_.b.col_stride), p_.b.col_stride * sizeof(T), 64};
    const size_t line = p_.b.row_stride * sizeof(T);
    return {reinterpret_cast<const char*>(next + tile * 16), run * line, line};
  }

  // All tiles of a panel of B: rows [r0, r1), columns from j.
  void panel(size_t r0, size_t r1, size_t kb, size_t j) {
    const size_t width = width_of(j), n = std::min<size_t>(width, part_.cols.end - j), ld = p_.n;
    const size_t steps = blocks_.size(kb);
    const float* init = kb == 0 ? p_.init : p_.c;
    alignas(64) float tile[kMR * kNR], tile_init[kMR * kNR];
    size_t tile_no = 0;
    for (size_t r = r0; r < r1; r += kMR, ++tile_no) {
      const size_t rows = std::min<size_t>(kMR, r1 - r), at = r * ld + j;
      const float* a = a_ + (r - r0) * steps;
      const float* from = init ? init + at : nullptr;
      if (HWY_LIKELY(n == width)) {
        micro_tile(width, rows, a, b_, steps, fetch(tile_no, kb, j + width), from, ld, p_.c + at, ld);
        continue;
      }
      for (size_t i = 0; from && i < rows; ++i) std::copy(from + i * ld, from + i * ld + n, tile_init + i * width);
      micro_tile(width, rows, a, b_, steps, {}, from ? tile_init : nullptr, width, tile, width);
      for (size_t i = 0; i < rows; ++i) std::copy(tile + i * width, tile + i * width + n, p_.c + at + i * ld);
    }
  }

  const OuterProduct& p_;
  const OuterPart& part_;
  const KBlocks blocks_;
  float *a_, *b_;
};

HWY_MAYBE_UNUSED void outer_part_of_thread(const OuterProduct& p, int thread, int threads, float* workspace) {
  // The team as a grid over C, whichever leaves a thread the least to do: cycles per k, a multiply-add each
  // 1/16 and packing about 0.3 a line. A wrong cut cost 25% of 576 x 576 by 64 rows.
  const size_t tiles_m = ceil_div(p.m, kMR), tiles_n = ceil_div(p.n, kLanes);
  int best = 1;
  double least = 0;
  for (int parts = 1; parts <= threads; ++parts) {
    if (threads % parts) continue;
    const double m = double(std::min(p.m, ceil_div(tiles_m, size_t(parts)) * kMR));
    const double n = double(std::min(p.n, ceil_div(tiles_n, size_t(threads / parts)) * kLanes));
    const double cost = m * n / 16 + 0.3 * (m + n);
    if (parts == 1 || cost < least) best = parts, least = cost;
  }
  const auto cut = [](size_t total, size_t tiles, size_t unit, int i, int parts) {
    const Range r = part(int64_t(tiles), i, parts);
    return Range{r.begin * int64_t(unit), std::min(r.end * int64_t(unit), int64_t(total))};
  };
  const int across = threads / best;
  const OuterPart mine{cut(p.m, tiles_m, kMR, thread / across, best),
                       cut(p.n, tiles_n, kLanes, thread % across, across)};
  if (mine.rows.size() <= 0 || mine.cols.size() <= 0) return;
  switch (p.b_type) {
    case DType::f16:
      return OuterTask<F16>(p, mine, workspace).run();
    case DType::bf16:
      return OuterTask<BF16>(p, mine, workspace).run();
    default:
      return OuterTask<float>(p, mine, workspace).run();
  }
}

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
HWY_EXPORT(outer_part_of_thread);

size_t outer_workspace(size_t m, size_t k, int threads) { return OuterSpace(m, k).bytes() * size_t(threads); }

void outer_product(const OuterProduct& p, int thread, int threads, std::byte* workspace) {
  if (p.m == 0 || p.n == 0) return;
  const size_t bytes = OuterSpace(p.m, p.k).bytes();
  HWY_DYNAMIC_DISPATCH(outer_part_of_thread)
  (p, thread, threads, reinterpret_cast<float*>(workspace + size_t(thread) * bytes));
}

}  // namespace toy::cpu
#endif
