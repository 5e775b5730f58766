// What the kernels of the gated delta rule share: operands, runs of rows, who computes what. Plain code, the same for
// every target.
#pragma once

#include "backend/cpu/attention/sequence_rows.h"
#include "backend/cpu/gemm/tiles.h"
#include "toy/ops/attrs/structs.h"

namespace toy::cpu {

inline int64_t padded16(int64_t n) { return (n + 15) / 16 * 16; }

/// N rows, K key heads of width P, H value heads of width V, a state [P,V] for each value head of S sequences.
struct DeltaSizes {
  int64_t N, K, P, H, V, S;
  bool vector_gate;

  DeltaSizes(const Shape& k, const Shape& v, const Shape& g, int64_t sequences)
      : N(k[0]), K(k[1]), P(k[2]), H(v[1]), V(v[2]), S(sequences), vector_gate(g.rank() == 3) {}
  int64_t state() const { return P * V; }
};

/// Columns of a panel, at most: a target takes four vectors.
inline constexpr int64_t kMostColumns = 64;
inline int64_t vector_gate_floats(int64_t P) { return 3 * padded16(P); }
/// Of one thread that walks over tokens.
inline int64_t sweep_floats(const DeltaSizes& x) {
  return padded16(x.P * kMostColumns) + (x.vector_gate ? 2 * vector_gate_floats(x.P) : 3 * padded16(x.N));
}

/// Operands of one call. s0: states before the rows, s: after them (may be the same memory), or nullptr.
struct DeltaCall : DeltaSizes {
  const float *q, *k, *v, *g, *beta, *s0;
  float *s, *o;
  bool tile, delta;
  SequenceRows rows;

  /// q, k, v, g and beta are inputs `at`, at + 1, ..., seq and pos `seq_at` and the one after it.
  DeltaCall(const KernelArgs& args, size_t at, size_t seq_at, const View& before, float* after, float* out)
      : DeltaSizes(args.in[at + 1].shape, args.in[at + 2].shape, args.in[at + 3].shape,
                   before.data ? before.shape[0] : -1),
        q(args.in[at].as<const float>()),
        k(args.in[at + 1].as<const float>()),
        v(args.in[at + 2].as<const float>()),
        g(args.in[at + 3].as<const float>()),
        beta(args.in[at + 4].as<const float>()),
        s0(before.data ? before.as<const float>() : nullptr),
        s(before.data ? after : nullptr),
        o(out),
        tile(args.attrs.as<DeltaRuleAttrs>().heads == HeadMap::tile),
        delta(args.attrs.as<DeltaRuleAttrs>().delta),
        rows(args.in[seq_at], args.in[seq_at + 1]) {}
  int64_t key_head(int64_t h) const { return tile ? h % K : h / (H / K); }
  int64_t state_at(int64_t row, int64_t h) const { return (rows.seq[row] * H + h) * state(); }
};

/// The tokens of one head in a run of rows.
struct DeltaHead {
  const float *q, *k, *v, *g, *beta;
  int64_t key_ld, value_ld, gate_ld, beta_ld;

  DeltaHead(const DeltaCall& x, int64_t row, int64_t h)
      : key_ld(x.K * x.P), value_ld(x.H * x.V), gate_ld(x.vector_gate ? x.H * x.P : x.H), beta_ld(x.H) {
    const int64_t key = row * key_ld + x.key_head(h) * x.P;
    q = x.q + key, k = x.k + key;
    v = x.v + row * value_ld + h * x.V;
    g = x.g + row * gate_ld + (x.vector_gate ? h * x.P : h);
    beta = x.beta + row * beta_ld + h;
  }
  /// The same from `rows` further on.
  DeltaHead from(int64_t rows) const {
    DeltaHead h = *this;
    h.q += rows * key_ld, h.k += rows * key_ld, h.v += rows * value_ld, h.g += rows * gate_ld, h.beta += rows * beta_ld;
    return h;
  }
};

/// Rows [begin, begin + count) of one sequence, positions next to each other.
struct DeltaRun {
  int32_t begin, count;
  int32_t next;  ///< the next run of the same sequence among those that have states, or -1
  bool first;    ///< of its sequence
  bool known;    ///< its sequence has a state
  bool loads;    ///< starts from that state, else from zeros
  bool stores() const { return known && next < 0; }
};

/// The runs of a batch, in workspace that all threads share. Runs of one sequence follow each other in time.
class DeltaRuns {
 public:
  static size_t bytes(int64_t rows, int64_t sequences) {
    const int64_t ints = 16 + rows + std::max<int64_t>(0, sequences);
    return size_t(padded16(ints) * 4 + padded16(rows * int64_t(sizeof(DeltaRun))));
  }
  DeltaRuns(std::byte* memory, int64_t rows, int64_t sequences)
      : counts_(reinterpret_cast<int32_t*>(memory)),
        chains_(counts_ + 16),
        last_(chains_ + rows),
        runs_(reinterpret_cast<DeltaRun*>(memory + padded16(16 + rows + std::max<int64_t>(0, sequences)) * 4)) {}

  /// By one thread, before a barrier. Reports runs whose sequence has no state, and such as go on with a sequence after
  /// other rows of it: they start from zeros.
  void find(const DeltaCall& x, const ExecContext& ctx) {
    int32_t runs = 0, chains = 0;
    for (int64_t i = 0; i < x.S; ++i) last_[i] = -1;
    for (int64_t begin = 0, end; begin < x.rows.count; begin = end, ++runs) {
      end = x.rows.run_end(begin);
      const int32_t seq = x.rows.seq[begin], pos = x.rows.pos[begin];
      DeltaRun& r = runs_[runs] = {int32_t(begin), int32_t(end - begin), -1, true, seq >= 0 && seq < x.S, false};
      if (x.S >= 0 && !r.known) ctx.report(KernelFault::sequence, begin, seq);
      if (r.known) {
        r.first = last_[seq] < 0;
        if (!r.first) runs_[last_[seq]].next = runs;
        if (!r.first && pos != 0) ctx.report(KernelFault::gap, begin, seq);
        r.loads = r.first && pos != 0;
        last_[seq] = runs;
      }
      if (r.first) chains_[chains++] = runs;
    }
    counts_[0] = runs, counts_[1] = chains;
  }
  int64_t count() const { return counts_[0]; }
  const DeltaRun& operator[](int64_t i) const { return runs_[i]; }
  /// Runs of one sequence share its state, so one thread does them, in their order.
  int64_t chains() const { return counts_[1]; }
  int64_t chain(int64_t i) const { return chains_[i]; }
  /// Has a sequence with a state no rows?
  bool idle(int64_t sequence) const { return last_[sequence] < 0; }

 private:
  int32_t *counts_, *chains_, *last_;
  DeltaRun* runs_;
};

/// Calls f(i) for work items of [0, n) that no other thread has claimed. A barrier is between this and another use of
/// ThreadPool::claim().
template <class F>
void for_each_claimed(const ExecContext& ctx, int64_t n, const F& f) {
  if (ctx.threads == 1 || !ctx.pool) {
    for (int64_t i = 0; i < n; ++i) f(i);
    return;
  }
  for (int64_t i = ctx.pool->claim(); i < n; i = ctx.pool->claim()) f(i);
}

}  // namespace toy::cpu
