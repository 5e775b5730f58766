// The vectors of all kernels: conversions from f16 and bf16, loops with safe ends, sums in a fixed order, exp and its
// relatives. Everything is in an unnamed namespace: each file that includes this has its own copy for each target.
#if defined(TOY_CPU_VEC_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_VEC_INL_H_
#undef TOY_CPU_VEC_INL_H_
#else
#define TOY_CPU_VEC_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <limits>

#include "toy/tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;
constexpr DF kF32;
constexpr hn::RebindToUnsigned<DF> kU32;
constexpr hn::RebindToSigned<DF> kI32;
constexpr int64_t kLanes = int64_t(hn::MaxLanes(DF()));
constexpr int64_t kParts = 16 / kLanes;                                           // vectors that hold 16 virtual lanes
constexpr bool kMaskedMemory = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;  // masked lanes are not touched
constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

static_assert(kLanes >= 4, "the order of sums is written for 4, 8 or 16 lanes");

HWY_INLINE VF set(float v) { return hn::Set(kF32, v); }

// An empty statement that pretends to change v. GCC 12 otherwise folds one load into several FMAs as their memory
// operand, and the load port becomes the limit: 68 instead of 91% of the FMA peak.
template <class V>
HWY_INLINE void keep(V& v) {
#if HWY_ARCH_X86
  __asm__("" : "+v"(v.raw));
#elif HWY_ARCH_ARM
  __asm__("" : "+w"(v.raw));
#endif
}

// One vector of f32 from memory of any float type.
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const F16* p) {
  const hn::Rebind<uint16_t, D> bits;
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), hn::LoadU(bits, &p->bits)));
}
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const BF16* p) {
  const hn::Rebind<uint16_t, D> bits;
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::bfloat16_t, D>(), hn::LoadU(bits, &p->bits)));
}

// ---- loops

// Loads and stores of whole vectors, and of the first n lanes at the end of a range (the others read as 0).
// The lanes run through the same instructions, so an element has the same bits in either.
struct Whole {
  HWY_INLINE VF load(const float* p) const { return hn::LoadU(kF32, p); }
  HWY_INLINE void store(VF v, float* p) const { hn::StoreU(v, kF32, p); }
};
struct FirstLanes {
  int64_t n;
  HWY_INLINE VF load(const float* p) const {
    if constexpr (kMaskedMemory) return hn::MaskedLoad(hn::FirstN(kF32, size_t(n)), kF32, p);
    HWY_ALIGN float lanes[kLanes] = {};
    for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
    return hn::Load(kF32, lanes);
  }
  HWY_INLINE void store(VF v, float* p) const {
    if constexpr (kMaskedMemory) return hn::BlendedStore(v, hn::FirstN(kF32, size_t(n)), kF32, p);
    HWY_ALIGN float lanes[kLanes];
    hn::Store(v, kF32, lanes);
    for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
  }
};

// Calls f(io, i) for every vector of [0, n), where io.load and io.store are safe.
template <class F>
HWY_INLINE void for_each_vector(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(Whole(), i);
  if (i < n) f(FirstLanes{n - i}, i);
}

// ---- sums over a range: 4 x 16 virtual lanes, whatever the width of a vector, so that widths agree

struct Lanes16 {
  VF part[kParts];
  HWY_INLINE Lanes16() {
    for (VF& p : part) p = hn::Zero(kF32);
  }
  HWY_INLINE explicit Lanes16(const float* lanes) {
    for (int64_t p = 0; p < kParts; ++p) part[p] = hn::LoadU(kF32, lanes + p * kLanes);
  }
};

template <class F>
HWY_INLINE void step16(const F& f, int64_t i, Lanes16& sum) {
  for (int64_t p = 0; p < kParts; ++p) sum.part[p] = f(Whole(), i + p * kLanes, sum.part[p]);
}
template <class F>
HWY_INLINE void last16(const F& f, int64_t i, int64_t n, Lanes16& sum) {
  for (int64_t p = 0; p < kParts; ++p, i += kLanes) {
    if (i + kLanes <= n)
      sum.part[p] = f(Whole(), i, sum.part[p]);
    else if (i < n)
      sum.part[p] = f(FirstLanes{n - i}, i, sum.part[p]);
  }
}

template <class Vec>
HWY_INLINE auto add_halves(Vec v) {
  const hn::Half<hn::DFromV<Vec>> half;
  return hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v));
}

// Tree of 16 lanes down to 4: i + (i+8), then i + (i+4).
HWY_INLINE auto four_lanes(const VF (&part)[kParts]) {
#if HWY_TARGET == HWY_AVX3
  return add_halves(add_halves(part[0]));
#elif HWY_TARGET == HWY_AVX2
  return add_halves(hn::Add(part[0], part[1]));
#else
  return hn::Add(hn::Add(part[0], part[2]), hn::Add(part[1], part[3]));
#endif
}

HWY_INLINE float sum_of(const Lanes16& lanes) {
  HWY_ALIGN float t[4];
  const auto four = four_lanes(lanes.part);
  hn::Store(four, hn::DFromV<decltype(four)>(), t);
  return (t[0] + t[2]) + (t[1] + t[3]);
}

// Adds over [0, n): f(io, i, sum) returns sum + the terms at i, and must add nothing for lanes that load
// zeros. Error of a sum of terms t: at most (n/64 + 7) u sum |t|, with the unit roundoff u = 2^-24.
template <class F>
HWY_INLINE float sum_over(int64_t n, const F& f) {
  Lanes16 a, b, c, d;
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    step16(f, i, a);
    step16(f, i + 16, b);
    step16(f, i + 32, c);
    step16(f, i + 48, d);
  }
  if (i < n) last16(f, i, n, a);
  if (i + 16 < n) last16(f, i + 16, n, b);
  if (i + 32 < n) last16(f, i + 32, n, c);
  if (i + 48 < n) last16(f, i + 48, n, d);
  for (int64_t p = 0; p < kParts; ++p)
    a.part[p] = hn::Add(hn::Add(a.part[p], b.part[p]), hn::Add(c.part[p], d.part[p]));
  return sum_of(a);
}

// For terms that are not zero where x is: clears the lanes that a short vector does not have.
HWY_INLINE VF present(Whole, VF v) { return v; }
HWY_INLINE VF present(FirstLanes io, VF v) { return hn::IfThenElseZero(hn::FirstN(kF32, size_t(io.n)), v); }

// Sum, or sum of squares, in f64 by 16 virtual lanes. Squares of f32 are exact in f64: the same bits with or
// without fma.
template <bool kSquares>
HWY_INLINE double sum_f64(const float* x, int64_t n) {
  const hn::CappedTag<double, 8> d64;
  const hn::Rebind<float, decltype(d64)> d32;
  constexpr int64_t kWide = int64_t(hn::MaxLanes(hn::CappedTag<double, 8>()));
  hn::Vec<decltype(d64)> sum[16 / kWide];
  for (auto& s : sum) s = hn::Zero(d64);
  const auto add16 = [&](const float* p) HWY_ATTR {
    for (int64_t k = 0; k < 16 / kWide; ++k) {
      const auto v = hn::PromoteTo(d64, hn::LoadU(d32, p + k * kWide));
      sum[k] = kSquares ? hn::MulAdd(v, v, sum[k]) : hn::Add(sum[k], v);
    }
  };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) add16(x + i);
  if (i < n) {
    float last[16] = {};
    std::memcpy(last, x + i, size_t(n - i) * sizeof(float));
    add16(last);
  }
  HWY_ALIGN double t[16];
  for (int64_t k = 0; k < 16 / kWide; ++k) hn::Store(sum[k], d64, t + k * kWide);
  for (int h = 8; h > 0; h /= 2)
    for (int j = 0; j < h; ++j) t[j] += t[j + h];
  return t[0];
}

// ---- functions. Relative errors in units of u = 2^-24 (1 ulp is 1 to 2 of them). A result below 2^-126 may
// be flushed to zero.

// Highway's own, with NaN and +inf as in libm. Error: 1 ulp, 2u (Highway's promise; 0.98 ulp measured).
HWY_INLINE VF exp(VF x) {
  const VF y = hn::Exp(kF32, hn::Min(x, set(104.0f)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// Highway's own, with log(0) = -inf, log(+inf) = +inf and NaN below 0. Error: 4 ulp promised, 0.9 ulp
// measured.
HWY_INLINE VF log(VF x) {
  const VF zero = hn::Zero(kF32), nan = set(kNaN);
  const VF special = hn::IfThenElse(hn::Eq(x, zero), set(-kInfinity), hn::IfThenElse(hn::Lt(x, zero), nan, x));
  return hn::IfThenElse(hn::And(hn::Gt(x, zero), hn::Lt(x, set(kInfinity))), hn::Log(kF32, x), special);
}

// 1 / (1 + e^-x) and x / (1 + e^-x). Error: 2u of exp and two roundings, 4u. Below -87 e^-x overflows before
// the result underflows: a silu that is smaller than 2^-119 may be 0 in place of its value.
HWY_INLINE VF sigmoid(VF x) { return hn::Div(set(1.0f), hn::Add(set(1.0f), exp(hn::Neg(x)))); }
HWY_INLINE VF silu(VF x) { return hn::Div(x, hn::Add(set(1.0f), exp(hn::Neg(x)))); }

// Error: half a rounding of the root carried on, and that of the quotient: 1.5u.
HWY_INLINE VF rsqrt(VF x) { return hn::Div(set(1.0f), hn::Sqrt(x)); }

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_VEC_INL_H_
