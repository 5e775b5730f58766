// What holds for every quantized type. tests/formats/quant_golden_test.cpp compares with other programs.
#include "toy/tensor/quantize.h"

#include <gtest/gtest.h>

#include "backend/cpu/simd_targets.h"  // first

#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "testing/errors.h"
#include "toy/base/error.h"
#include "toy/tensor/convert.h"

namespace toy::quantize_test {
namespace {

using testing::error_of;
using testing::expect_contains;

std::vector<DTypeInfo> quantized_types() {
  std::vector<DTypeInfo> types;
  for (const DTypeInfo& t : kDTypes)
    if (is_quantized(t.type)) types.push_back(t);
  return types;
}

std::vector<float> normal(size_t n, float scale) {
  std::mt19937 random(7);
  std::vector<float> out(n);
  for (float& v : out) {  // no std::normal_distribution: libraries differ
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += double(random()) / 4294967296.0;
    v = float(sum) * scale;
  }
  return out;
}

double squared_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double(a[i]) - double(b[i]), 2);
  return sum;
}

class Quantize : public ::testing::TestWithParam<DTypeInfo> {
 protected:
  const DType type = GetParam().type;
  const size_t block = GetParam().block;

  std::vector<std::byte> blocks_of(const std::vector<float>& values, std::span<const float> importance = {}) const {
    std::vector<std::byte> blocks(bytes_of(type, int64_t(values.size())));
    quantize(type, values, importance, blocks.data());
    EXPECT_EQ(find_broken_block(type, blocks.data(), int64_t(values.size() / block)), -1);
    return blocks;
  }
  std::vector<float> values_of(const std::vector<std::byte>& blocks) const {
    std::vector<float> values(blocks.size() / GetParam().bytes * block);
    dequantize(type, blocks.data(), values);
    return values;
  }
  std::vector<float> there_and_back(const std::vector<float>& values) const { return values_of(blocks_of(values)); }
};

TEST_P(Quantize, ZerosAndWhatIsSmallerThanAnyValue) {
  for (const float v : {0.0f, -0.0f, 0x1p-140f, -0x1p-140f})
    for (const float got : there_and_back(std::vector<float>(2 * block, v))) EXPECT_LE(std::fabs(got), std::fabs(v));
  if (type == DType::mxfp4) return;
  for (const float got : there_and_back(std::vector<float>(block, 0x1p-40f))) EXPECT_EQ(got, 0);
}

// A half is rounded by 2^-11, or, if it is subnormal, by 2^-25, of which a value has up to 128 * 32. But mxfp4 has only
// powers of two and one and a half of them.
TEST_P(Quantize, ConstantRows) {
  for (const float v : {1.0f, -1.0f, 0.0123f, -37.77f}) {
    const double relative = type == DType::mxfp4 ? 0.2 : 0x1p-11, absolute = block == 256 ? 0x1p-25 * 4096 : 0;
    for (const float got : there_and_back(std::vector<float>(2 * block, v)))
      EXPECT_LE(std::fabs(double(got) - double(v)), std::max(relative * std::fabs(double(v)), absolute));
  }
}

// A power of two goes into the scales, as long as these are normal halves.
TEST_P(Quantize, FollowsPowersOfTwo) {
  const std::vector<float> values = normal(2048, 1), expected = there_and_back(values);
  for (const int power : {-3, 5}) {
    std::vector<float> scaled(values);
    for (float& v : scaled) v = std::ldexp(v, power);
    const std::vector<float> got = there_and_back(scaled);
    size_t different = 0;
    for (size_t i = 0; i < got.size(); ++i) different += got[i] != std::ldexp(expected[i], power);
    EXPECT_EQ(different, 0u) << power;
  }
}

// Scales that are subnormal halves have few bits: then others are chosen, and the error stays in proportion.
TEST_P(Quantize, SmallValuesLoseLittle) {
  const auto relative_error = [&](float scale) {
    const std::vector<float> values = normal(4096, scale);
    return squared_distance(there_and_back(values), values) / squared_distance(values, std::vector<float>(4096));
  };
  const bool nested = block == 256;  // d is a 63rd or a 128th of the scale of a run
  EXPECT_LT(relative_error(nested ? 1e-2f : 1e-3f), 1.1 * relative_error(1));
}

// What a block can hold is found again: for one scale exactly, for scales of scales nearly.
TEST_P(Quantize, TwiceIsAsOnce) {
  const std::vector<float> values = normal(8192, 0.05f), once = there_and_back(values), twice = there_and_back(once);
  if (block == 32) {
    EXPECT_EQ(twice, once);
  } else {
    EXPECT_LT(squared_distance(twice, once), 0.1 * squared_distance(once, values));
  }
}

// One half more would be infinite, or larger than a float.
TEST_P(Quantize, LargestValues) {
  const float largest = type == DType::mxfp4 ? 12 * 0x1p124f : 65504;
  const std::vector<float> got = there_and_back(std::vector<float>(block, -largest));
  for (const float v : got) EXPECT_NEAR(v, -largest, largest * 0x1p-11);
}

TEST_P(Quantize, ImportantColumnsAreCloser) {
  constexpr size_t kColumns = 512;
  const std::vector<float> values = normal(16 * kColumns, 0.05f);
  std::vector<float> importance(kColumns, 1);
  for (size_t i = 0; i < kColumns; i += 5) importance[i] = 30;
  const auto error_with = [&](std::span<const float> used) {
    const std::vector<float> got = values_of(blocks_of(values, used));
    double error = 0;
    for (size_t i = 0; i < values.size(); ++i)
      error += double(importance[i % kColumns]) * std::pow(double(got[i]) - double(values[i]), 2);
    return error;
  };
  EXPECT_LT(error_with(importance), 0.97 * error_with({}));
  // Only their ratios matter, and columns without any are not arbitrary.
  std::vector<float> scaled(importance), some(importance);
  for (float& v : scaled) v *= 0x1p-30f;
  EXPECT_EQ(blocks_of(values, scaled), blocks_of(values, importance));
  for (float& v : some) v = v > 1 ? v : 0;
  const std::vector<float> got = values_of(blocks_of(values, some));
  for (size_t i = 0; i < values.size(); ++i) EXPECT_LT(std::fabs(got[i] - values[i]), 0.25f) << i;
  EXPECT_EQ(blocks_of(values, std::vector<float>(kColumns, 0)), blocks_of(values, std::vector<float>(kColumns, 1)));
}

// Without importance errors of large values count more, or, in the levels of IQ4_NL, large values are hardly clipped.
// Even importance leaves larger errors of theirs.
TEST_P(Quantize, LargeValuesAreCloser) {
  const std::vector<float> values = normal(64 * block, 0.05f);
  double error = 0, error_evenly = 0;        // squares, weighed as quantize() does
  double of_large = 0, of_large_evenly = 0;  // weighed by the square of the value
  for (size_t i = 0; i < values.size(); i += block) {
    const std::vector<float> x(values.begin() + long(i), values.begin() + long(i + block));
    const double mean = squared_distance(x, std::vector<float>(block)) / double(block);
    const std::vector<float> got = there_and_back(x), evenly = values_of(blocks_of(x, std::vector<float>(block, 1)));
    for (size_t j = 0; j < block; ++j) {
      const double square = double(x[j]) * double(x[j]) / mean, weight = std::sqrt(1 + square);
      const double off = std::pow(double(got[j]) - double(x[j]), 2),
                   off_evenly = std::pow(double(evenly[j]) - double(x[j]), 2);
      error += weight * off, error_evenly += weight * off_evenly;
      of_large += square * off, of_large_evenly += square * off_evenly;
    }
  }
  RecordProperty("ratio", std::to_string(of_large / of_large_evenly));
  EXPECT_LT(of_large, of_large_evenly);
  // IQ4_NL and IQ4_XS clip less without importance, whatever it costs in squares.
  if (type != DType::iq4_nl && type != DType::iq4_xs) EXPECT_LE(error, error_evenly);
}

TEST_P(Quantize, RefusesWhatCannotBeStored) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(512, 1);
  std::vector<std::byte> blocks(bytes_of(type, 512));
  const auto error = [&](std::span<const float> importance) {
    return error_of([&] { quantize(type, values, importance, blocks.data()); });
  };
  for (const float bad : {-1.0f, kNan, kInfinity}) {
    std::vector<float> importance(512, 1);
    importance[3] = bad;
    expect_contains(error(importance), "quantize: the importance of column 3 is");
  }
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    values[300] = bad;
    expect_contains(error({}), "quantize: value 300 is ");
  }
  for (const float huge : {1e12f, std::numeric_limits<float>::max()}) {
    values[300] = -huge;
    if (type != DType::mxfp4)
      expect_contains(error({}), "is too large for " + std::string(name_of(type)));
    else
      for (const float v : there_and_back(values)) EXPECT_TRUE(std::isfinite(v));
  }
}

TEST_P(Quantize, FindsBrokenBlocks) {
  std::vector<std::byte> blocks = blocks_of(normal(4 * block, 1));
  const size_t bytes = GetParam().bytes;
  // Of both halves, where there are two; an exponent is the first byte.
  std::vector<size_t> at{0};
  if (type == DType::q2_k) at = {80, 82};
  if (type == DType::q3_k || type == DType::q6_k) at = {bytes - 2};
  if (type == DType::q4_k || type == DType::q5_k || type == DType::q4_1 || type == DType::q5_1) at = {0, 2};
  for (const size_t offset : at)
    for (const uint16_t bad : {0x7c00, 0xfc00, 0x7e01}) {
      std::vector<std::byte> broken = blocks;
      std::memcpy(&broken[2 * bytes + offset], &bad, 2);
      if (type == DType::mxfp4) broken[2 * bytes] = std::byte(255);
      EXPECT_EQ(find_broken_block(type, broken.data(), 4), 2);
      EXPECT_EQ(find_broken_block(type, broken.data() + 3 * bytes, 1), -1);
    }
}

TEST_P(Quantize, ConvertGoesByWayOfF32) {
  const std::vector<float> values = normal(3 * 5120, 0.05f);  // more than one piece
  const Shape shape{3, 5120};
  std::vector<std::byte> blocks(bytes_of(type, shape));
  convert(View(const_cast<float*>(values.data()), DType::f32, shape), View(blocks.data(), type, shape));
  EXPECT_EQ(blocks, blocks_of(values));
  const View quantized(blocks.data(), type, shape);
  std::vector<float> f32(values.size());
  std::vector<double> f64(values.size());
  convert(quantized, View(f32.data(), DType::f32, shape));
  convert(quantized, View(f64.data(), DType::f64, shape));
  EXPECT_EQ(f32, values_of(blocks));
  for (const size_t i : {size_t(0), block - 1, block, values.size() - 1}) {
    EXPECT_EQ(element(quantized, int64_t(i)), double(f32[i]));
    EXPECT_EQ(f64[i], double(f32[i]));
  }
}

// Lanes are of one trial, so the width of vectors changes nothing, and no product is fused with a sum.
TEST_P(Quantize, SameBitsOnEveryInstructionSet) {
  const std::vector<float> values = normal(4096, 0.05f);
  const std::vector<std::byte> expected = blocks_of(values);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    EXPECT_EQ(blocks_of(values), expected) << hwy::TargetName(target);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

INSTANTIATE_TEST_SUITE_P(Types, Quantize, ::testing::ValuesIn(quantized_types()),
                         [](const auto& test) { return std::string(test.param.name); });

// One pass: the nearest level of each value for the scale that the largest magnitude needs.
TEST(RoundQ8, NearestLevels) {
  float x[32] = {};
  int8_t level[32];
  x[3] = -2, x[4] = 1, x[5] = 0.01f, x[6] = 0.0074f;
  const float scale = to_float(round_q8_0(x, level));
  EXPECT_EQ(scale, to_float(to_f16(2.0f / 127)));
  for (int i = 0; i < 32; ++i) EXPECT_LE(std::fabs(x[i] - scale * float(level[i])), scale / 2 + 127 * scale * 0x1p-11f);
  EXPECT_EQ(level[3], -127);
  EXPECT_EQ(level[4], 64);  // 1 / scale is 63.504
  EXPECT_EQ(level[5], 1);
  EXPECT_EQ(level[6], 0);
  for (float& v : x) v *= 0x1p-40f;  // the scale is 0
  EXPECT_EQ(round_q8_0(x, level).bits, 0);
  EXPECT_EQ(level[3], 0);
  for (float& v : x) v = 0x1p-24f * 127.3f;  // the scale is 2^-24, levels end at 127
  EXPECT_EQ(to_float(round_q8_0(x, level)), 0x1p-24f);
  EXPECT_EQ(level[9], 127);
  for (const float bad : {INFINITY, NAN, 8.4e6f}) {
    x[30] = bad;
    EXPECT_TRUE(std::isnan(to_float(round_q8_0(x, level)))) << bad;
  }
}

}  // namespace
}  // namespace toy::quantize_test
