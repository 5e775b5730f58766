// The arithmetic on pairs of floats in kernels, whose errors are within what pairs.h says.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backend/flush_denormals.h"
#include "backend/gpu/emulated/items.h"
#include "toy/base/philox.h"

#include "backend/gpu/kernels/pairs.h"

namespace toy::gpu::pairs_test {
namespace {

using Wide = long double;  // 64 digits or more, where a pair has 48
constexpr Wide kU = 0x1p-24L;
constexpr float kInf = std::numeric_limits<float>::infinity(), kMost = std::numeric_limits<float>::max();

Wide value_of(FloatPair p) { return Wide(p.hi) + Wide(p.lo); }
Wide value_of(Squares s) { return std::ldexp(value_of(s.sum), 2 * s.e); }

// Numbers of both signs with exponents from -20 to 20, some of them near the one before, with either sign.
class Numbers {
 public:
  float next() {
    const auto sign = random_.uniform(at_++) < 0.5 ? -1 : 1;
    if (random_.uniform(at_++) < 0.3)
      return last_ = float(sign) * last_ * (1 + float(random_.uniform(at_++)) * 0x1p-18f);
    const int exponent = int(40 * random_.uniform(at_++)) - 20;
    return last_ = float(sign) * std::ldexp(1 + float(random_.uniform(at_++)), exponent);
  }
  FloatPair next_pair() {
    const float hi = next();
    return quick_sum(hi, hi * 0x1p-24f * float(random_.uniform(at_++)));
  }

 private:
  const Philox random_{1, "pairs"};
  uint64_t at_ = 0;
  float last_ = 1;
};

void expect_within(Wide error_in_u2, FloatPair actual, Wide exact) {
  ASSERT_LE(std::fabs(value_of(actual) - exact), error_in_u2 * kU * kU * std::fabs(exact)) << double(exact);
  ASSERT_EQ(actual.hi, actual.hi + actual.lo) << "hi is the rounded sum";
}

TEST(Pairs, EveryOperationIsWithinItsError) {
  Numbers numbers;
  for (int i = 0; i < 200000; ++i) {
    const float x = numbers.next();
    const FloatPair a = numbers.next_pair(), b = numbers.next_pair();
    expect_within(0, two_sum(a.hi, x), Wide(a.hi) + x);
    expect_within(0, two_product(a.hi, x), Wide(a.hi) * x);
    expect_within(2, plus(a, x), value_of(a) + x);
    expect_within(3 * (1 + 5 * kU), plus_pair(a, b), value_of(a) + value_of(b));
    expect_within(2, times(a, x), value_of(a) * x);
    expect_within(16, quotient(a, b), value_of(a) / value_of(b));
    const FloatPair square = two_product(x, x);
    ASSERT_EQ(root_of(square), std::fabs(x));
    const FloatPair positive = a.hi < 0 ? pair_of(-a.hi, -a.lo) : a;
    const Wide root = std::sqrt(value_of(positive));
    ASSERT_LE(std::fabs(root_of(positive) - root), kU * (1 + 5 * kU) * root);
  }
  for (const int64_t n : {int64_t(1), int64_t(16777217), int64_t(4294967295), (int64_t(1) << 48) - 1})
    EXPECT_EQ(value_of(pair_of_int(n)), Wide(n));
}

// A million terms: 3u^2 of the sum of magnitudes for each, where a float's sum loses half its digits.
TEST(Pairs, LongSums) {
  constexpr int kTerms = 1000000;
  for (const int sign : {1, -1}) {
    FloatPair sum = pair_of(0, 0);
    float in_floats = 0;
    Wide exact = 0, magnitudes = 0;
    for (int i = 1; i <= kTerms; ++i) {
      const float x = (i % 2 ? 1.0f : float(sign)) / float(i);
      sum = plus(sum, x), in_floats += x, exact += x, magnitudes += std::fabs(x);
    }
    EXPECT_LE(std::fabs(value_of(sum) - exact), 2 * kU * kU * kTerms * magnitudes);
    EXPECT_LE(std::fabs(sum.hi - exact), kU * 1.01L * std::fabs(exact));
    EXPECT_GT(std::fabs(in_floats - exact), 4 * kU * exact);
  }
}

TEST(Pairs, WhatIsNotFiniteIsAsWithFloats) {
  const FloatPair one = pair_of(1, 0x1p-30f), inf = plus(one, kInf);
  EXPECT_EQ(inf.hi, kInf);
  EXPECT_EQ(plus(plus(inf, 1), -kMost).hi, kInf);
  EXPECT_EQ(plus_pair(one, plus_pair(inf, one)).hi, kInf);
  EXPECT_TRUE(std::isnan(plus(inf, -kInf).hi));
  EXPECT_TRUE(std::isnan(plus_pair(inf, pair_of(-kInf, 0)).hi));
  EXPECT_EQ(plus(pair_of(kMost, 0), kMost).hi, kInf);
  EXPECT_EQ(times(times(pair_of(kMost, 0), -2), 3).hi, -kInf);
  EXPECT_EQ(quotient(inf, one).hi, kInf);
  EXPECT_EQ(quotient(one, inf).hi, 0);
  EXPECT_EQ(root_of(inf), kInf);
  EXPECT_TRUE(std::isnan(root_of(plus(one, NAN))));
  EXPECT_TRUE(std::isnan(plus(plus(one, NAN), 1).hi));
}

// Neither the range of floats nor the order of sizes matters to a sum of squares.
TEST(Pairs, SquaresOfAnySize) {
  const FlushDenormals as_on_a_gpu;
  constexpr float kSizes[] = {0, 0x1p-126f, 3e-30f, 1e-20f, 2e-12f, 0.7f, 3, 1e19f, 5e25f, kMost};
  for (const float first : kSizes)
    for (const float second : kSizes) {
      Squares sum = no_squares(), more = no_squares();
      Wide exact = 0;
      for (int i = 0; i < 300; ++i) {
        const float x = (i < 100 || i >= 200 ? first : second) * (1 - float(i) * 0x1p-10f) * (i % 3 ? 1.0f : -1.0f);
        if (std::fabs(x) < std::numeric_limits<float>::min()) continue;
        if (i < 150)
          sum = plus_square(sum, x);
        else
          more = plus_square(more, x);
        exact += Wide(x) * x;
      }
      sum = plus_squares(sum, more);
      EXPECT_LE(std::fabs(value_of(sum) - exact), 151 * 3 * kU * kU * exact) << first << " " << second;
      const Wide root = std::sqrt(exact);
      if (root <= kMost) {
        EXPECT_LE(std::fabs(root_of_squares(sum) - root), kU * 1.01L * root) << first << " " << second;
      } else {
        EXPECT_EQ(root_of_squares(sum), kInf);
      }
      for (const float x : {1.0f, 0.37f, 1e-18f, 1e20f}) {
        const Squares mean = mean_square(sum, 300, x);
        const Wide of_x = exact / 300 * x * x;
        EXPECT_LE(std::fabs(value_of(mean) - of_x), (151 * 3 + 20) * kU * kU * of_x) << first << " " << second;
        if (of_x >= 0x1p-100L && of_x < kMost) {
          EXPECT_LE(std::fabs(value_of(pair_of_squares(mean)) - of_x), 0x1p-36L * of_x) << first << " " << second;
        }
      }
    }
}

TEST(Pairs, SquaresThatAreNotFinite) {
  for (const float bad : {kInf, -kInf, float(NAN)}) {
    Squares sum = plus_square(plus_square(no_squares(), 3), bad);
    for (const float x : {1.0f, kMost, 0.0f}) sum = plus_square(sum, x);
    sum = plus_squares(plus_square(no_squares(), kMost), sum);
    EXPECT_EQ(std::isnan(root_of_squares(sum)), std::isnan(bad));
    EXPECT_FALSE(std::isfinite(root_of_squares(mean_square(sum, 5, 1e-30f))));
    EXPECT_FALSE(std::isfinite(pair_of_squares(mean_square(sum, 5, 1)).hi));
  }
  EXPECT_EQ(root_of_squares(no_squares()), 0);
  for (const float x : {1e25f, 3e30f, 1.7e38f, kMost})
    EXPECT_EQ(plus_pair(pair_of_squares(plus_square(no_squares(), x)), pair_of(-1, 0)).hi, kInf) << x;
}

}  // namespace
}  // namespace toy::gpu::pairs_test
