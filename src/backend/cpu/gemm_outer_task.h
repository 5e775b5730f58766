// The blocking of outer_product, without its vectors: which panels are packed when, and which tiles are computed from
// them. E says how a panel looks and computes a tile from two (f32 in gemm_outer.cpp, pairs of bf16 in gemm_bf16.cpp
// and gemm_amx.cpp):
//
//   Panel              32 bits: what a panel is made of; kPack consecutive k in one
//   kStep              panels are a multiple of kStep long (in Panels along k), the rest zeros
//   blocks(k)          how k is cut
//   kMR, kNV, kLanes   a tile is kMR rows by up to kNV vectors of kLanes columns
//   pack_transposed    of B: `rows` lines of `len` contiguous k (the last repeats up to `width`)
//   pack_straight      of B: `len` lines of k with `cols` contiguous values (what is beyond them is not used)
//   pack_a_...         likewise of A, kMR rows
//   micro_tile         C = init + A B for one tile; fetches runs of lines meanwhile
//   kFetchesLines      is B fetched ahead also where its k are lines apart?
//   kMacs              multiply-adds that a tile does while packing reads a value, about
#pragma once

#include <algorithm>

#include "backend/cpu/gemm.h"
#include "toy/base/threads.h"

namespace toy::cpu {

constexpr size_t kBlockRows = 384;  // rows of A packed at a time

// Panels of one thread's workspace.
template <class E>
struct OuterSpace {
  size_t a, b;
  OuterSpace(size_t m, size_t k) {
    const KBlocks all = E::blocks(k), longest = E::blocks(size_t(1) << 20);
    const size_t len = round_up(ceil_div(std::min(all.len * all.count, longest.len), E::kPack), E::kStep);
    a = (std::min(round_up(m, E::kMR), kBlockRows) + 16) * len + 64;  // stores run past a panel's end
    b = E::kNV * E::kLanes * len + 64;
  }
  size_t bytes() const { return round_up(a * sizeof(uint32_t), 64) + round_up(b * sizeof(uint32_t), 64); }
};

// One thread's part of C.
struct OuterPart {
  Range rows, cols;
};

// `runs` (1, 2, 4, 8 or 16) runs of a sixteenth of a block's lines of what is packed next, fetched to L2 while a tile
// is computed.
struct OuterFetch {
  const char* p = nullptr;
  size_t run = 0, line = 0, runs = 0;
};

// Where a tile starts from and goes to.
struct OuterTile {
  size_t width, rows, steps;
  const float* init;  // or absent
  size_t ld_init;
  float* c;
  size_t ldc;
};

// One thread's block of C.
template <class E, class T>
class OuterTask {
 public:
  OuterTask(const OuterProduct& p, const OuterPart& part, std::byte* workspace)
      : p_(p),
        part_(part),
        blocks_(E::blocks(p.k)),
        a_(reinterpret_cast<Panel*>(workspace)),
        b_(a_ + round_up(OuterSpace<E>(p.m, p.k).a, 16)) {}

  void run() {
    const size_t m = size_t(part_.rows.size());
    const size_t mc = m <= kBlockRows ? m : round_up(ceil_div(m, ceil_div(m, kBlockRows)), kMR);
    for (size_t r0 = part_.rows.begin; r0 < size_t(part_.rows.end); r0 += mc) {
      const size_t r1 = std::min<size_t>(r0 + mc, part_.rows.end);
      for (size_t kb = 0; kb < blocks_.count; ++kb) {
        for (size_t r = r0; r < r1; r += kMR) pack_a(r, kb, a_ + (r - r0) * steps(kb));
        for (size_t j = part_.cols.begin; j < size_t(part_.cols.end); j += width_of(j)) {
          pack_b(j, kb);
          panel(r0, r1, kb, j);
        }
      }
    }
  }

 private:
  using Panel = typename E::Panel;
  static constexpr size_t kMR = E::kMR, kLanes = E::kLanes, kNV = E::kNV, kNR = kNV * kLanes;
  static_assert(sizeof(Panel) == 4);

  size_t steps(size_t kb) const { return round_up(ceil_div(blocks_.size(kb), E::kPack), E::kStep); }
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

  void pack_a(size_t r, size_t kb, Panel* out) const {
    const Matrix& a = p_.a;
    const float* p = static_cast<const float*>(a.data) + r * a.row_stride + kb * blocks_.len * a.col_stride;
    const size_t rows = size_t(part_.rows.end) - r, len = blocks_.size(kb);
    if (a.col_stride == 1)
      E::pack_a_transposed(p, a.row_stride, rows, len, out);
    else
      E::pack_a_straight(p, a.col_stride, rows, len, out);
  }
  void pack_b(size_t j, size_t kb) {
    const size_t width = width_of(j), len = blocks_.size(kb), cols = std::min(part_.cols.end - j, width);
    if (b_along_k())
      E::pack_transposed(b_at(kb, j), p_.b.col_stride, cols, len, width, b_);
    else
      E::pack_straight(b_at(kb, j), p_.b.row_stride, cols, len, width, b_);
  }

  // The next panel of B is fetched during the tiles of this one, a few runs in each: all at once would keep Intel's
  // fill buffers from the tile's own operands. dX of 64 rows went from 60 to 81% of the peak on Zen 5; spreading the
  // fetches took dX from 61 to 68% on Sapphire Rapids.
  OuterFetch fetch(size_t tile, size_t tiles, size_t kb, size_t next_j) const {
    if (next_j >= size_t(part_.cols.end) || !(E::kFetchesLines || b_along_k())) return {};
    size_t runs = 1;
    while (runs < 16 && runs * tiles < kNR) runs *= 2;
    const size_t first = tile * runs;  // a run is a column, or a sixteenth of 16 columns
    if (first >= std::max<size_t>(16, kNR)) return {};
    const T* next = b_at(kb, next_j);
    if (b_along_k())
      return {reinterpret_cast<const char*>(next + first * p_.b.col_stride), p_.b.col_stride * sizeof(T), 64, runs};
    const size_t line = p_.b.row_stride * sizeof(T), run = blocks_.size(kb) / 16 * line;
    return {reinterpret_cast<const char*>(next + first / 16 * 16) + first % 16 * run, run, line, runs};
  }

  // All tiles of a panel of B: rows [r0, r1), columns from j.
  void panel(size_t r0, size_t r1, size_t kb, size_t j) {
    const size_t width = width_of(j), n = std::min<size_t>(width, part_.cols.end - j), ld = p_.n;
    const size_t ld_init = kb == 0 ? p_.init_stride() : ld;
    const float* init = kb == 0 ? p_.init : p_.c;
    alignas(64) float tile[kMR * kNR], tile_init[kMR * kNR];
    size_t tile_no = 0;
    for (size_t r = r0; r < r1; r += kMR, ++tile_no) {
      const size_t rows = std::min<size_t>(kMR, r1 - r);
      const Panel* a = a_ + (r - r0) * steps(kb);
      const float* from = init ? init + r * ld_init + j : nullptr;
      float* to = p_.c + r * ld + j;
      if (n == width) {
        E::micro_tile(a, b_, fetch(tile_no, ceil_div(r1 - r0, kMR), kb, j + width),
                      {width, rows, steps(kb), from, ld_init, to, ld});
        continue;
      }
      for (size_t i = 0; from && i < rows; ++i)
        std::copy(from + i * ld_init, from + i * ld_init + n, tile_init + i * width);
      E::micro_tile(a, b_, {}, {width, rows, steps(kb), from ? tile_init : nullptr, width, tile, width});
      for (size_t i = 0; i < rows; ++i) std::copy(tile + i * width, tile + i * width + n, to + i * ld);
    }
  }

  const OuterProduct& p_;
  const OuterPart& part_;
  const KBlocks blocks_;
  Panel *a_, *b_;
};

// The team as a grid over C, whichever leaves a thread the least to do: cycles per k, a multiply-add each 1/kMacs
// and packing about 0.3 a line. A wrong cut cost 25% of 576 x 576 by 64 rows.
template <class E>
OuterPart outer_part(const OuterProduct& p, int thread, int threads) {
  const size_t tiles_m = ceil_div(p.m, E::kMR), tiles_n = ceil_div(p.n, E::kLanes);
  int best = 1;
  double least = 0;
  for (int parts = 1; parts <= threads; ++parts) {
    if (threads % parts) continue;
    const double m = double(std::min(p.m, ceil_div(tiles_m, size_t(parts)) * E::kMR));
    const double n = double(std::min(p.n, ceil_div(tiles_n, size_t(threads / parts)) * E::kLanes));
    const double cost = m * n / double(E::kMacs) + 0.3 * (m + n);
    if (parts == 1 || cost < least) best = parts, least = cost;
  }
  const auto cut = [](size_t total, size_t tiles, size_t unit, int i, int parts) {
    const Range r = part(int64_t(tiles), i, parts);
    return Range{r.begin * int64_t(unit), std::min(r.end * int64_t(unit), int64_t(total))};
  };
  const int across = threads / best;
  return {cut(p.m, tiles_m, E::kMR, thread / across, best), cut(p.n, tiles_n, E::kLanes, thread % across, across)};
}

// This thread's part of a product whose B is made of T. The workspace is the team's.
template <class E, class T>
void outer_task(const OuterProduct& p, int thread, int threads, std::byte* workspace) {
  const OuterPart mine = outer_part<E>(p, thread, threads);
  if (mine.rows.size() == 0 || mine.cols.size() == 0) return;
  OuterTask<E, T>(p, mine, workspace + size_t(thread) * OuterSpace<E>(p.m, p.k).bytes()).run();
}

}  // namespace toy::cpu
