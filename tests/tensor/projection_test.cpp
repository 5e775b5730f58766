// Long tables times small matrices, and principal components.
#include "toy/tensor/projection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/tensor/convert.h"

namespace toy {
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

}  // namespace
}  // namespace toy
