// More functions of one element for vectors: exp and tanh for attention, sin, cos, tanh, softplus, erf and both gelus.
// Errors are relative, in units of u = 2^-24, and were measured on every eleventh f32 (tests/backend/math_test.cpp with
// TOY_MATH_STEP=11); the bounds are above what was measured. A result below 2^-126 may be flushed to zero.
#if defined(TOY_CPU_MATH_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_MATH_INL_H_
#undef TOY_CPU_MATH_INL_H_
#else
#define TOY_CPU_MATH_INL_H_
#endif

#include <cmath>

#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// c0 + c1 x + c2 x^2 + ...
template <size_t n>
HWY_INLINE VF polynomial(VF x, const float (&c)[n]) {
  VF y = set(c[n - 1]);
  for (size_t i = n - 1; i-- > 0;) y = hn::MulAdd(y, x, set(c[i]));
  return y;
}

// exp(x) = 2^n (1 + q): returns q, and n in the low bits of `shifted`. Cody and Waite's reduction by multiples of log
// 2, the polynomial of Cephes' expf.
HWY_INLINE VF exp_parts(VF x, VF& shifted) {
  constexpr float c[] = {5.0000001201e-1f, 1.6666665459e-1f, 4.1665795894e-2f,
                         8.3334519073e-3f, 1.3981999507e-3f, 1.9875691500e-4f};
  const VF magic = set(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  shifted = hn::MulAdd(x, set(1.44269504088896341f), magic);
  const VF n = hn::Sub(shifted, magic);
  const VF r = hn::NegMulAdd(n, set(-2.12194440e-4f), hn::NegMulAdd(n, set(0.693359375f), x));
  return hn::MulAdd(polynomial(r, c), hn::Mul(r, r), r);
}

// exp(x) for x <= 80 to about one ulp, in fewer operations than exp(); 0 below -87. NaN stays NaN.
HWY_INLINE VF fast_exp(VF x) {
  VF shifted;
  const VF y = hn::Add(exp_parts(x, shifted), set(1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(kU32, shifted));
  const VF scaled = hn::BitCast(kF32, hn::Add(hn::BitCast(kU32, y), exponent));
  return hn::IfThenZeroElse(hn::Lt(x, set(-87.0f)), scaled);
}

// tanh(x) = t / (t + 2) with t = exp(2|x|) - 1 = 2^n q + (2^n - 1), and the sign of x. Small x keep their relative
// precision: 6u. Beyond 10 it is 1. NaN stays NaN.
HWY_INLINE VF fast_tanh(VF x) {
  const VF one = set(1.0f), ten = set(10.0f), size = hn::Abs(x), a = hn::IfThenElse(hn::Gt(size, ten), ten, size);
  VF shifted;
  const VF q = exp_parts(hn::Add(a, a), shifted);
  const auto bits = hn::Add(hn::BitCast(kU32, one), hn::ShiftLeft<23>(hn::BitCast(kU32, shifted)));
  const VF power = hn::BitCast(kF32, bits), t = hn::MulAdd(power, q, hn::Sub(power, one));
  return hn::CopySign(hn::Div(t, hn::Add(t, set(2.0f))), x);
}

// Highway reduces the angle by multiples of pi in pieces and is good up to 39000. Beyond that, and for NaN and
// infinity, an element is libm's f64 function rounded.
constexpr float kLargestAngle = 39000;

template <class F>
HWY_INLINE VF with_far_angles(VF x, VF y, const F& exactly) {
  if (hn::AllTrue(kF32, hn::Le(hn::Abs(x), set(kLargestAngle)))) return y;
  HWY_ALIGN float angle[kLanes], result[kLanes];
  hn::Store(x, kF32, angle);
  hn::Store(y, kF32, result);
  for (int64_t i = 0; i < kLanes; ++i)
    if (!(std::fabs(angle[i]) <= kLargestAngle)) result[i] = float(exactly(double(angle[i])));
  return hn::Load(kF32, result);
}

// Error: 4u.
HWY_INLINE VF sin(VF x) {
  const VF y = hn::IfThenElse(hn::Eq(x, hn::Zero(kF32)), x, hn::Sin(kF32, x));  // sin(-0) is -0
  return with_far_angles(x, y, [](double angle) { return std::sin(angle); });
}
HWY_INLINE VF cos(VF x) {
  return with_far_angles(x, hn::Cos(kF32, x), [](double angle) { return std::cos(angle); });
}

// Highway's own. Error: 5u.
HWY_INLINE VF tanh(VF x) { return hn::Tanh(kF32, x); }

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|): nothing overflows. Error: 5u.
HWY_INLINE VF softplus(VF x) {
  const VF y = hn::Add(hn::Max(x, hn::Zero(kF32)), hn::Log1p(kF32, exp(hn::Neg(hn::Abs(x)))));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// erfc(z) = e^(-z^2) G(1 / (1 + 0.4 z)) for z >= 0. G is smooth and nearly linear; the polynomial is its best one of
// degree 9 in the relative sense (Remez exchange in 40 digits, ours) for z <= 10.3, off by 0.54u. Beyond that e^(-z^2)
// is 0. Error: (z^2 + 8)u: the rounding of z^2 and what exp, the argument and the sum of G add.
HWY_INLINE VF erfc_of_positive(VF z) {
  constexpr float c[] = {2.37578224e-05f, 0.225135684f, 0.2308999f,     0.179605559f,   0.262120485f,
                         -0.0560914464f,  0.26040256f,  -0.0518730357f, -0.0798840746f, 0.0296606328f};
  const VF t = hn::Div(set(1.0f), hn::MulAdd(set(0.4f), z, set(1.0f)));
  return hn::Mul(exp(hn::Neg(hn::Mul(z, z))), polynomial(t, c));
}

// Below 1: x P(x^2), P the best polynomial of degree 6 (off by 0.02u). From 1 on: 1 - erfc. Error: 4u.
HWY_INLINE VF erf(VF x) {
  constexpr float c[] = {1.12837911f,    -0.37612626f,     0.112835854f,   -0.0268538147f,
                         0.00518833054f, -0.000801020244f, 7.85384982e-05f};
  const VF z = hn::Abs(x);
  const VF large = hn::CopySign(hn::Sub(set(1.0f), erfc_of_positive(z)), x);
  return hn::IfThenElse(hn::Lt(z, set(1.0f)), hn::Mul(x, polynomial(hn::Mul(x, x), c)), large);
}

// The normal distribution Phi(x) = erfc(-x / sqrt 2) / 2: no cancellation where it is small. Error: (5/2 x^2 + 11)u
// below 0, where the rounding of z^2 is that much of e^(-z^2); 11u above.
HWY_INLINE VF normal_distribution(VF x) {
  const VF tail = hn::Mul(set(0.5f), erfc_of_positive(hn::Mul(hn::Abs(x), set(0.707106781f))));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(kF32)), tail, hn::Sub(set(1.0f), tail));
}

// x Phi(x) (Hendrycks and Gimpel 2016). Error: that of Phi and one rounding.
HWY_INLINE VF gelu_erf(VF x) { return hn::Mul(x, normal_distribution(x)); }

// x/2 (1 + tanh a) = x / (1 + e^(-2a)), a = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016). Error: 4u of 2a,
// of which the share e^(-2a) / (1 + e^(-2a)) arrives, and 4u.
HWY_INLINE VF gelu_tanh(VF x) {
  const VF a = hn::Mul(x, hn::MulAdd(hn::Mul(x, x), set(-0.0713548163f), set(-1.59576912f)));  // -2a
  return hn::Div(x, hn::Add(set(1.0f), exp(a)));
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_MATH_INL_H_
