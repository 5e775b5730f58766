// The tile routine that attention and attention_paged share, so that a row has the same bits in training, in
// prefill cut anywhere and in decoding.
//
// Order of operations of one query row (online softmax: Milakov and Gimelshein 2018; FlashAttention-2, Dao
// 2023, alg. 1): for each tile of 64 positions, in increasing order,
//   s_j = scale * (fma chain over p of q[p] k[j][p]), or softcap * tanh(s_j / softcap), with ALiBi less
//   slope |i - j| (an fma),  m' = max(m, max_j s_j),  e_j =
//   exp(s_j - m'), l[i] = l[i] * exp(m - m') + (e_i + e_(i+16) + e_(i+32) + e_(i+48))          16 virtual lanes i,
//   whatever the vector, o[p] = o[p] * exp(m - m'), then an fma chain over the visible j of e_j v[j][p];
// at the end of every kKeyChunk positions (and of the row) l becomes the sum of its lanes by the tree i + (i+8), +4,
// +2, +1, and the chunk joins those before it:
//   M' = max(M, m),  L = l * exp(m - M') + L * exp(M - M'),  O[p] = o[p] * exp(m - M') + O[p] * exp(M - M'),
// the first one as it is. So the chunks of one row may be made by several threads. Only visible keys take part:
// nothing of a masked key, not even NaN, reaches a row, and a tile without a visible key changes nothing.
//
// Keys and values of a narrower type become f32 exactly, so that a row has the bits that it would have on f32 keys and
// values of the same numbers.
#if defined(TOY_CPU_ATTENTION_TILE_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_ATTENTION_TILE_INL_H_
#undef TOY_CPU_ATTENTION_TILE_INL_H_
#else
#define TOY_CPU_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/attention/attention_product-inl.h"
#include "backend/cpu/attention/attention_tasks.h"
#include "backend/cpu/math-inl.h"
#include "backend/cpu/transpose-inl.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu {
namespace HWY_NAMESPACE {

// ---------------------------------------------------------------- packing

// dst[p][j] = src[j][p], dst with rows of kKeyTile.
HWY_INLINE void pack_transposed(const float* src, int64_t stride, int64_t rows, int64_t width, float* dst) {
  int64_t j = 0;
  for (; j + 4 <= rows; j += 4) {
    int64_t p = 0;
    for (; p + 4 <= width; p += 4) transpose4x4(src + j * stride + p, stride, dst + p * kKeyTile + j, kKeyTile);
    for (; p < width; ++p)
      for (int64_t i = 0; i < 4; ++i) dst[p * kKeyTile + j + i] = src[(j + i) * stride + p];
  }
  for (; j < rows; ++j)
    for (int64_t p = 0; p < width; ++p) dst[p * kKeyTile + j] = src[j * stride + p];
}

// dst[j][p] = src[j][p], zero for p in [width, ld).
HWY_INLINE void pack_rows(const float* src, int64_t stride, int64_t rows, int64_t width, float* dst, int64_t ld) {
  for (int64_t j = 0; j < rows; ++j, src += stride, dst += ld) {
    int64_t p = 0;
    for (; p + kLanes <= width; p += kLanes) hn::StoreU(hn::LoadU(kF32, src + p), kF32, dst + p);
    for (; p < ld; ++p) dst[p] = p < width ? src[p] : 0.0f;
  }
}

// ---------------------------------------------------------------- online softmax over one tile

/// Query rows that share a key tile: `group` rows (the heads of one kv head) for each position, positions
/// increasing.
struct QueryRows {
  int64_t rows = 0, group = 1, head_dim = 0;
  int64_t position = 0;  ///< of row 0
  int64_t first = 0;     ///< no key before this position is visible
  int64_t window = 0;
  float scale = 1, softcap = 0;
  const int32_t* until = nullptr;     ///< of each position: the end of what it sees, if that is behind itself
  int64_t run_end = 0;                ///< with `until`: no key from this position on is visible
  float first_slope = 0;              ///< of ALiBi, of row 0; 0: there is none
  int64_t first_head = 0, heads = 0;  ///< with ALiBi: the query head of row 0, and how many there are in all

  /// The end of the keys that the position `i` behind that of row 0 sees.
  int64_t end_visible(int64_t i) const {
    const int64_t own = position + i + 1;
    return until ? std::clamp<int64_t>(until[i], own, run_end) : own;
  }
  /// The last key that any row sees.
  int64_t last_visible() const {
    const int64_t positions = rows / group;
    int64_t end = position + positions;
    for (int64_t i = 0; until && i < positions; ++i) end = std::max(end, end_visible(i));
    return end - 1;
  }
  /// Of ALiBi, of row g of a position.
  float slope(int64_t g) const { return g == 0 ? first_slope : float(alibi_slope(first_head + g, heads)); }
  int64_t first_visible(int64_t pos) const { return window > 0 ? std::max(first, pos - window + 1) : first; }
};

/// Keys at positions [position, position + 64): kt is [P][64], v is [64][width].
template <class Keys, class Values>
struct KeyTile {
  Keys kt;
  Values v;
  int64_t position;
  const void* next;  ///< of a cache: the page that is read after this one; else nullptr
};
using FloatTile = KeyTile<Rows<float>, Rows<float>>;

// The visible part [lo, hi) of a tile for each row of a strip.
struct Visible {
  int lo[kStrip], hi[kStrip];
  int min_lo = kKeyTile, max_lo = 0, min_hi = kKeyTile, max_hi = 0;
  bool full() const { return max_lo == 0 && min_hi == kKeyTile; }
};

HWY_INLINE Visible visible_keys(const QueryRows& q, int64_t tile, int64_t row, int rows) {
  Visible v;
  int64_t pos = q.position + row / q.group, within = row % q.group;
  for (int r = 0; r < rows; ++r) {
    v.lo[r] = int(std::clamp<int64_t>(q.first_visible(pos) - tile, 0, kKeyTile));
    v.hi[r] = int(std::clamp<int64_t>(q.end_visible(pos - q.position) - tile, 0, kKeyTile));
    if (v.lo[r] >= v.hi[r]) v.lo[r] = v.hi[r] = 0;
    v.min_lo = std::min(v.min_lo, v.lo[r]);
    v.max_lo = std::max(v.max_lo, v.lo[r]);
    v.min_hi = std::min(v.min_hi, v.hi[r]);
    v.max_hi = std::max(v.max_hi, v.hi[r]);
    if (++within == q.group) within = 0, ++pos;
  }
  return v;
}

// Scores of one row: scaled, masked ones set to -inf, in place. Returns their maximum.
template <bool kMasked>
HWY_INLINE float scale_and_mask(float* s, int begin, int end, int lo, int hi, float scale) {
  VF max = set(-kInfinity);
  for (int j = begin; j < end; j += kLanes) {
    VF x = hn::Mul(set(scale), hn::LoadU(kF32, s + j));
    if constexpr (kMasked) {
      const VF index = hn::Iota(kF32, float(j));
      const auto seen = hn::And(hn::Ge(index, set(float(lo))), hn::Lt(index, set(float(hi))));
      x = hn::IfThenElse(seen, x, set(-kInfinity));
    }
    hn::StoreU(x, kF32, s + j);
    max = hn::Max(max, x);
  }
  return hn::GetLane(hn::MaxOfLanes(kF32, max));
}

// softcap * tanh(s_j * scale / softcap) in place.
HWY_NOINLINE inline void cap_scores(float* s, int begin, int end, float scale, float softcap) {
  const VF factor = set(scale / softcap), cap = set(softcap);
  for (int j = begin; j < end; j += kLanes)
    hn::StoreU(hn::Mul(cap, fast_tanh(hn::Mul(factor, hn::LoadU(kF32, s + j)))), kF32, s + j);
}

// scale s_j - slope |pos - (tile + j)| in place.
HWY_NOINLINE inline void add_alibi(float* s, int begin, int end, float scale, float slope, float pos_in_tile) {
  const VF factor = set(scale), down = set(slope), own = set(pos_in_tile);
  for (int j = begin; j < end; j += kLanes) {
    const VF distance = hn::Abs(hn::Sub(hn::Iota(kF32, float(j)), own));
    hn::StoreU(hn::NegMulAdd(down, distance, hn::Mul(factor, hn::LoadU(kF32, s + j))), kF32, s + j);
  }
}

// e_j = exp(s_j - m) in place, and l = l * alpha + the sum of e by virtual lane.
HWY_INLINE void exponentiate(float* s, int begin, int end, float m, float alpha, float* l) {
  VF sum[kParts];
  for (int h = 0; h < kParts; ++h) sum[h] = hn::Zero(kF32);
  for (int j = begin; j < end; j += 16)
    for (int h = 0; h < kParts; ++h) {
      const VF e = fast_exp(hn::Sub(hn::LoadU(kF32, s + j + h * kLanes), set(m)));
      hn::StoreU(e, kF32, s + j + h * kLanes);
      sum[h] = hn::Add(sum[h], e);
    }
  for (int h = 0; h < kParts; ++h)
    hn::StoreU(hn::MulAdd(hn::LoadU(kF32, l + h * kLanes), set(alpha), sum[h]), kF32, l + h * kLanes);
}

// The product of probabilities (a strip's scores, from key j on) and values that goes to the outputs of row
// r.
template <class Values>
HWY_INLINE ProductOf<Values> weigh_values(const AttendScratch& ws, const Values& v, int64_t row, int64_t r,
                                          int64_t begin, int64_t end, const float* alpha) {
  return {ws.s + r * kKeyTile + begin, kKeyTile, v.from_row(begin), end - begin,
          ws.o + (row + r) * ws.width, ws.width, alpha + r};
}

// Outputs where the rows of the strip do not see the same keys: each row for itself before and after the keys
// that all of them see.
template <class Values>
HWY_INLINE void weigh_ragged(const Visible& see, const Values& v, int64_t row, int rows, const float* alpha,
                             const AttendScratch& ws) {
  const int64_t lo = see.max_lo, hi = see.min_hi, width = ws.width;
  const bool common = lo < hi;
  for (int r = 0; r < rows; ++r)
    if (see.lo[r] < see.hi[r])
      multiply<Init::scaled, false, false, 1>(1, width,
                                              weigh_values(ws, v, row, r, see.lo[r], common ? lo : see.hi[r], alpha));
  if (!common) return;
  multiply<Init::add>(rows, width, weigh_values(ws, v, row, 0, lo, hi, alpha));
  for (int r = 0; r < rows; ++r)
    if (see.hi[r] > hi)
      multiply<Init::add, false, false, 1>(1, width, weigh_values(ws, v, row, r, hi, see.hi[r], alpha));
}

// Scores to probabilities, with the running maximum and sum; alpha: by how much the outputs so far shrink.
HWY_INLINE void softmax_strip(const Visible& see, int begin, int end, int64_t row, int rows, const QueryRows& q,
                              int64_t tile, const AttendScratch& ws, float* alpha) {
  alignas(64) float top[kStrip];
  for (int r = 0; r < rows; ++r) {
    float* s = ws.s + r * kKeyTile;
    const bool capped = q.softcap > 0;
    if (capped) cap_scores(s, begin, end, q.scale, q.softcap);
    float scale = capped ? 1.0f : q.scale;
    if (q.first_slope > 0) {
      const int64_t pos = q.position + (row + r) / q.group;
      add_alibi(s, begin, end, scale, q.slope((row + r) % q.group), float(pos - tile));
      scale = 1;
    }
    const float here = see.full() ? scale_and_mask<false>(s, 0, kKeyTile, 0, kKeyTile, scale)
                                  : scale_and_mask<true>(s, begin, end, see.lo[r], see.hi[r], scale);
    top[r] = std::max(ws.m[row + r], here);
    alpha[r] = ws.m[row + r] - top[r];
  }
  for (int i = 0; i < kStrip; i += kLanes) hn::Store(fast_exp(hn::Load(kF32, alpha + i)), kF32, alpha + i);
  for (int r = 0; r < rows; ++r) {
    if (see.lo[r] == see.hi[r]) continue;  // nothing visible: m, l and o stay
    exponentiate(ws.s + r * kKeyTile, begin, end, top[r], alpha[r], ws.l + (row + r) * 16);
    ws.m[row + r] = top[r];
  }
}

template <class Tile>
HWY_INLINE void attend_strip(const QueryRows& q, const Tile& tile, int64_t row, int rows, const AttendScratch& ws) {
  const Visible see = visible_keys(q, tile.position, row, rows);
  if (see.max_hi == 0) return;
  const int begin = see.min_lo / 16 * 16, end = (see.max_hi + 15) / 16 * 16;
  alignas(64) float alpha[16] = {};
  ProductOf<decltype(tile.kt)> scores{ws.q + row * ws.width, ws.width, tile.kt.from_column(begin), q.head_dim,
                                      ws.s + begin,          kKeyTile};
  ProductOf<decltype(tile.v)> outputs = weigh_values(ws, tile.v, row, 0, see.min_lo, see.max_hi, alpha);
  if (row == 0 && tile.next && see.full()) {
    scores.fetch(tile.v.at);
    outputs.fetch(tile.next);
    multiply<Init::zero, false, true>(rows, kKeyTile, scores);
    softmax_strip(see, begin, end, row, rows, q, tile.position, ws, alpha);
    return multiply<Init::scaled, false, true>(rows, ws.width, outputs);
  }
  multiply<Init::zero>(rows, end - begin, scores);
  softmax_strip(see, begin, end, row, rows, q, tile.position, ws, alpha);
  if (see.min_lo == see.max_lo && see.min_hi == see.max_hi)
    multiply<Init::scaled>(rows, ws.width, outputs);
  else
    weigh_ragged(see, tile.v, row, rows, alpha, ws);
}

// All query rows against one key tile.
template <class Tile>
HWY_INLINE void attend_tile(const QueryRows& q, const Tile& tile, const AttendScratch& ws) {
  for (int64_t row = 0; row < q.rows; row += kStrip)
    attend_strip(q, tile, row, int(std::min(kStrip, q.rows - row)), ws);
}

HWY_INLINE void clear_chunk(const QueryRows& q, const AttendScratch& ws) {
  std::fill_n(ws.o, q.rows * ws.width, 0.0f);
  std::fill_n(ws.l, q.rows * 16, 0.0f);
  std::fill_n(ws.m, q.rows, -kInfinity);
}

/// Query rows of a task: position i has its `group` heads at q + i * stride, consecutive.
HWY_INLINE void attend_begin(const QueryRows& q, const float* from, int64_t stride, AttendScratch& ws) {
  const int64_t positions = q.rows / q.group;
  for (int64_t i = 0; i < positions; ++i)
    pack_rows(from + i * stride, q.head_dim, q.group, q.head_dim, ws.q + i * q.group * ws.width, ws.width);
  clear_chunk(q, ws);
  std::fill_n(ws.total_l, q.rows, 0.0f);
}

// A chunk (o, l, m) of one row joins those before it (O, L, M). A visible key adds exp(0) = 1 or more to l: where it is
// 0 there was none.
HWY_INLINE void join_chunk(const float* o, float l, float m, int64_t width, float* O, float& L, float& M) {
  if (l == 0) return;
  if (L == 0) {
    std::memcpy(O, o, size_t(width) * sizeof(float));
    L = l, M = m;
    return;
  }
  const float top = std::max(M, m);
  alignas(64) float shrink[16] = {M - top, m - top};
  hn::Store(fast_exp(hn::Load(kF32, shrink)), kF32, shrink);
  const VF before = set(shrink[0]), here = set(shrink[1]);
  for (int64_t p = 0; p < width; p += kLanes)
    hn::StoreU(hn::MulAdd(hn::LoadU(kF32, o + p), here, hn::Mul(hn::LoadU(kF32, O + p), before)), kF32, O + p);
  L = hn::GetLane(hn::MulAdd(set(l), here, hn::Mul(set(L), before)));
  M = top;
}

/// The chunk that has been attended to joins the rows' totals.
HWY_INLINE void attend_join(const QueryRows& q, const AttendScratch& ws) {
  for (int64_t row = 0; row < q.rows; ++row)
    join_chunk(ws.o + row * ws.width, sum_of(Lanes16(ws.l + row * 16)), ws.m[row], ws.width,
               ws.total_o + row * ws.width, ws.total_l[row], ws.total_m[row]);
}

/// All key tiles from position `first` to `last`, chunk by chunk. tile_at(position) gives one.
template <class TileAt>
HWY_INLINE void attend_keys(const QueryRows& q, int64_t first, int64_t last, const TileAt& tile_at, AttendScratch& ws) {
  for (int64_t at = first / kKeyTile * kKeyTile; at <= last; at += kKeyTile) {
    attend_tile(q, tile_at(at), ws);
    if (at + kKeyTile > last)
      attend_join(q, ws);
    else if ((at + kKeyTile) % kKeyChunk == 0)
      attend_join(q, ws), clear_chunk(q, ws);
  }
}

/// o / l of one row.
HWY_INLINE void write_row(float* o, float l, int64_t width, float* out, int64_t head_dim) {
  for (int64_t p = 0; p < width; p += kLanes) hn::StoreU(hn::Div(hn::LoadU(kF32, o + p), set(l)), kF32, o + p);
  std::memcpy(out, o, size_t(head_dim) * sizeof(float));
}

/// The totals to `to` (same layout as the queries) and, if wanted, log sum exp (group values at lse + i * lse_stride).
HWY_INLINE void attend_end(const QueryRows& q, const AttendScratch& ws, float* to, int64_t stride, float* lse,
                           int64_t lse_stride) {
  for (int64_t row = 0; row < q.rows; ++row) {
    const int64_t i = row / q.group, g = row % q.group;
    write_row(ws.total_o + row * ws.width, ws.total_l[row], ws.width, to + i * stride + g * q.head_dim, q.head_dim);
    if (lse) lse[i * lse_stride + g] = ws.total_m[row] + std::log(ws.total_l[row]);
  }
}

/// What attention and attention_paged share: every thread walks over the work items and does its own with
/// task(item, rows of it, scratch).
template <class DoTask>
void attend_all(const ExecContext& ctx, const KernelArgs& args, int64_t split, const DoTask& do_task) {
  const auto& attrs = args.attrs.as<AttentionAttrs>();
  const HeadSizes h(args.in[0].shape, args.in[1].shape);
  AttendScratch ws(reinterpret_cast<float*>(args.workspace) + ctx.thread * h.scratch_floats(), h.chunk_rows(), h.p);
  const int64_t chunk = choose_chunk(args.in[3], args.in[4], h.kv_heads, h.group, ctx.threads);
  TaskWalk walk(ctx, args.in[3], args.in[4], h.kv_heads, chunk, attrs.window, split);
  for (Task task; walk.next(task);) {
    const QueryRows q{task.count * h.group, h.group, h.p, task.position, 0, attrs.window, float(attrs.scale),
                      float(attrs.softcap)};
    do_task(task, q, ws);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace toy::cpu
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_ATTENTION_TILE_INL_H_
