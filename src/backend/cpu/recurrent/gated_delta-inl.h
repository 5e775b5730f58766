// The recurrence of the gated delta rule over the tokens of one head, a panel of the state's columns at a time.
//
// A token's arithmetic is the same wherever a call begins, so a sequence may be cut anywhere. For column j of the state
// S, with the keys' channels i in order:
//   y_j = fma chain over i of k_i S_ij from zero (with a decay for each channel: of (k_i a_i) S_ij),  a = exp(g)
//   e_j = v_j - a y_j (v_j - y_j),  d_j = beta e_j
//   S_ij <- decayed S_ij, then fma(k_i, d_j, .);   o_j = fma chain over i of q_i S_ij from zero
// S is decayed by fma(expm1(g), S, S) where g > -0.69, so that the roundings of factors near 1 do not add up, and by
// a S elsewhere. The passes of two tokens are one: while token t updates an element, its o and the y of token t + 1
// read it. So the state passes through the registers once per token, and a panel stays in the first-level cache.
//
// Without the delta e_j = v_j, so no token waits for the one before it, and two of them share a pass: an element of the
// state stays in its register from one to the next.
#if defined(TOY_CPU_GATED_DELTA_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_GATED_DELTA_INL_H_
#undef TOY_CPU_GATED_DELTA_INL_H_
#else
#define TOY_CPU_GATED_DELTA_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "backend/cpu/recurrent/gated_delta.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

constexpr int kPanelVecs = 4;                    // accumulators, writes and operands fit 16 registers
constexpr int64_t kPanel = kPanelVecs * kLanes;  // columns
static_assert(kPanel <= kMostColumns);
constexpr float kNear = -0.69f;  // gates above it decay by less than a half

// ---- gates

// The state is decayed by fma(factor, s, s where g is above kNear, else 0).
HWY_INLINE VF decay_factor(VF g, VF a) { return hn::IfThenElse(hn::Gt(g, set(kNear)), hn::Expm1(kF32, g), a); }

// The gates of a head's tokens, one number each.
struct ScalarGates {
  float *g, *a, *factor;  // of each token
  ScalarGates(float* memory, int64_t rows) : g(memory), a(g + padded16(rows)), factor(a + padded16(rows)) {}
  void prepare(const DeltaHead& x, int64_t count) {
    for (int64_t t = 0; t < count; ++t) g[t] = x.g[t * x.gate_ld];
    for_each_vector(count, [&](auto io, int64_t t) HWY_ATTR {
      const VF gv = io.load(g + t), av = exp(gv);
      io.store(av, a + t);
      io.store(decay_factor(gv, av), factor + t);
    });
  }
};

// The gates of one token, a number for each channel of the key.
struct VectorGates {
  float *factor, *keep, *read;
  VectorGates(float* memory, int64_t P) : factor(memory), keep(factor + padded16(P)), read(keep + padded16(P)) {}
  void prepare(const float* g, const float* k, int64_t P) const {
    for_each_vector(P, [&](auto io, int64_t i) HWY_ATTR {
      const VF gv = io.load(g + i), av = exp(gv);
      io.store(decay_factor(gv, av), factor + i);
      io.store(hn::VecFromMask(kF32, hn::Gt(gv, set(kNear))), keep + i);
      io.store(hn::Mul(io.load(k + i), av), read + i);
    });
  }
};

// ---- one token

// Rows of a panel.
struct PanelRows {
  float* at;
  int64_t ld;
};

// y = sum over i of read_i S_i
template <int NV>
HWY_NOINLINE void read_panel(int64_t P, PanelRows s, const float* HWY_RESTRICT read, float* HWY_RESTRICT y) {
  VF sum[NV];
  for (int n = 0; n < NV; ++n) sum[n] = hn::Zero(kF32);
  const float* HWY_RESTRICT from = s.at;
  for (int64_t i = 0; i < P; ++i, from += s.ld) {
    VF r = set(read[i]);
    keep(r);
#pragma GCC unroll 4
    for (int n = 0; n < NV; ++n) sum[n] = hn::MulAdd(r, hn::LoadU(kF32, from + n * kLanes), sum[n]);
  }
  for (int n = 0; n < NV; ++n) hn::Store(sum[n], kF32, y + n * kLanes);
}

enum class Decay { near, far, vector };

// What a pass over the panel needs of token t and of the one after it.
struct Pass {
  const float *k, *q, *next;  // next: what y of the next token reads with
  float factor;
  const float *factors, *keep;  // Decay::vector
  const float* d;
  float *o, *y;
};

template <Decay kDecay>
HWY_INLINE VF decayed(VF s, VF factor, VF mask) {
  if constexpr (kDecay == Decay::near) return hn::MulAdd(factor, s, s);
  if constexpr (kDecay == Decay::far) return hn::Mul(factor, s);
  return hn::MulAdd(factor, s, hn::And(s, mask));
}

// The update of token t; its output and the prediction for the next one on the way.
template <int NV, Decay kDecay, bool kNext>
HWY_NOINLINE void sweep(int64_t P, PanelRows from, PanelRows to, const Pass& x) {
  VF d[NV], o[NV], y[NV];
  for (int n = 0; n < NV; ++n) {
    d[n] = hn::Load(kF32, x.d + n * kLanes);
    o[n] = y[n] = hn::Zero(kF32);
  }
  const float *k = x.k, *q = x.q, *next = x.next;
  const VF all = set(x.factor);
  for (int64_t i = 0; i < P; ++i) {
    VF kv = set(k[i]), qv = set(q[i]), nv = hn::Zero(kF32), f = all, mask = nv;
    keep(kv), keep(qv);
    if constexpr (kNext) nv = set(next[i]), keep(nv);
    if constexpr (kDecay == Decay::vector) f = set(x.factors[i]), mask = set(x.keep[i]), keep(f), keep(mask);
#pragma GCC unroll 4
    for (int n = 0; n < NV; ++n) {
      VF s = decayed<kDecay>(hn::LoadU(kF32, from.at + n * kLanes), f, mask);
      s = hn::MulAdd(kv, d[n], s);
      hn::StoreU(s, kF32, to.at + n * kLanes);
      o[n] = hn::MulAdd(qv, s, o[n]);
      if constexpr (kNext) y[n] = hn::MulAdd(nv, s, y[n]);
    }
    from.at += from.ld, to.at += to.ld;
  }
  for (int n = 0; n < NV; ++n) {
    hn::Store(o[n], kF32, x.o + n * kLanes);
    if constexpr (kNext) hn::Store(y[n], kF32, x.y + n * kLanes);
  }
}

// The updates and outputs of two tokens without the delta.
template <int NV, Decay kDecay>
HWY_NOINLINE void sweep_two(int64_t P, PanelRows from, PanelRows to, const Pass& a, const Pass& b) {
  VF oa[NV], ob[NV];
  for (int n = 0; n < NV; ++n) oa[n] = ob[n] = hn::Zero(kF32);
  const VF none = hn::Zero(kF32), fa = set(a.factor), fb = set(b.factor);
  for (int64_t i = 0; i < P; ++i) {
    VF ka = set(a.k[i]), kb = set(b.k[i]), qa = set(a.q[i]), qb = set(b.q[i]);
    keep(ka), keep(kb), keep(qa), keep(qb);
#pragma GCC unroll 4
    for (int n = 0; n < NV; ++n) {
      VF s = decayed<kDecay>(hn::LoadU(kF32, from.at + n * kLanes), fa, none);
      s = hn::MulAdd(ka, hn::Load(kF32, a.d + n * kLanes), s);
      oa[n] = hn::MulAdd(qa, s, oa[n]);
      s = decayed<kDecay>(s, fb, none);
      s = hn::MulAdd(kb, hn::Load(kF32, b.d + n * kLanes), s);
      ob[n] = hn::MulAdd(qb, s, ob[n]);
      hn::StoreU(s, kF32, to.at + n * kLanes);
    }
    from.at += from.ld, to.at += to.ld;
  }
  for (int n = 0; n < NV; ++n) {
    hn::Store(oa[n], kF32, a.o + n * kLanes);
    hn::Store(ob[n], kF32, b.o + n * kLanes);
  }
}

// ---- the tokens of a run

// Rows of one head lie far apart in a batch, where the hardware does not guess the next one. They go to the
// second-level cache: in the first they would collide with the panel.
HWY_INLINE void fetch_row(const float* row, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(row + i, 0, 2);
}

// One thread's memory.
struct SweepScratch {
  float *panel, *gates;
  SweepScratch(float* memory, int64_t P) : panel(memory), gates(memory + padded16(P * kMostColumns)) {}
};

// Where outputs go: rows of `width` columns.
struct SweepRows {
  float* at;
  int64_t ld;

  // Asks for the row of a token a few after t: else stores wait for memory. Rows that are read need no such hint here.
  void fetch(int64_t t, int64_t count, int64_t width) const {
    float* row = at + HWY_MIN(t + 4, count - 1) * ld;
    for (int64_t i = 0; i < width; i += 16) __builtin_prefetch(row + i, 1);
  }
};

HWY_INLINE VF load_first(const float* p, int64_t n) { return n >= kLanes ? Whole().load(p) : FirstLanes{n}.load(p); }
HWY_INLINE void store_first(VF v, float* p, int64_t n) {
  if (n >= kLanes)
    Whole().store(v, p);
  else
    FirstLanes{n}.store(v, p);
}

// Tokens [0, count) of a head whose values are `width` columns, from the panel `from` to `to`; between them it lies in
// the scratch.
template <bool kVector, int NV>
void walk_tokens(const DeltaHead& x, int64_t P, int64_t count, int64_t width, PanelRows from, PanelRows to,
                 const SweepScratch& ws, SweepRows out) {
  HWY_ALIGN float d[kPanel], y[kPanel], o[kPanel];
  ScalarGates scalar(ws.gates, kVector ? 0 : count);
  const VectorGates rows[2] = {{ws.gates, P}, {ws.gates + vector_gate_floats(P), P}};
  if constexpr (kVector)
    rows[0].prepare(x.g, x.k, P);
  else
    scalar.prepare(x, count);
  read_panel<NV>(P, from, kVector ? rows[0].read : x.k, y);
  for (int64_t t = 0; t < count; ++t) {
    const bool last = t + 1 == count;
    const float* k = x.k + t * x.key_ld;
    out.fetch(t, count, width);
    // The y after the last token is not read.
    Pass pass{k, x.q + t * x.key_ld, last ? k : k + x.key_ld, 0, nullptr, nullptr, d, o, y};
    const VF a = set(kVector ? 1.0f : scalar.a[t]), beta = set(x.beta[t * x.beta_ld]);
    for (int n = 0; n < NV; ++n) {
      const int64_t left = width - n * kLanes;
      const VF v = load_first(x.v + t * x.value_ld + n * kLanes, left);
      const VF e = hn::NegMulAdd(a, hn::Load(kF32, y + n * kLanes), v);
      hn::Store(hn::Mul(beta, e), kF32, d + n * kLanes);
    }
    if constexpr (kVector) {
      const VectorGates &now = rows[t % 2], &after = rows[(t + 1) % 2];
      if (!last) after.prepare(x.g + (t + 1) * x.gate_ld, pass.next, P), pass.next = after.read;
      pass.factors = now.factor, pass.keep = now.keep;
    } else {
      pass.factor = scalar.factor[t];
    }
    const PanelRows goal = last ? to : PanelRows{ws.panel, kPanel};
    const auto go = [&](auto decay) HWY_ATTR {
      if (last)
        sweep<NV, decay.value, false>(P, from, goal, pass);
      else
        sweep<NV, decay.value, true>(P, from, goal, pass);
    };
    if constexpr (kVector)
      go(std::integral_constant<Decay, Decay::vector>());
    else if (scalar.g[t] > kNear)
      go(std::integral_constant<Decay, Decay::near>());
    else
      go(std::integral_constant<Decay, Decay::far>());
    from = goal;
    for (int n = 0; n < NV; ++n)
      store_first(hn::Load(kF32, o + n * kLanes), out.at + t * out.ld + n * kLanes, width - n * kLanes);
  }
}

// The same without the delta.
template <bool kVector, int NV>
void walk_writes(const DeltaHead& x, int64_t P, int64_t count, int64_t width, PanelRows from, PanelRows to,
                 const SweepScratch& ws, SweepRows out) {
  HWY_ALIGN float d[2][kPanel], o[2][kPanel];
  ScalarGates scalar(ws.gates, kVector ? 0 : count);
  const VectorGates gates(ws.gates, P);
  if constexpr (!kVector) scalar.prepare(x, count);
  for (int64_t t = 0, both; t < count; t += both) {
    const bool near = kVector || scalar.g[t] > kNear;
    both = !kVector && t + 1 < count && near == (scalar.g[t + 1] > kNear) ? 2 : 1;
    Pass pass[2];
    for (int64_t i = 0; i < both; ++i) {
      const int64_t at = t + i;
      out.fetch(at, count, width);
      pass[i] = {x.k + at * x.key_ld,
                 x.q + at * x.key_ld,
                 nullptr,
                 kVector ? 0 : scalar.factor[at],
                 gates.factor,
                 gates.keep,
                 d[i],
                 o[i],
                 nullptr};
      const VF beta = set(x.beta[at * x.beta_ld]);
      for (int n = 0; n < NV; ++n) {
        const VF v = load_first(x.v + at * x.value_ld + n * kLanes, width - n * kLanes);
        hn::Store(hn::Mul(beta, v), kF32, d[i] + n * kLanes);
      }
    }
    const PanelRows goal = t + both == count ? to : PanelRows{ws.panel, kPanel};
    const auto go = [&](auto decay) HWY_ATTR {
      if (both == 2)
        sweep_two<NV, decay.value>(P, from, goal, pass[0], pass[1]);
      else
        sweep<NV, decay.value, false>(P, from, goal, pass[0]);
    };
    if constexpr (kVector) {
      gates.prepare(x.g + t * x.gate_ld, x.k + t * x.key_ld, P);
      sweep<NV, Decay::vector, false>(P, from, goal, pass[0]);
    } else if (near) {
      go(std::integral_constant<Decay, Decay::near>());
    } else {
      go(std::integral_constant<Decay, Decay::far>());
    }
    from = goal;
    for (int64_t i = 0; i < both; ++i)
      for (int n = 0; n < NV; ++n)
        store_first(hn::Load(kF32, o[i] + n * kLanes), out.at + (t + i) * out.ld + n * kLanes, width - n * kLanes);
  }
}

// The same for any number of columns up to a panel.
HWY_INLINE void walk_panel(bool vector_gate, bool delta, const DeltaHead& x, int64_t P, int64_t count, int64_t width,
                           PanelRows from, PanelRows to, const SweepScratch& ws, SweepRows out) {
  const auto with = [&](auto vecs) HWY_ATTR {
    if (!delta && vector_gate) return walk_writes<true, vecs.value>(x, P, count, width, from, to, ws, out);
    if (!delta) return walk_writes<false, vecs.value>(x, P, count, width, from, to, ws, out);
    if (vector_gate)
      walk_tokens<true, vecs.value>(x, P, count, width, from, to, ws, out);
    else
      walk_tokens<false, vecs.value>(x, P, count, width, from, to, ws, out);
  };
  static_assert(kPanelVecs == 4);
  switch (div_up(width, kLanes)) {
    case 1:
      return with(std::integral_constant<int, 1>());
    case 2:
      return with(std::integral_constant<int, 2>());
    case 3:
      return with(std::integral_constant<int, 3>());
    default:
      return with(std::integral_constant<int, 4>());
  }
}

// Columns of a state [P,V] to the rows of a panel, zeros where it is wider, and back. from: nullptr for zeros.
HWY_INLINE void load_panel(const float* from, int64_t V, int64_t P, int64_t width, float* panel) {
  for (int64_t i = 0; i < P; ++i)
    for (int64_t n = 0; n < kPanel; n += kLanes) {
      const int64_t left = from ? width - n : 0;
      hn::StoreU(left > 0 ? load_first(from + i * V + n, left) : hn::Zero(kF32), kF32, panel + i * kPanel + n);
    }
}
HWY_INLINE void store_panel(const float* panel, int64_t P, int64_t width, float* to, int64_t V) {
  for (int64_t i = 0; i < P; ++i)
    for (int64_t n = 0; n < width; n += kLanes)
      store_first(hn::LoadU(kF32, panel + i * kPanel + n), to + i * V + n, width - n);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_GATED_DELTA_INL_H_
