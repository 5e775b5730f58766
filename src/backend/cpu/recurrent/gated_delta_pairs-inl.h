// Pairs of tokens of a chunk of the gated delta rule: the products P and N of gated_delta_rule_grad.cpp, and what their
// gradients give to the rows.
#if defined(TOY_CPU_GATED_DELTA_PAIRS_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_GATED_DELTA_PAIRS_INL_H_
#undef TOY_CPU_GATED_DELTA_PAIRS_INL_H_
#else
#define TOY_CPU_GATED_DELTA_PAIRS_INL_H_
#endif

#include "backend/cpu/recurrent/gated_delta_panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

float dot(const float* a, const float* b, int64_t n) {
  return sum_over(n, [&](auto io, int64_t i, VF s) HWY_ATTR { return hn::MulAdd(io.load(a + i), io.load(b + i), s); });
}

// ---- with a decay for each channel

// P and N, where i >= j: rows of 16.
template <bool kDelta>
HWY_NOINLINE void pair_products(int64_t count, const DeltaChunk& c) {
  const int64_t wk = c.wk;
  for (int64_t j = 0; j < count; ++j) {
    c.P[j * kDeltaChunk + j] = dot(c.q + j * wk, c.k + j * wk, wk);
    const float* key = c.k + j * wk;
    for (int64_t i = j + 1; i < count; ++i, key = c.key) {
      Lanes16 p, n;
      for (int64_t at = 0; at < wk; at += 16)
        for (int64_t part = 0; part < kParts; ++part) {
          const int64_t d = at + part * kLanes;
          const VF decayed = hn::Mul(hn::LoadU(kF32, c.a + i * wk + d), hn::LoadU(kF32, key + d));
          hn::StoreU(decayed, kF32, c.key + d);
          p.part[part] = hn::MulAdd(hn::LoadU(kF32, c.q + i * wk + d), decayed, p.part[part]);
          if constexpr (kDelta) n.part[part] = hn::MulAdd(hn::LoadU(kF32, c.k + i * wk + d), decayed, n.part[part]);
        }
      c.P[i * kDeltaChunk + j] = sum_of(p);
      if constexpr (kDelta) c.N[i * kDeltaChunk + j] = sum_of(n);
    }
  }
}

// What dP and dN (as [dO; F] D^T, so dN with the other sign) give to the rows of dq, dk and dg. One vector of channels
// at a time: every decayed key of a pair stays in the first-level cache.
template <bool kDelta>
HWY_NOINLINE void pair_gradients(int64_t count, const DeltaChunk& c) {
  const int64_t wk = c.wk;
  const float *dP = c.pairs, *dN = c.pairs + count * kDeltaChunk;
  VF keys[kDeltaChunk][kDeltaChunk], back[kDeltaChunk];  // k_j at token i, and the gradient of that
  for (int64_t d = 0; d < wk; d += kLanes) {
    for (int64_t i = 0; i < count; ++i) {
      const VF a = hn::LoadU(kF32, c.a + i * wk + d);
      for (int64_t j = 0; j < i; ++j) keys[i][j] = hn::Mul(a, keys[i - 1][j]);
      keys[i][i] = hn::LoadU(kF32, c.k + i * wk + d);
      back[i] = hn::Zero(kF32);
    }
    for (int64_t i = count - 1; i >= 0; --i) {
      const int64_t at = i * wk + d;
      const VF q = hn::LoadU(kF32, c.q + at), k = keys[i][i], a = hn::LoadU(kF32, c.a + at),
               own = set(dP[i * kDeltaChunk + i]);
      VF dq = hn::MulAdd(own, k, hn::LoadU(kF32, c.dq + at)), dk = hn::MulAdd(own, q, hn::LoadU(kF32, c.dk + at));
      VF dg = hn::LoadU(kF32, c.dg + at);
      dk = hn::Add(dk, back[i]);
      for (int64_t j = 0; j < i; ++j) {
        const VF p = set(dP[i * kDeltaChunk + j]), key = keys[i][j];
        VF of_key = hn::MulAdd(p, q, back[j]);
        dq = hn::MulAdd(p, key, dq);
        if constexpr (kDelta) {
          const VF n = set(dN[i * kDeltaChunk + j]);
          of_key = hn::NegMulAdd(n, k, of_key);
          dk = hn::NegMulAdd(n, key, dk);
        }
        dg = hn::MulAdd(of_key, key, dg);
        back[j] = hn::Mul(of_key, a);
      }
      hn::StoreU(dq, kF32, c.dq + at);
      hn::StoreU(dk, kF32, c.dk + at);
      hn::StoreU(dg, kF32, c.dg + at);
    }
  }
}

// ---- with a decay that all channels share: it factors out of the products

// Calls f(i, j, c_ij) for the pairs i > j, row by row.
template <class F>
void for_each_pair(int64_t count, const DeltaChunk& c, const F& f) {
  float decay[kDeltaChunk];
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < i; ++j) f(i, j, decay[j] *= c.a[i * c.wk]);
    decay[i] = 1;
  }
}

template <bool kDelta>
HWY_NOINLINE void shared_pair_products(int64_t count, const DeltaChunk& c) {
  constexpr int64_t C = kDeltaChunk;
  transpose(c.k, c.wk, count, c.wk, c.k_t, C);
  product<Init::zero, false, kTall>(count, C, c.wk, c.q, c.wk, c.k_t, C, c.P, C);
  if constexpr (kDelta) product<Init::zero, false, kTall>(count, C, c.wk, c.k, c.wk, c.k_t, C, c.N, C);
  for_each_pair(count, c, [&](int64_t i, int64_t j, float decay) {
    c.P[i * C + j] *= decay;
    if constexpr (kDelta) c.N[i * C + j] *= decay;
  });
}

// To the rows of dq and dk, and to c.key: one number for dg of each token.
template <bool kDelta>
HWY_NOINLINE void shared_pair_gradients(int64_t count, const DeltaChunk& c) {
  constexpr int64_t C = kDeltaChunk;
  float *dP = c.pairs, *dN = c.pairs + count * C, later[C] = {};  // later_j: of the pairs (i, j) with i >= t
  for (int64_t t = count - 1; t >= 0; --t) {
    float sum = 0;
    for (int64_t j = 0; j < t; ++j) {
      const int64_t at = t * C + j;
      later[j] += dP[at] * c.P[at];
      if constexpr (kDelta) later[j] -= dN[at] * c.N[at];
      sum += later[j];
    }
    c.key[t] = sum;
  }
  // dP becomes the gradient of q_i.k_j, and dN that of k_i.k_j and of k_j.k_i.
  for_each_pair(count, c, [&](int64_t i, int64_t j, float decay) {
    dP[i * C + j] *= decay, dP[j * C + i] = 0;
    if constexpr (kDelta) dN[i * C + j] = dN[j * C + i] = -decay * dN[i * C + j];
  });
  product<Init::add>(count, c.wk, count, dP, C, c.k, c.wk, c.dq, c.wk);
  product<Init::add, true>(count, c.wk, count, dP, C, c.q, c.wk, c.dk, c.wk);
  if constexpr (!kDelta) return;
  for (int64_t i = 0; i < count; ++i) dN[i * C + i] = 0;
  product<Init::add>(count, c.wk, count, dN, C, c.k, c.wk, c.dk, c.wk);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_GATED_DELTA_PAIRS_INL_H_
