// Long tables times small matrices, and principal components.
#include "toy/tensor/projection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/tensor/convert.h"

namespace toy::projection_test {
namespace {

std::vector<float> normal(const char* name, size_t n) {
  const Philox random(1, name);
  std::vector<float> v;
  for (size_t i = 0; i < n; ++i) v.push_back(float(random.normal(i)));
  return v;
}

TEST(ProjectRows, IsAProductInEveryType) {
  constexpr int64_t kRows = 150, kColumns = 64, kOutputs = 5;
  std::vector<float> table = normal("table", kRows * kColumns);
  const std::vector<float> w = normal("w", kOutputs * kColumns);
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    std::vector<std::byte> stored(bytes_of(type, kRows * kColumns));
    const View view(stored.data(), type, {kRows, kColumns});
    convert(View(table.data(), DType::f32, {kRows, kColumns}), view);
    std::vector<float> values(table.size());
    convert(view, View(values.data(), DType::f32, {kRows, kColumns}));
    std::vector<std::vector<float>> all;
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      std::vector<float>& out = all.emplace_back(size_t(kRows * kOutputs));
      project_rows(view, 0, w, out, pool);
    }
    EXPECT_EQ(all[0], all[1]);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t o = 0; o < kOutputs; ++o) {
        double sum = 0, size = 0;
        for (int64_t c = 0; c < kColumns; ++c) {
          const double term = double(values[size_t(r * kColumns + c)]) * double(w[size_t(o * kColumns + c)]);
          sum += term, size += std::abs(term);
        }
        // One rounding to f32, and 64 of f64.
        EXPECT_NEAR(all[0][size_t(r * kOutputs + o)], sum, 0x1p-24 * std::abs(sum) + 64 * 0x1p-53 * size);
      }
    ThreadPool pool(2);
    std::vector<float> some(7 * kOutputs);  // from the middle of a block on
    project_rows(view, 91, w, some, pool);
    EXPECT_EQ(some, std::vector<float>(all[0].begin() + 91 * kOutputs, all[0].begin() + 98 * kOutputs));
  }
}

TEST(PrincipalComponents, AreEigenvectorsOfTheCovariance) {
  constexpr int64_t kRows = 300, kColumns = 70, kCount = 6;
  std::vector<float> table = normal("rows", kRows * kColumns);
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = 3 + table[i] * float(std::pow(0.8, double(i % kColumns))) + (i % kColumns > 0 ? table[i - 1] / 2 : 0);
  const View view(table.data(), DType::f32, {kRows, kColumns});
  ThreadPool one(1), three(3);
  const std::vector<float> v = principal_components(view, kCount, one);
  EXPECT_EQ(principal_components(view, kCount, three), v);
  std::vector<double> mean(kColumns), spread;
  for (size_t i = 0; i < table.size(); ++i) mean[i % kColumns] += double(table[i]) / kRows;
  double all = 0;
  for (size_t i = 0; i < table.size(); ++i) all += std::pow(double(table[i]) - mean[i % kColumns], 2);
  for (int64_t k = 0; k < kCount; ++k) {
    const float* d = v.data() + k * kColumns;
    // C d = l d, with C d = sum over rows of (x - m) ((x - m) d).
    std::vector<double> cd(kColumns);
    for (int64_t r = 0; r < kRows; ++r) {
      double along = 0;
      for (int64_t c = 0; c < kColumns; ++c)
        along += (double(table[size_t(r * kColumns + c)]) - mean[size_t(c)]) * d[c];
      for (int64_t c = 0; c < kColumns; ++c)
        cd[size_t(c)] += along * (double(table[size_t(r * kColumns + c)]) - mean[size_t(c)]);
    }
    double length = 0, value = 0, largest = 0, most = 0;
    for (int64_t c = 0; c < kColumns; ++c) length += double(d[c]) * d[c], value += cd[size_t(c)] * d[c];
    for (int64_t c = 0; c < kColumns; ++c) {
      EXPECT_NEAR(cd[size_t(c)], value * d[c], 4 * 0x1p-24 * all) << k;  // d is rounded to f32
      if (std::abs(d[c]) > largest) largest = std::abs(d[c]), most = d[c];
    }
    EXPECT_NEAR(length, 1, 1e-6);
    EXPECT_GT(most, 0);
    spread.push_back(value);
  }
  EXPECT_TRUE(std::is_sorted(spread.rbegin(), spread.rend()));
  EXPECT_GT(spread.front(), 2 * spread.back());
}

TEST(PrincipalComponents, RefusesWhatCannotBe) {
  ThreadPool pool(1);
  std::vector<float> table = normal("x", 40);
  const View view(table.data(), DType::f32, {10, 4});
  EXPECT_THROW(principal_components(view, 5, pool), Error);
  table[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(principal_components(view, 2, pool), Error);
}

// w = u diag(sigma) v^T with sigma known: what is left has the other singular values, whatever the vectors are.
TEST(BestLowRank, LeavesTheSmallSingularValues) {
  constexpr int64_t kRows = 90, kColumns = 70, kRank = 6;
  // Reflections are orthogonal, so entries are u_ij = [i=j] - 2 x_i x_j / |x|^2.
  const auto reflection = [](const char* name, int64_t n) {
    std::vector<double> x;
    double square = 0;
    for (const float v : normal(name, size_t(n))) x.push_back(v), square += double(v) * v;
    return [x, square](int64_t i, int64_t j) { return (i == j) - 2 * x[size_t(i)] * x[size_t(j)] / square; };
  };
  const auto u = reflection("u", kRows), v = reflection("v", kColumns);
  const auto sigma = [](int64_t k) { return 4 * std::pow(0.8, double(k)); };
  std::vector<float> w(kRows * kColumns);
  double least = 0, square = 0;  // squares of what the best of rank 6 leaves, and of all
  for (int64_t k = 0; k < kColumns; ++k) {
    square += sigma(k) * sigma(k);
    if (k >= kRank) least += sigma(k) * sigma(k);
    for (int64_t o = 0; o < kRows; ++o)
      for (int64_t i = 0; i < kColumns; ++i) w[size_t(o * kColumns + i)] += float(sigma(k) * u(o, k) * v(i, k));
  }
  std::vector<LowRank> all;
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    all.push_back(best_low_rank(w, kColumns, kRank, 2, Philox(1), pool));
  }
  EXPECT_EQ(all[0].a, all[1].a);
  EXPECT_EQ(all[0].b, all[1].b);
  const auto& [a, b] = all[0];
  double left = 0;
  for (int64_t o = 0; o < kRows; ++o)
    for (int64_t i = 0; i < kColumns; ++i) {
      double rest = w[size_t(o * kColumns + i)];
      for (int64_t r = 0; r < kRank; ++r)
        rest -= 2 * double(b[size_t(o * kRank + r)]) * double(a[size_t(r * kColumns + i)]);
      left += rest * rest;
    }
  // What the iteration misses falls by 0.8^8 in each of eight products, twice in squares; f32 entries of w and ba add
  // 2^-24 each.
  EXPECT_NEAR(left, least, square * (std::pow(0.8, 2 * 8 * 8) + 0x1p-20));
  for (int64_t r = 0; r < kRank; ++r) {  // both share the root of sigma / 2
    double of_a = 0, of_b = 0;
    for (int64_t i = 0; i < kColumns; ++i) of_a += std::pow(a[size_t(r * kColumns + i)], 2);
    for (int64_t o = 0; o < kRows; ++o) of_b += std::pow(b[size_t(o * kRank + r)], 2);
    EXPECT_NEAR(of_a, sigma(r) / 2, 1e-5);
    EXPECT_NEAR(of_b, sigma(r) / 2, 1e-5);
  }
}

TEST(BestLowRank, OfLittleAndOfBadMatrices) {
  ThreadPool pool(2);
  // Of rank 1, asked for 2; nothing is left.
  std::vector<float> w;
  for (int o = 1; o <= 3; ++o)
    for (int i = 1; i <= 4; ++i) w.push_back(float(o * i));
  const auto [a, b] = best_low_rank(w, 4, 2, 1, Philox(1), pool);
  for (size_t o = 0; o < 3; ++o)
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(b[o * 2] * a[i] + b[o * 2 + 1] * a[4 + i], w[o * 4 + i], 1e-5);
  const LowRank none = best_low_rank(std::vector<float>(12), 4, 2, 1, Philox(1), pool);
  for (const auto* part : {&none.a, &none.b})
    for (const float v : *part) EXPECT_EQ(v, 0);
  EXPECT_THROW(best_low_rank(w, 4, 4, 1, Philox(1), pool), Error);
  w[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(best_low_rank(w, 4, 2, 1, Philox(1), pool), Error);
}

}  // namespace
}  // namespace toy::projection_test
