// attention_grad: gradients of attention, recomputed from lse (FlashAttention-2, Dao 2023, algorithm 2).
//   in  q:[N,H,P] k,v:[N,K,P] o:[N,H,P] lse:[N,H] do:[N,H,P] seq,pos:[N] dlse?:[N,H] until?:[N]
//   out dq:[N,H,P] dk,dv:[N,K,P]
// With e_ij = exp(scale q_i.k_j - lse_i), where lse_i has ALiBi's slope |i - j| added, delta_i = sum_p do_i o_i -
// dlse_i, s_ij = e_ij (do_i.v_j - delta_i) scale: times the slope 1 - tanh^2 of a softcap,
//   dv_j = sum_i e_ij do_i,   dk_j = sum_i s_ij q_i,   dq_i = sum_j s_ij k_j.
//
// A task is one query head of one run, key tiles outside, blocks of 64 query rows inside: five products a
// pair, and dk, dv of a tile stay in the cache. Two passes (dk and dv, then dq) could be cut finer but need
// seven products. The parts of dk and dv from the query heads of a group are kept apart and summed in the
// order of the heads, behind a barrier. Every sum has one order, given by runs, heads and positions: no bit
// depends on the number of threads.
#define TOY_TARGET_FILE "backend/cpu/attention/attention_grad.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/attention/attention_grad.h"
#include "backend/cpu/attention/attention_tile-inl.h"
#include "backend/cpu/kernels.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu {
namespace HWY_NAMESPACE {

// delta[row][head] = sum_p do o - dlse: 16 virtual lanes, then their tree, then dlse.
void row_products(const GradOperands& x, Range rows, float* delta) {
  for (int64_t i = rows.begin * x.heads; i < rows.end * x.heads; ++i) {
    const float *a = x.d_o + i * x.p, *b = x.o + i * x.p;
    Lanes16 lanes;
    int64_t p = 0;
    for (; p + 16 <= x.p; p += 16)
      step16([&](auto io, int64_t k, VF sum) HWY_ATTR { return hn::MulAdd(io.load(a + k), io.load(b + k), sum); }, p,
             lanes);
    last16([&](auto io, int64_t k, VF sum) HWY_ATTR { return hn::Add(sum, hn::Mul(io.load(a + k), io.load(b + k))); },
           p, x.p, lanes);
    delta[i] = x.dlse ? sum_of(lanes) - x.dlse[i] : sum_of(lanes);
  }
}

// A pair of a block of query rows and a key tile: rows at positions row_at + r, keys at key_at + j for j in
// [lo, hi).
struct Pair {
  int64_t rows, row_at, key_at, lo, hi, window;
  const int32_t* until;  // of row 0, or nullptr
  float slope;           // of ALiBi

  /// First and last + 1 key that row r sees.
  int64_t begin(int64_t r) const { return window > 0 ? std::clamp(row_at + r - window + 1 - key_at, lo, hi) : lo; }
  int64_t end(int64_t r) const {
    const int64_t own = row_at + r + 1;
    return std::clamp((until ? std::max<int64_t>(own, until[r]) : own) - key_at, lo, hi);
  }
  /// The last + 1 key that any of n rows from row r on sees.
  int64_t end(int64_t r, int64_t n) const {
    int64_t last = end(r + n - 1);
    for (int64_t i = r; until && i < r + n - 1; ++i) last = std::max(last, end(i));
    return last;
  }
  /// First row that may see key j.
  int64_t first_row(int64_t j) const { return until ? 0 : std::clamp<int64_t>(key_at + j - row_at, 0, rows); }
};

// ALiBi of one row, which is at `own` in its key tile. slope: 0 where there is none.
struct Alibi {
  float slope, own;
  HWY_INLINE VF distance(int64_t j) const { return hn::Abs(hn::Sub(hn::Iota(kF32, float(j)), set(own))); }
};

// e and s of one row from its scores (in e) and do.v (in s), both in place.
template <bool kCapped>
HWY_INLINE void grad_row(float* e, float* s, int64_t begin, int64_t end, const GradOperands& x, float lse, float delta,
                         const Alibi& alibi) {
  const bool full = begin == 0 && end == kKeyTile;
  const VF scale = set(x.scale);
  for (int64_t j = 0; j < kKeyTile; j += kLanes) {
    VF ev, slope = scale;  // of the score in q.k
    VF less = set(lse);    // what the score is reduced by
    if (alibi.slope > 0) less = hn::MulAdd(set(alibi.slope), alibi.distance(j), less);
    if constexpr (kCapped) {
      const VF t = fast_tanh(hn::Mul(set(x.scale / x.softcap), hn::LoadU(kF32, e + j)));
      ev = fast_exp(hn::MulSub(t, set(x.softcap), less));
      slope = hn::Mul(scale, hn::NegMulAdd(t, t, set(1.0f)));
    } else {
      ev = fast_exp(hn::MulSub(hn::LoadU(kF32, e + j), scale, less));
    }
    VF sv = hn::Mul(ev, hn::Mul(hn::Sub(hn::LoadU(kF32, s + j), set(delta)), slope));
    if (!full) {
      const VF index = hn::Iota(kF32, float(j));
      const auto seen = hn::And(hn::Ge(index, set(float(begin))), hn::Lt(index, set(float(end))));
      ev = hn::IfThenElseZero(seen, ev);
      sv = hn::IfThenElseZero(seen, sv);
    }
    hn::StoreU(ev, kF32, e + j);
    hn::StoreU(sv, kF32, s + j);
  }
}

// The five products of one pair. dq of the block is at `dq` with row stride ld; `fresh`: nothing is in it
// yet.
void grad_pair(const Pair& x, const GradOperands& op, const float* lse, const float* delta, const GradScratch& ws,
               float* dq, int64_t ld, bool fresh) {
  const int64_t w = ws.width;
  for (int64_t r = 0; r < x.rows; r += kStrip) {
    const int64_t n = std::min(kStrip, x.rows - r), cols = round_up16(x.end(r, n));
    multiply<Init::zero>(n, cols, {ws.q + r * w, w, ws.kt, kKeyTile, op.p, ws.e + r * kKeyTile, kKeyTile});
    multiply<Init::zero>(n, cols, {ws.d_o + r * w, w, ws.vt, kKeyTile, op.p, ws.s + r * kKeyTile, kKeyTile});
    for (int64_t i = r; i < r + n; ++i) {
      float *e = ws.e + i * kKeyTile, *s = ws.s + i * kKeyTile;
      const Alibi alibi{x.slope, float(x.row_at + i - x.key_at)};
      if (op.softcap > 0)
        grad_row<true>(e, s, x.begin(i), x.end(i), op, lse[i * op.heads], delta[i * op.heads], alibi);
      else
        grad_row<false>(e, s, x.begin(i), x.end(i), op, lse[i * op.heads], delta[i * op.heads], alibi);
    }
  }
  for (int64_t j = x.lo; j < x.hi; j += kStrip) {
    const int64_t n = std::min(kStrip, x.hi - j), r = x.first_row(j), at = r * kKeyTile + j;
    multiply<Init::add, true>(n, w, {ws.e + at, kKeyTile, ws.d_o + r * w, w, x.rows - r, ws.dv + j * w, w});
    multiply<Init::add, true>(n, w, {ws.s + at, kKeyTile, ws.q + r * w, w, x.rows - r, ws.dk + j * w, w});
  }
  for (int64_t r = 0; r < x.rows; r += kStrip) {
    const int64_t n = std::min(kStrip, x.rows - r), keys = x.end(r, n) - x.lo;
    const Product product{ws.s + r * kKeyTile + x.lo, kKeyTile, ws.k + x.lo * w, w, keys, dq + r * ld, ld};
    if (fresh)
      multiply<Init::zero>(n, w, product);
    else
      multiply<Init::add>(n, w, product);
  }
}

// Copies rows of `width` floats.
HWY_INLINE void copy_rows(const float* from, int64_t from_ld, float* to, int64_t to_ld, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * to_ld, from + r * from_ld, size_t(width) * sizeof(float));
}

// All query rows of the run against the key tile at position `at`, for one query head.
void grad_tile(const Task& task, int64_t at, const GradOperands& x, const float* delta, const GradScratch& ws) {
  const int64_t p = x.p, w = ws.width, ld = x.heads * p, last = task.position + task.count;  // last + 1
  const int64_t lo = std::max<int64_t>(0, task.position - at), hi = std::min(kKeyTile, last - at);
  const float slope = x.alibi ? float(alibi_slope(task.head, x.heads)) : 0.0f;
  const int64_t first_block = x.until ? task.position / kKeyTile * kKeyTile : at;
  for (int64_t block = first_block; block < last; block += kKeyTile) {
    const int64_t begin = std::max(block, task.position), rows = std::min(block + kKeyTile, last) - begin;
    int64_t first_key = task.position;  // that the block sees
    if (x.window > 0) first_key = std::max(first_key, begin - x.window + 1);
    if (first_key >= at + hi) break;
    const int64_t row = task.row + begin - task.position, i = row * x.heads + task.head;
    const Pair pair{rows, begin, at, lo, hi, x.window, x.until ? x.until + row : nullptr, slope};
    if (pair.end(0, rows) <= lo) continue;  // no row of the block sees the tile
    pack_rows(x.q + i * p, ld, rows, p, ws.q, w);
    pack_rows(x.d_o + i * p, ld, rows, p, ws.d_o, w);
    const bool fresh = first_key / kKeyTile == at / kKeyTile, direct = w == p;
    float* dq = direct ? x.dq + i * p : ws.dq;
    if (!direct && !fresh) pack_rows(x.dq + i * p, ld, rows, p, ws.dq, w);
    grad_pair(pair, x, x.lse + i, delta + i, ws, dq, direct ? ld : w, fresh);
    if (!direct) copy_rows(ws.dq, w, x.dq + i * p, ld, rows, p);
  }
}

void grad_task(const Task& task, const GradOperands& x, const float* delta, const GradScratch& ws) {
  const int64_t p = x.p, w = ws.width, ld = x.kv_heads * p, last = task.position + task.count;
  for (int64_t at = task.position / kKeyTile * kKeyTile; at < last; at += kKeyTile) {
    const int64_t begin = std::max(at, task.position), keys = std::min(at + kKeyTile, last) - begin, slot = begin - at;
    const int64_t row = task.row + begin - task.position, from = (row * x.kv_heads + task.head / x.group()) * p;
    pack_transposed(x.k + from, ld, keys, p, ws.kt + slot);
    pack_transposed(x.v + from, ld, keys, p, ws.vt + slot);
    pack_rows(x.k + from, ld, keys, p, ws.k + slot * w, w);
    std::fill_n(ws.dk, kKeyTile * w, 0.0f);
    std::fill_n(ws.dv, kKeyTile * w, 0.0f);
    grad_tile(task, at, x, delta, ws);
    const int64_t to = (row * x.heads + task.head) * p;
    copy_rows(ws.dk + slot * w, w, x.dk_part + to, x.heads * p, keys, p);
    copy_rows(ws.dv + slot * w, w, x.dv_part + to, x.heads * p, keys, p);
  }
}

// Sums the query heads of each group, in their order.
void sum_heads(const GradOperands& x, Range rows, const float* part, float* out) {
  for (int64_t i = rows.begin * x.kv_heads; i < rows.end * x.kv_heads; ++i) {
    const float* from = part + i * x.group() * x.p;
    float* to = out + i * x.p;
    for (int64_t p = 0; p < x.p; ++p) to[p] = from[p];
    for (int64_t g = 1; g < x.group(); ++g)
      for (int64_t p = 0; p < x.p; ++p) to[p] += from[g * x.p + p];
  }
}

void attention_grad_run(const ExecContext& ctx, const KernelArgs& args) {
  GradOperands x(args);
  float* workspace = reinterpret_cast<float*>(args.workspace);
  const GradScratch ws(workspace + ctx.thread * GradScratch::floats(x.p), x.p);
  float* delta = workspace + ctx.threads * GradScratch::floats(x.p);
  x.place_parts(delta + round_up16(x.rows * x.heads));
  const Range mine = ctx.share(x.rows);
  row_products(x, mine, delta);
  ctx.barrier();
  TaskWalk walk(ctx, args.in[6], args.in[7], x.heads, std::max<int64_t>(1, x.rows), x.window);
  for (Task task; walk.next(task);) grad_task(task, x, delta, ws);
  if (x.group() == 1) return;
  ctx.barrier();
  sum_heads(x, mine, x.dk_part, x.dk);
  sum_heads(x, mine, x.dv_part, x.dv);
}

}  // namespace HWY_NAMESPACE
}  // namespace toy::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(attention_grad_run);

size_t grad_workspace(const KernelQuery& query) noexcept {
  const Shape& q = query.in[0].shape;
  const bool grouped = q[1] != query.in[1].shape[1];
  const int64_t shared = round_up16(q[0] * q[1]) + (grouped ? 2 * q.count() : 0);
  return size_t(query.threads * GradScratch::floats(q[2]) + shared) * sizeof(float);
}

}  // namespace

KernelRecord attention_grad_kernel() {
  return {.op = "attention_grad", .workspace = grad_workspace, .code = best_of<HWY_DISPATCH_TABLE(attention_grad_run)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
