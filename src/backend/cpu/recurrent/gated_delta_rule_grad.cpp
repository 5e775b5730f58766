// Gradients of the gated delta rule, by chunks of 16 tokens.
//   in  q,k:[N,K,P] v:[N,H,V] g:[N,H] or [N,H,P] beta:[N,H] s0?,ds?:[S,H,P,V] do?:[N,H,V] seq,pos:[N]
//   out dq,dk:[N,K,P] dv:[N,H,V] dg as g, dbeta:[N,H] ds0?:[S,H,P,V]
//
// Forward keeps nothing. A run is walked once more, chunk by chunk, for the errors e of its tokens (gated_delta-inl.h)
// and for a state at every 256th token; from these the states at the beginning of each chunk of a segment follow by one
// product per chunk. With S and G the state before and the gradient of the state after a chunk of rows K, Q, E,
// D = beta E, dO (Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule"; for a decay for each
// channel), for tokens i >= j:
//   c_ij = product of a_(j+1), ..., a_i;  x_i = c_i0, w_j = c_Cj;  P_ij = q_i.(c_ij k_j),  N_ij = k_i.(c_ij k_j), i > j
//   E = V - (x K) S - N D, from the first token down;  S <- x_C S + (w K)^T D
//   Z = (dO through P^T) + (w K) G - (F through N^T), from the last token up;  F = beta Z;  dv = F;  dbeta = Z.E
//   dP = dO D^T, dN = -F D^T, and what they give to q, k and the gates;  dQ += x (dO S^T);  dK += w (D G^T) - x (F S^T)
//   G <- x_C G + (x Q)^T dO - (x K)^T F
// Without the delta E = V, and F and N are zero. A decay that all channels share factors out of P, N and what they
// give. The gradient of a gate collects the products of all factors that it is in. They are added up, never subtracted,
// so that it is small where decays are strong.
//
// Error, with u = 2^-24: relative to the largest element of a gradient, about max(P, V) u for any gates (the tests
// allow that); a gate's gradient keeps this precision where its decay is strong.
//
// A work item is a value head of one run. Value heads that share a key head have parts of dq and dk of their own, which
// are summed in the order of the heads, after a barrier. No bit depends on the number of threads.
#define TOY_TARGET_FILE "backend/cpu/recurrent/gated_delta_rule_grad.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/kernels.h"
#include "backend/cpu/recurrent/gated_delta-inl.h"
#include "backend/cpu/recurrent/gated_delta_grad.h"
#include "backend/cpu/recurrent/gated_delta_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// ---- the decays of a chunk

// a, x and w of `count` tokens: rows of wk numbers. The exponents are sums of one sign: nothing cancels.
HWY_NOINLINE void chunk_decays(const DeltaHead& head, bool vector_gate, int64_t count, int64_t P, const DeltaChunk& c) {
  const int64_t wk = c.wk;
  if (vector_gate) {
    for (int64_t i = 0; i < wk; i += kLanes) {
      const int64_t left = P - i;
      const auto gate = [&](int64_t t) HWY_ATTR {
        return left > 0 ? load_first(head.g + t * head.gate_ld + i, left) : hn::Zero(kF32);
      };
      VF sum = hn::Zero(kF32);
      for (int64_t t = 0; t < count; ++t) {
        const VF g = gate(t);
        sum = hn::Add(sum, g);
        hn::StoreU(exp(g), kF32, c.a + t * wk + i);
        hn::StoreU(exp(sum), kF32, c.x + t * wk + i);
      }
      sum = hn::Zero(kF32);
      for (int64_t t = count - 1; t >= 0; --t) {
        hn::StoreU(exp(sum), kF32, c.w + t * wk + i);
        sum = hn::Add(sum, gate(t));
      }
    }
    return;
  }
  HWY_ALIGN float a[kDeltaChunk] = {}, x[kDeltaChunk] = {}, w[kDeltaChunk] = {};
  float sum = 0;
  for (int64_t t = 0; t < count; ++t) a[t] = head.g[t * head.gate_ld], x[t] = sum += a[t];
  sum = 0;
  for (int64_t t = count - 1; t >= 0; --t) w[t] = sum, sum += a[t];
  for (float* of : {a, x, w})
    for (int64_t t = 0; t < kDeltaChunk; t += kLanes) hn::Store(exp(hn::Load(kF32, of + t)), kF32, of + t);
  for (int64_t t = 0; t < count; ++t) {
    const VF at = set(a[t]), xt = set(x[t]), wt = set(w[t]);
    for (int64_t i = 0; i < wk; i += kLanes) {
      hn::StoreU(at, kF32, c.a + t * wk + i);
      hn::StoreU(xt, kF32, c.x + t * wk + i);
      hn::StoreU(wt, kF32, c.w + t * wk + i);
    }
  }
}

// ---- one chunk

// Z, from the last token up, and F = beta Z, for NV vectors of columns from `at` on. c.z holds (w K) G, c.both begins
// with dO; F goes after it.
template <bool kDelta, int NV>
void solve_columns(const DeltaHead& head, int64_t count, int64_t at, const DeltaChunk& c) {
  const int64_t wv = c.wv;
  const float* d_o = c.both + at;
  float* f = c.both + count * wv + at;
  for (int64_t i = count - 1; i >= 0; --i) {
    VF z[NV];
    const VF beta = set(head.beta[i * head.beta_ld]), own = set(c.P[i * kDeltaChunk + i]);
    for (int n = 0; n < NV; ++n)
      z[n] =
          hn::MulAdd(own, hn::LoadU(kF32, d_o + i * wv + n * kLanes), hn::LoadU(kF32, c.z + i * wv + at + n * kLanes));
    for (int64_t j = i + 1; j < count; ++j) {
      const VF p = set(c.P[j * kDeltaChunk + i]), minus = set(kDelta ? -c.N[j * kDeltaChunk + i] : 0);
#pragma GCC unroll 4
      for (int n = 0; n < NV; ++n) {
        z[n] = hn::MulAdd(p, hn::LoadU(kF32, d_o + j * wv + n * kLanes), z[n]);
        if constexpr (kDelta) z[n] = hn::MulAdd(minus, hn::LoadU(kF32, f + j * wv + n * kLanes), z[n]);
      }
    }
    for (int n = 0; n < NV; ++n) {
      hn::StoreU(z[n], kF32, c.z + i * wv + at + n * kLanes);
      hn::StoreU(hn::Mul(beta, z[n]), kF32, f + i * wv + n * kLanes);
    }
  }
}
template <bool kDelta>
HWY_NOINLINE void solve(const DeltaHead& head, int64_t count, const DeltaChunk& c) {
  int64_t at = 0;
  for (; at + kPanel <= c.wv; at += kPanel) solve_columns<kDelta, kPanelVecs>(head, count, at, c);
  for (; at < c.wv; at += kLanes) solve_columns<kDelta, 1>(head, count, at, c);
}

// c.x_key = [x Q; -x K], and c.w_key = w K.
HWY_NOINLINE void scale_keys(int64_t count, const DeltaChunk& c) {
  const int64_t n = count * c.wk;
  for (int64_t i = 0; i < n; i += kLanes) {
    const VF x = hn::LoadU(kF32, c.x + i), k = hn::LoadU(kF32, c.k + i);
    hn::StoreU(hn::Mul(x, hn::LoadU(kF32, c.q + i)), kF32, c.x_key + i);
    hn::StoreU(hn::Neg(hn::Mul(x, k)), kF32, c.x_key + n + i);
    hn::StoreU(hn::Mul(hn::LoadU(kF32, c.w + i), k), kF32, c.w_key + i);
  }
}

// Sums of S G over the values, for each channel: to c.key.
HWY_NOINLINE void state_dots(const PanelMatrix& s, const DeltaChunk& c) {
  for (int64_t i = 0; i < s.rows; ++i) {
    Lanes16 sum;
    for (int64_t col = 0; col < s.cols; col += kMostColumns) {
      const int64_t ld = s.ld(col);
      const float *si = s.panel(col) + i * ld, *gi = c.g.panel(col) + i * ld;
      for (int64_t at = 0; at < ld; at += 16)
        for (int64_t n = 0; n < kParts; ++n)
          sum.part[n] =
              hn::MulAdd(hn::LoadU(kF32, si + at + n * kLanes), hn::LoadU(kF32, gi + at + n * kLanes), sum.part[n]);
    }
    c.key[i] = sum_of(sum);
  }
  std::fill(c.key + s.rows, c.key + c.wk, 0.0f);
}

// The parts of dq, dk and dg that pass through S and G: c.inter = [dO; F] S^T, c.ext = D G^T, c.key the state_dots.
template <bool kDelta>
HWY_NOINLINE void state_gradients(int64_t count, const DeltaChunk& c) {
  const int64_t wk = c.wk;
  for (int64_t d = 0; d < wk; d += kLanes) {
    VF later = hn::Mul(hn::LoadU(kF32, c.key + d), hn::LoadU(kF32, c.x + (count - 1) * wk + d));
    for (int64_t i = count - 1; i >= 0; --i) {
      const int64_t at = i * wk + d;
      const VF x = hn::LoadU(kF32, c.x + at), q = hn::LoadU(kF32, c.q + at), k = hn::LoadU(kF32, c.k + at);
      const VF dq = hn::Mul(x, hn::LoadU(kF32, c.inter + at));
      const VF out = hn::Mul(hn::LoadU(kF32, c.w + at), hn::LoadU(kF32, c.ext + at));
      VF dk = out;
      later = hn::MulAdd(q, dq, later);
      if constexpr (kDelta) {
        const VF read = hn::Neg(hn::Mul(x, hn::LoadU(kF32, c.inter + count * wk + at)));
        later = hn::MulAdd(k, read, later);
        dk = hn::Add(read, out);
      }
      hn::StoreU(dq, kF32, c.dq + at);
      hn::StoreU(dk, kF32, c.dk + at);
      hn::StoreU(later, kF32, c.dg + at);
      hn::StoreU(hn::Mul(k, out), kF32, c.ext + at);
    }
    VF before = hn::Zero(kF32);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = i * wk + d;
      hn::StoreU(hn::Add(hn::LoadU(kF32, c.dg + at), before), kF32, c.dg + at);
      before = hn::Add(before, hn::LoadU(kF32, c.ext + at));
    }
  }
}

// d = beta e
void writes(const DeltaHead& head, int64_t count, const float* e, const DeltaChunk& c) {
  for (int64_t i = 0; i < count; ++i) {
    const VF beta = set(head.beta[i * head.beta_ld]);
    for (int64_t j = 0; j < c.wv; j += kLanes)
      hn::StoreU(hn::Mul(beta, hn::LoadU(kF32, e + i * c.wv + j)), kF32, c.d + i * c.wv + j);
  }
}

void load_keys(const DeltaHead& head, int64_t count, int64_t P, const DeltaChunk& c) {
  pack_rows(head.k, head.key_ld, count, P, c.k, c.wk);
}

// E for NV vectors of columns from `at` on. c.z holds (x K) S, and c.P is N; e begins as the values.
template <int NV>
void solve_errors_columns(const DeltaHead& head, int64_t count, int64_t at, float* e, const DeltaChunk& c) {
  const int64_t wv = c.wv;
  for (int64_t i = 0; i < count; ++i) {
    VF sum[NV];
    for (int n = 0; n < NV; ++n)
      sum[n] = hn::Sub(hn::LoadU(kF32, e + i * wv + at + n * kLanes), hn::LoadU(kF32, c.z + i * wv + at + n * kLanes));
    for (int64_t j = 0; j < i; ++j) {
      const VF minus = set(-c.P[i * kDeltaChunk + j]);
#pragma GCC unroll 4
      for (int n = 0; n < NV; ++n) sum[n] = hn::MulAdd(minus, hn::LoadU(kF32, c.d + j * wv + at + n * kLanes), sum[n]);
    }
    const VF beta = set(head.beta[i * head.beta_ld]);
    for (int n = 0; n < NV; ++n) {
      hn::StoreU(sum[n], kF32, e + i * wv + at + n * kLanes);
      hn::StoreU(hn::Mul(beta, sum[n]), kF32, c.d + i * wv + at + n * kLanes);
    }
  }
}

// The errors of a chunk that begins with s.
HWY_NOINLINE void find_errors(const DeltaHead& head, const DeltaSizes& x, int64_t count, const PanelMatrix& s, float* e,
                              const DeltaChunk& c) {
  DeltaChunk keys = c;
  keys.q = c.k;
  if (x.vector_gate)
    pair_products<false>(count, keys);
  else
    shared_pair_products<false>(count, keys);
  for (int64_t i = 0; i < count * c.wk; i += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(kF32, c.x + i), hn::LoadU(kF32, c.k + i)), kF32, c.x_key + i);
  product(count, c.x_key, c.wk, s, c.z, c.wv);
  int64_t at = 0;
  for (; at + kPanel <= c.wv; at += kPanel) solve_errors_columns<kPanelVecs>(head, count, at, e, c);
  for (; at < c.wv; at += kLanes) solve_errors_columns<1>(head, count, at, e, c);
}

// next = the state after a chunk that begins with s. Its keys and decays are loaded.
HWY_NOINLINE void advance(const DeltaHead& head, int64_t count, const float* e, const PanelMatrix& s,
                          const PanelMatrix& next, const DeltaChunk& c) {
  writes(head, count, e, c);
  for (int64_t i = 0; i < count * c.wk; i += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(kF32, c.w + i), hn::LoadU(kF32, c.k + i)), kF32, c.w_key + i);
  add_product(count, c.w_key, c.wk, c.d, c.wv, c.x + (count - 1) * c.wk, s, next);
}

// Tokens [0, count) of `head`, with `before` tokens before them, whose errors are e and whose first state is s. `to`:
// the rows of the outputs.
template <bool kDelta>
void grad_chunk(const DeltaHead& head, const DeltaSizes& x, int64_t before, int64_t count, const float* d_o,
                const float* e, const PanelMatrix& s, const DeltaOut& to, const DeltaChunk& c) {
  const int64_t P = x.P, V = x.V, wk = c.wk, wv = c.wv, both = kDelta ? 2 * count : count;  // dO, or dO and F
  for (int64_t i = -HWY_MIN(before, kDeltaChunk); i < 0; ++i) {                             // the next chunk
    fetch_row(head.k + i * head.key_ld, P);
    fetch_row(head.q + i * head.key_ld, P);
    if (d_o) fetch_row(d_o + i * head.value_ld, V);
  }
  load_keys(head, count, P, c);
  pack_rows(head.q, head.key_ld, count, P, c.q, wk);
  if (d_o)
    pack_rows(d_o, head.value_ld, count, V, c.both, wv);
  else
    std::memset(c.both, 0, size_t(count * wv) * sizeof(float));
  chunk_decays(head, x.vector_gate, count, P, c);
  writes(head, count, e, c);
  if (x.vector_gate)
    pair_products<kDelta>(count, c);
  else
    shared_pair_products<kDelta>(count, c);
  scale_keys(count, c);
  product(count, c.w_key, wk, c.g, c.z, wv);
  solve<kDelta>(head, count, c);
  const float* f = c.both + count * wv;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to.dv + i * head.value_ld, f + i * wv, size_t(V) * sizeof(float));
    to.dbeta[i * head.beta_ld] = dot(c.z + i * wv, e + i * wv, wv);
  }
  transpose(c.d, wv, count, V, c.d_t, kDeltaChunk);
  product<Init::zero, false, kTall>(both, kDeltaChunk, V, c.both, wv, c.d_t, kDeltaChunk, c.pairs, kDeltaChunk);
  // [dO; F] S^T as (S [dO; F]^T)^T, and so D G^T: the states are much larger than the rows.
  const int64_t wide = padded16(both);
  transpose(c.both, wv, both, V, c.both_t, wide);
  product(s, V, c.both_t, c.inter_t, wide);
  product(c.g, V, c.d_t, c.ext_t, kDeltaChunk);
  transpose(c.inter_t, wide, P, both, c.inter, wk);
  transpose(c.ext_t, kDeltaChunk, P, count, c.ext, wk);
  state_dots(s, c);
  state_gradients<kDelta>(count, c);
  if (x.vector_gate)
    pair_gradients<kDelta>(count, c);
  else
    shared_pair_gradients<kDelta>(count, c);
  add_product(both, c.x_key, wk, c.both, wv, c.x + (count - 1) * wk, c.g, c.g);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to.dq + i * to.part_ld, c.dq + i * wk, size_t(P) * sizeof(float));
    std::memcpy(to.dk + i * to.part_ld, c.dk + i * wk, size_t(P) * sizeof(float));
    if (x.vector_gate)
      std::memcpy(to.dg + i * head.gate_ld, c.dg + i * wk, size_t(P) * sizeof(float));
    else
      to.dg[i * head.gate_ld] = c.key[i] + sum_over(P, [&](auto io, int64_t d, VF sum) HWY_ATTR {
                                  return hn::Add(sum, io.load(c.dg + i * wk + d));
                                });
  }
}

// ---- one head of a run

// A state [P,V], or zeros, with zeros from V on.
void load_state(const float* from, int64_t V, const PanelMatrix& to) {
  if (!from) {
    std::memset(to.at, 0, size_t(to.size()) * sizeof(float));
    return;
  }
  for (int64_t col = 0; col < to.cols; col += kMostColumns)
    pack_rows(from + col, V, to.rows, HWY_MIN(to.ld(col), V - col), to.panel(col), to.ld(col));
}

// From the state before a segment to those after its chunks. The first walk also finds the errors of its tokens and the
// state before the next segment.
template <bool kDelta, bool kFirst>
void walk_segment(const DeltaCall& x, const DeltaRun& run, const DeltaHead& run_head, int64_t segment,
                  const DeltaScratch& ws) {
  const DeltaChunk& c = ws.chunk;
  const int64_t wv = c.wv, size = x.P * wv, first = segment * kDeltaSegment,
                last = HWY_MIN(run.count, first + kDeltaSegment);
  float *s = ws.kept + segment * size, *next = ws.states;
  for (int64_t t = first; t < last; t += kDeltaChunk, s = next, next += size) {
    const DeltaHead head = run_head.from(t);
    const int64_t count = HWY_MIN(kDeltaChunk, last - t);
    const bool end = t + kDeltaChunk >= last;
    if (end && !kFirst) return;
    for (int64_t i = count; i < HWY_MIN(2 * count, run.count - t); ++i) {
      fetch_row(head.k + i * head.key_ld, x.P);
      if constexpr (kFirst) fetch_row(head.v + i * head.value_ld, x.V);
    }
    load_keys(head, count, x.P, c);
    chunk_decays(head, x.vector_gate, count, x.P, c);
    float* e = ws.e + t * wv;
    if constexpr (kFirst) pack_rows(head.v, head.value_ld, count, x.V, e, wv);
    if constexpr (kFirst && kDelta) find_errors(head, x, count, {s, x.P, wv}, e, c);
    if (t + kDeltaChunk >= run.count) return;
    if (end) next = ws.kept + (segment + 1) * size;
    advance(head, count, e, {s, x.P, wv}, {next, x.P, wv}, c);
  }
}

template <bool kDelta>
void grad_run(const DeltaCall& x, const DeltaGrad& grad, const DeltaRun& run, int64_t h, const DeltaScratch& ws) {
  const int64_t wv = padded16(x.V), size = x.P * wv, state = run.known && x.S >= 0 ? x.state_at(run.begin, h) : 0;
  const DeltaHead head(x, run.begin, h);
  const int64_t last_segment = (run.count - 1) / kDeltaSegment;
  load_state(run.loads ? x.s0 + state : nullptr, x.V, {ws.kept, x.P, wv});
  for (int64_t segment = 0; segment <= last_segment; ++segment) walk_segment<kDelta, true>(x, run, head, segment, ws);
  const PanelMatrix& g = ws.chunk.g;
  load_state(grad.ds && run.stores() ? grad.ds + state : nullptr, x.V, g);
  for (int64_t segment = last_segment; segment >= 0; --segment) {
    const int64_t first = segment * kDeltaSegment, last = HWY_MIN(run.count, first + kDeltaSegment);
    if (segment < last_segment) walk_segment<kDelta, false>(x, run, head, segment, ws);
    for (int64_t t = first + (last - first - 1) / kDeltaChunk * kDeltaChunk; t >= first; t -= kDeltaChunk) {
      float* s = t == first ? ws.kept + segment * size : ws.states + ((t - first) / kDeltaChunk - 1) * size;
      grad_chunk<kDelta>(head.from(t), x, t, HWY_MIN(kDeltaChunk, last - t),
                         grad.d_o ? grad.d_o + (head.v - x.v) + t * head.value_ld : nullptr, ws.e + t * wv,
                         {s, x.P, wv}, grad.rows(x, run.begin + t, h), ws.chunk);
    }
  }
  if (!grad.ds0 || !run.known || !run.first) return;
  for (int64_t i = 0; i < x.P; ++i)
    for (int64_t j = 0; j < x.V; ++j) grad.ds0[state + i * x.V + j] = run.loads ? g(i, j) : 0.0f;
}

// to = the parts of the value heads that share a key head, in the order of the heads.
void sum_parts(const DeltaCall& x, Range rows, const float* part, float* to) {
  const int64_t each = x.H / x.K;
  for (int64_t n = rows.begin; n < rows.end; ++n)
    for (int64_t key = 0; key < x.K; ++key) {
      float* sum = to + (n * x.K + key) * x.P;
      for (int64_t r = 0; r < each; ++r) {
        const float* of = part + (n * x.H + (x.tile ? r * x.K + key : key * each + r)) * x.P;
        for_each_vector(x.P, [&](auto io, int64_t i) HWY_ATTR {
          io.store(r == 0 ? io.load(of + i) : hn::Add(io.load(sum + i), io.load(of + i)), sum + i);
        });
      }
    }
}

void gated_delta_rule_grad(const ExecContext& ctx, const KernelArgs& args) {
  const DeltaCall x(args, 0, 8, args.in[5], nullptr, nullptr);
  DeltaRuns runs(args.workspace, x.N, x.S);
  if (ctx.thread == 0) runs.find(x, ctx);
  ctx.barrier();
  float* memory = reinterpret_cast<float*>(args.workspace + DeltaRuns::bytes(x.N, x.S));
  const DeltaGrad grad(x, args, memory);
  const DeltaScratch ws(memory + DeltaGrad::floats(x) + ctx.thread * DeltaScratch::floats(x), x);
  for_each_claimed(ctx, runs.count() * x.H, [&](int64_t item) HWY_ATTR {
    const auto& run = x.delta ? grad_run<true> : grad_run<false>;
    run(x, grad, runs[item / x.H], item % x.H, ws);
  });
  if (grad.ds0) {
    const Range idle = ctx.share(x.S);
    const int64_t size = x.H * x.state();
    for (int64_t i = idle.begin; i < idle.end; ++i)
      for (int64_t j = i * size; runs.idle(i) && j < (i + 1) * size; ++j) grad.ds0[j] = grad.ds ? grad.ds[j] : 0.0f;
  }
  if (x.H == x.K) return;
  ctx.barrier();
  const Range rows = share_rows(ctx, x.N, x.H * x.P);
  sum_parts(x, rows, grad.dq_part, grad.dq);
  sum_parts(x, rows, grad.dk_part, grad.dk);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(gated_delta_rule_grad);

size_t workspace(const KernelQuery& q) noexcept {
  const DeltaSizes x(q.in[1].shape, q.in[2].shape, q.in[3].shape, q.in[5].present ? q.in[5].shape[0] : -1);
  return DeltaRuns::bytes(x.N, x.S) +
         size_t(DeltaGrad::floats(x) + q.threads * DeltaScratch::floats(x)) * sizeof(float);
}

}  // namespace

KernelRecord gated_delta_rule_grad_kernel() {
  return {.op = "gated_delta_rule_grad",
          .workspace = workspace,
          .code = best_of<HWY_DISPATCH_TABLE(gated_delta_rule_grad)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
