// Numbers with twice the digits of a float, for sums that need them: many GPUs have no f64. A pair is hi + lo, where hi
// is that sum rounded to a float. Algorithms and bounds are those of Joldes, Muller and Popescu, "Tight and rigorous
// error bounds for basic building blocks of double-word arithmetic" (2017), after Dekker (1971) and Knuth.
//
// u = 2^-24. Because subnormal results are zero, each operation may be off by another 2^-123 (a quotient: divided by
// its divisor). What overflows is infinite from there on, as a float is; of what is not finite only hi counts.
#ifndef TOY_GPU_PAIRS_H
#define TOY_GPU_PAIRS_H
#include "dialect.h"

DEVICE FloatPair pair_of(float hi, float lo) {
  FloatPair p;
  p.hi = hi, p.lo = lo;
  return p;
}
// a + b exactly, |a| >= |b| (Dekker).
DEVICE FloatPair quick_sum(float a, float b) {
  const float s = a + b;
  return is_finite(s) ? pair_of(s, b - (s - a)) : pair_of(s, 0.0f);
}
// a + b exactly (Knuth).
DEVICE FloatPair two_sum(float a, float b) {
  const float s = a + b, of_b = s - a;
  return is_finite(s) ? pair_of(s, (a - (s - of_b)) + (b - of_b)) : pair_of(s, 0.0f);
}
// a b exactly.
DEVICE FloatPair two_product(float a, float b) {
  const float p = a * b;
  return is_finite(p) ? pair_of(p, fma(a, b, -p)) : pair_of(p, 0.0f);
}
// n, |n| < 2^48, exactly.
DEVICE FloatPair pair_of_int(int64 n) {
  const float hi = (float)n;
  return pair_of(hi, (float)(n - (int64)hi));
}

// a + x. Error: 2u^2 of itself.
DEVICE FloatPair plus(FloatPair a, float x) {
  const FloatPair s = two_sum(a.hi, x);
  return quick_sum(s.hi, a.lo + s.lo);
}
// a + b. Error: 3u^2 (1 + 5u) of itself.
DEVICE FloatPair plus_pair(FloatPair a, FloatPair b) {
  const FloatPair s = two_sum(a.hi, b.hi), t = two_sum(a.lo, b.lo), v = quick_sum(s.hi, s.lo + t.hi);
  return quick_sum(v.hi, t.lo + v.lo);
}
// a x. Error: 2u^2 of itself.
DEVICE FloatPair times(FloatPair a, float x) {
  const FloatPair p = two_product(a.hi, x);
  return quick_sum(p.hi, fma(a.lo, x, p.lo));
}
// a / b. Error: 16u^2 of itself.
DEVICE FloatPair quotient(FloatPair a, FloatPair b) {
  const float q = a.hi / b.hi;
  if (!is_finite(q) || q == 0.0f) return pair_of(q, 0.0f);
  const FloatPair r = times(b, q);
  return quick_sum(q, ((a.hi - r.hi) + (a.lo - r.lo)) / b.hi);
}
// The root of a >= 0 as a float. Error: u + 5u^2 of itself: a Newton step after the root of hi.
DEVICE float root_of(FloatPair a) {
  const float r = sqrt(a.hi);
  return r > 0.0f && is_finite(r) ? r + (fma(-r, r, a.hi) + a.lo) / (2.0f * r) : r;
}

// The sum over a group of 256 items: a tree. All come here, and get it.
DEVICE FloatPair group_sum_of_pairs(FloatPair v, LOCAL_PTR FloatPair* sums) {
  BARRIER();
  sums[LID] = v;
  BARRIER();
  for (int half_of = 128; half_of > 0; half_of /= 2) {
    if (LID < half_of) sums[LID] = plus_pair(sums[LID], sums[LID + half_of]);
    BARRIER();
  }
  return sums[0];
}

// ------------------------------------------------------------------------------------------------- sums of squares
// Squares of floats leave the range of floats. So a sum of them is of (x 2^-e)^2, where 2^e is the size of the
// largest x so far, as in LAPACK's xLASSQ (Blue 1978): it neither overflows nor loses a square that counts. n squares
// are within 3u^2 times the additions that each goes through.

// x's exponent, that 2^-e is no subnormal: |x| is below 2 2^e, the very largest below 4 2^e.
DEVICE int exponent_of(float x) {
  const int e = (int)(AS_UINT(x) >> 23 & 0xffu) - 127;
  return e < -126 ? -126 : e > 126 ? 126 : e;
}
// 2^e, -126 <= e <= 127.
DEVICE float power_of_two(int e) { return AS_FLOAT((uint)(e + 127) << 23); }
// a 2^e, -252 <= e <= 252; exact where it is a float's number.
DEVICE FloatPair scaled(FloatPair a, int e) {
  const float first = power_of_two(e / 2), second = power_of_two(e - e / 2);
  const float hi = a.hi * first * second;
  return pair_of(hi, is_finite(hi) ? a.lo * first * second : 0.0f);
}

DEVICE Squares no_squares(void) {
  Squares s;
  s.sum = pair_of(0.0f, 0.0f), s.e = -126;
  return s;
}
// The same with an e that is not smaller.
DEVICE Squares raised(Squares s, int e) {
  if (e > s.e) s.sum = e - s.e > 63 ? pair_of(0.0f, 0.0f) : scaled(s.sum, 2 * (s.e - e)), s.e = e;
  return s;
}
DEVICE Squares plus_square(Squares s, float x) {
  s = raised(s, exponent_of(x));
  const float v = x * power_of_two(-s.e);
  s.sum = plus_pair(s.sum, two_product(v, v));
  return s;
}
DEVICE Squares plus_squares(Squares s, Squares t) {
  s = raised(s, t.e), t = raised(t, s.e);
  s.sum = plus_pair(s.sum, t.sum);
  return s;
}
// s / n x^2. Error: 20u^2 of itself. Its e may be twice as large.
DEVICE Squares mean_square(Squares s, int64 n, float x) {
  const int e = exponent_of(x);
  const float v = x * power_of_two(-e);
  s.sum = times(times(quotient(s.sum, pair_of_int(n)), v), v), s.e += e;
  return s;
}
DEVICE FloatPair pair_of_squares(Squares s) { return scaled(scaled(s.sum, s.e), s.e); }
// Error: u + 5u^2 of itself.
DEVICE float root_of_squares(Squares s) { return scaled(pair_of(root_of(s.sum), 0.0f), s.e).hi; }
// As group_sum_of_pairs().
DEVICE Squares group_sum_of_squares(Squares v, LOCAL_PTR Squares* sums) {
  BARRIER();
  sums[LID] = v;
  BARRIER();
  for (int half_of = 128; half_of > 0; half_of /= 2) {
    if (LID < half_of) sums[LID] = plus_squares(sums[LID], sums[LID + half_of]);
    BARRIER();
  }
  return sums[0];
}
#endif
