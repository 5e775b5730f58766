#include "toy/base/philox.h"

#include <gtest/gtest.h>

namespace toy::philox_test {
namespace {

// Known answers that its authors publish for philox4x32-10 (the Random123 distribution, kat_vectors).
TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32(~0ull, ~0ull, ~0ull), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(0x299f31d0a4093822ull, 0x85a308d3243f6a88ull, 0x0370734413198a2eull),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DrawsDependOnSeedNameAndIndexAlone) {
  const Philox a(1, "x"), b(1, "x"), c(2, "x"), d(1, "y");
  int same_seed = 0, same_name = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(a.uniform(i), b.uniform(i));
    same_seed += a.uniform(i) == c.uniform(i);
    same_name += a.uniform(i) == d.uniform(i);
  }
  EXPECT_EQ(same_seed + same_name, 0);
}

TEST(Philox, MomentsAreRight) {
  const Philox r(3, "moments");
  const int n = 200000;
  double mean = 0, square = 0, uniform = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double x = r.normal(i);
    mean += x / n;
    square += x * x / n;
    uniform += r.uniform(i) / n;
    ASSERT_LT(r.below(i, 7), 7u);
  }
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(double(n)));  // 5 sigma
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2.0 / n));  // variance of x^2 is 2
  EXPECT_NEAR(uniform, 0.5, 5 * std::sqrt(1.0 / 12.0 / n));
}

}  // namespace
}  // namespace toy::philox_test
