// dot_product: y = x w^T (+ bias) (+ acc). The order of sums is stated in gemm.h.
//
// A unit of work is a strip of eight outputs by one K-block, for a block of rows. Inside it tiles of three rows by
// eight outputs keep 24 sums in registers; eight outputs make the tree of sums end in eight neighbours of y. x is
// packed by each thread for itself (private packing measured faster than sharing between two cores), w is read where it
// lies for few rows and through a converted copy of the strip in L1 for many. The K-blocks of a strip come one after
// the other, with partial sums in L1, as long as the packed x of enough rows stays in L2; with a longer K all strips of
// a K-block.
#include "backend/cpu/gemm/gemm_dot.h"
#define TOY_TARGET_FILE "backend/cpu/gemm/gemm_dot.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/fetching.h"
#include "backend/cpu/gemm/gemm_dot_ordered-inl.h"
#include "backend/cpu/gemm/gemm_dot_tile-inl.h"
#include "backend/cpu/pieces.h"
#include "toy/base/threads.h"
#include "toy/tensor/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

// `rows` lines of `len` values as f32 in [step][row][16]; the tail of K is zero.
template <class T>
HWY_INLINE void pack_rows(const T* const* row, size_t rows, size_t len, float* HWY_RESTRICT out) {
  const size_t full = len / 16;
  for (size_t s = 0; s < full; ++s)
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (size_t h = 0; h < 16; h += kLanes)
        hn::Store(load_f32(kF32, row[r] + s * 16 + h), kF32, out + (s * rows + r) * 16 + h);
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

// One thread's part of the product: a block of rows by some strips; or all rows by the strips that it claims.
template <class T>
class DotTask {
 public:
  DotTask(const DotProduct& p, const DotPart& part, const TeamMember& team, float* workspace)
      : p_(p), blocks_(dot_blocks(p.k)), rows_(part.rows), strips_(part.strips), claim_(part.claim), team_(team) {
    const DotSpace space(p.rows, p.outs, blocks_, p.w_type);
    x_ = workspace;
    strip_ = x_ + space.x;
    sums_ = strip_ + space.strip;
    lanes_ = sums_ + space.sums;
    ld_sums_ = space.ld_sums;
    if (is_quantized(p.w_type)) decoded_ = lanes_ + space.lanes;
  }

  void run() {
    if (strip_rows(size_t(rows_.size()), blocks_) > 0)
      by_strips();
    else
      by_blocks();
  }

 private:
  static constexpr size_t kNone = ~size_t(0);

  // Calls f(strip, the one that follows or kNone) for each strip of this thread. What follows is known, and so can be
  // fetched, before a strip is begun.
  template <class F>
  void for_each_strip(const F& f) {
    Pieces claimed(strips_.size(), int64_t(claim_), team_);
    for (Range piece = claim_ > 0 ? claimed.next() : strips_, next; piece.size() > 0; piece = next) {
      next = {};
      for (int64_t s = piece.begin; s < piece.end; ++s) {
        if (claim_ > 0 && s + 1 == piece.end) next = claimed.next();
        f(size_t(s), s + 1 < piece.end ? size_t(s + 1) : next.size() > 0 ? size_t(next.begin) : kNone);
      }
    }
  }

  // Strip by strip, its K-blocks in turn: w is read once for each block of rows, in the file's order.
  void by_strips() {
    const size_t all = size_t(rows_.size()), most = strip_rows(all, blocks_);
    const size_t side_by_side = fetching_ends_with_pages() ? kSideBySide : 0;
    if (!decoded_ && p_.k > 0 && p_.k % 16 == 0 && all > side_by_side && all <= kOrdered) return in_order(all);
    for (size_t r0 = rows_.begin; r0 < size_t(rows_.end); r0 += most) {
      const size_t rows = std::min(most, rows_.end - r0), step = blocks_.len * rows;  // between K-blocks of packed x
      for (size_t b = 0; b < blocks_.count; ++b) pack_x(p_, blocks_, r0, rows, b, x_ + b * step);
      if (claim_ > 0 && r0 > size_t(rows_.begin)) team_.barrier();
      for_each_strip([&](size_t s, size_t after) {
        for (size_t b = 0; b < blocks_.count; ++b) {
          decode(s, b);
          const Prefetch next = decoded_                ? fetch_blocks(after, b)
                                : b + 1 < blocks_.count ? fetch(s, b + 1)
                                                        : fetch(after, 0);
          const Store to = store(r0, s, b, sums_, kStrip);
          if (rows <= kFewRows && p_.k % 16 == 0) {
            InPlaceStrip<T> w;
            find_rows(s, b, w.row);
            few_rows_unit(x_ + b * step, rows, steps(b), w, next, to);
          } else {
            many_rows_unit(x_ + b * step, rows, steps(b), pack_strip(s, b), next, to);
          }
        }
      });
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
    for_each_strip([&](size_t s, size_t after) {
      const T* row[kStrip];
      find_rows(s, 0, row);
      const T* next = static_cast<const T*>(p_.w) + (after == kNone ? s + 1 : after) * kStrip * p_.k;
      lanes_in_order<MR, MR <= 4 ? 1 : 2>(x_, blocks_, row, next, lanes_);
      for (size_t b = 0; b < blocks_.count; ++b) {
        const Store to = store(rows_.begin, s, b, sums_, kStrip);
        for (size_t i = 0; i < MR; ++i) {
          Half sum[kSums];
          tree_of_lanes(lanes_ + (b * MR + i) * kStrip * 16, sum);
          to.put(sum, i);
        }
      }
    });
  }

  // K-block by K-block, so that its packed x stays in L2 while the strips pass.
  void by_blocks() {
    const size_t total = size_t(rows_.size()), count = ceil_div(total, kRowBlock),
                 row_block = round_up(ceil_div(total, count), kTileRows);
    // Partial sums lie in y, unless y still holds what has to be added last.
    const bool aside = p_.acc == p_.y && blocks_.count > 1;
    const size_t group = aside ? kGroup : size_t(strips_.size());
    for (size_t r0 = rows_.begin; r0 < size_t(rows_.end); r0 += row_block)
      for (size_t g = strips_.begin; g < size_t(strips_.end); g += group)
        for (size_t b = 0; b < blocks_.count; ++b) {
          const size_t rows = std::min(row_block, rows_.end - r0), end = std::min<size_t>(g + group, strips_.end);
          pack_x(p_, blocks_, r0, rows, b, x_);
          for (size_t s = g; s < end; ++s) {
            float* sum = aside ? sums_ + (s - g) * kStrip : p_.y + r0 * p_.ld() + s * kStrip;
            const Store to = store(r0, s, b, sum, aside ? ld_sums_ : p_.ld());
            const PackedStrip w = pack_strip(s, b);
            many_rows_unit(x_, rows, steps(b), w, fetch(s + 1 < end ? s + 1 : kNone, b), to);
          }
        }
  }

  size_t steps(size_t b) const { return ceil_div(blocks_.size(b), 16); }

  // The eight rows of a strip; past the last output it is repeated, and not stored.
  void find_rows(size_t s, size_t b, const T* (&row)[kStrip]) const {
    const T* w = static_cast<const T*>(p_.w) + s * kStrip * p_.k + b * blocks_.len;
    size_t ld = p_.k;
    if constexpr (std::is_same_v<T, float>)
      if (decoded_) ld = decoded_len(b), w = decoded_ + (ld == p_.k ? b * blocks_.len : 0);
    for (size_t i = 0; i < kStrip; ++i) row[i] = w + std::min(i, p_.outs - 1 - s * kStrip) * ld;
  }
  // Makes a K-block of a strip's rows f32, or, with the first one, all of these rows where blocks of weights span it.
  void decode(size_t s, size_t b) const {
    if (!decoded_) return;
    const size_t len = decoded_len(b), rows = std::min(kStrip, p_.outs - s * kStrip);
    if (len == p_.k && b > 0) return;
    const size_t row = bytes_of(p_.w_type, int64_t(p_.k)), first = bytes_of(p_.w_type, int64_t(b * blocks_.len));
    dequantize_rows(p_.w_type, static_cast<const std::byte*>(p_.w) + s * kStrip * row + first, row, rows,
                    {decoded_, rows * len});
  }
  size_t decoded_len(size_t b) const {
    return blocks_.len % size_t(info_of(p_.w_type).block) == 0 ? blocks_.size(b) : p_.k;
  }
  PackedStrip pack_strip(size_t s, size_t b) {
    const T* row[kStrip];
    find_rows(s, b, row);
    pack_rows(row, kStrip, blocks_.size(b), strip_);
    return {strip_};
  }
  Prefetch fetch(size_t s, size_t b) const {
    if (s == kNone) return {};
    const T* w = static_cast<const T*>(p_.w) + s * kStrip * p_.k + b * blocks_.len;
    return {reinterpret_cast<const char*>(w), p_.k * sizeof(T), 16 * sizeof(T)};
  }
  // About the bytes of a K-block; more than there are do no harm.
  Prefetch fetch_blocks(size_t s, size_t b) const {
    if (s == kNone) return {};
    const size_t row = bytes_of(p_.w_type, int64_t(p_.k)), step = ceil_div(16 * row, p_.k);
    return {static_cast<const char*>(p_.w) + s * kStrip * row + b * blocks_.len / 16 * step, row, step};
  }
  Store store(size_t r0, size_t s, size_t b, float* sum, size_t ld_sum) const {
    const size_t at = r0 * p_.ld() + s * kStrip;
    return {.sum = sum,
            .ld_sum = ld_sum,
            .bias = p_.bias ? p_.bias + s * kStrip : nullptr,
            .acc = p_.acc ? p_.acc + at : nullptr,
            .y = p_.y + at,
            .ld = p_.ld(),
            .outs = std::min(kStrip, p_.outs - s * kStrip),
            .first = b == 0,
            .last = b + 1 == blocks_.count};
  }

  const DotProduct& p_;
  const KBlocks blocks_;
  const Range rows_, strips_;
  const size_t claim_;
  const TeamMember& team_;
  float *x_, *strip_, *sums_, *lanes_, *decoded_ = nullptr;
  size_t ld_sums_;
};

HWY_MAYBE_UNUSED void dot_part_of_thread(const DotProduct& p, const DotPart& part, const TeamMember& team,
                                         float* workspace) {
  with_weight_type(p.w_type, [&](auto type) HWY_ATTR { DotTask<decltype(type)>(p, part, team, workspace).run(); });
}

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
HWY_EXPORT(dot_part_of_thread);

namespace {

// Strips to claim at least, so that a claim is small beside its work: about eight microseconds or more of arithmetic,
// or 32 KiB of weights.
size_t least_claim(const DotProduct& p, size_t rows) {
  constexpr size_t kMultiplyAdds = 500'000, kWeights = 32'768;
  const size_t of_strip = kStrip * std::max<size_t>(p.k, 1);
  if (rows <= kFewRows) return ceil_div(kWeights, is_quantized(p.w_type) ? of_strip : of_strip * size_of(p.w_type));
  return ceil_div(kMultiplyAdds, rows * of_strip);
}

// What a thread does, whichever way leaves it the least: an element of work is a row by a strip; packing a row costs
// about half of one, passing over a strip about four. Fixed parts are a grid of row parts by strip parts. Strips that
// are claimed cost half a claim, waiting for the last, and may cost a little more: that is made good as soon as the
// cores are not equally fast. Not where the strips of a K-block pass together: partial sums would go from core to core.
DotPart dot_part(const DotProduct& p, const TeamMember& team) {
  const int threads = team.threads;
  const size_t tiles = ceil_div(p.rows, kTileRows), strips = ceil_div(p.outs, kStrip);
  const auto cost = [&](size_t rows, double strips_of_thread) {
    const size_t at_once = strip_rows(rows, dot_blocks(p.k));
    const double r = double(rows), passes = double(ceil_div(rows, at_once > 0 ? at_once : kRowBlock));
    return (r + 4 * passes) * strips_of_thread + 0.5 * r;
  };
  int best = 1;
  double least = 0;
  for (int parts = 1; parts <= threads; ++parts) {
    if (threads % parts) continue;
    const double c =
        cost(std::min(p.rows, ceil_div(tiles, parts) * kTileRows), double(ceil_div(strips, size_t(threads / parts))));
    if (parts == 1 || c < least) best = parts, least = c;
  }
  if (const size_t at_once = strip_rows(p.rows, dot_blocks(p.k)); threads > 1 && at_once > 0) {
    const size_t claim = least_claim(p, at_once);
    if (cost(p.rows, double(strips) / threads) + 0.5 * double(claim * at_once) <= 1.04 * least)
      return {{0, int64_t(p.rows)}, {0, int64_t(strips)}, claim};
  }
  const int across = threads / best;
  const Range t = part(int64_t(tiles), team.thread / across, best);
  return {{t.begin * int64_t(kTileRows), std::min<int64_t>(t.end * int64_t(kTileRows), int64_t(p.rows))},
          part(int64_t(strips), team.thread % across, across)};
}

}  // namespace

size_t dot_workspace(size_t rows, size_t outs, size_t k, int threads, DType w_type) {
  return DotSpace(rows, outs, dot_blocks(k), w_type).bytes() * size_t(threads);
}

bool dot_takes_blocks(size_t rows, size_t k) {
  const size_t at_once = strip_rows(rows, dot_blocks(k));
  return at_once > 0 && (at_once >= rows || at_once >= kDecodedRows);
}

void dot_product(const DotProduct& p, const TeamMember& team, std::byte* workspace) {
  if (p.rows == 0 || p.outs == 0) return;
  const DotPart part = dot_part(p, team);
  if (part.rows.size() <= 0 || part.strips.size() == 0) return;
  const size_t bytes = DotSpace(p.rows, p.outs, dot_blocks(p.k), p.w_type).bytes();
  HWY_DYNAMIC_DISPATCH(dot_part_of_thread)
  (p, part, team, reinterpret_cast<float*>(workspace + size_t(team.thread) * bytes));
}

}  // namespace toy::cpu
#endif
