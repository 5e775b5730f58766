// Quantized types against gguf-py and llama.cpp: tests/golden/make_quant_golden.py made the files and says what they
// hold.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "toy/formats/gguf.h"
#include "toy/tensor/quantize.h"

namespace toy::quant_golden_test {
namespace {

const std::string kFolder = std::string(TOY_SOURCE_DIR) + "/tests/golden/";

std::vector<DTypeInfo> quantized_types() {
  std::vector<DTypeInfo> types;
  for (const DTypeInfo& t : kDTypes)
    if (is_quantized(t.type)) types.push_back(t);
  return types;
}

class QuantGolden : public ::testing::TestWithParam<DTypeInfo> {
 protected:
  const DTypeInfo type = GetParam();
  const std::string name{gguf::type_name(type.type)};
};

// Random blocks, and scales that are infinite, no number, zero or subnormal.
TEST_P(QuantGolden, ValuesHaveTheBitsOfGgufPy) {
  const gguf::File file = gguf::File::open(kFolder + "quant.golden.gguf");
  const gguf::TensorInfo& blocks = file.require(name + ".blocks");
  ASSERT_EQ(blocks.dtype, type.type);
  std::vector<float> values(size_t(blocks.shape.count())), expected(values.size());
  ASSERT_EQ(file.require(name + ".values").bytes, expected.size() * 4);
  std::memcpy(expected.data(), file.require(name + ".values").data, expected.size() * 4);
  dequantize(type.type, blocks.data, values);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(values[i])) << i;
    else
      EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected[i]))
          << i << ": " << values[i] << " is not " << expected[i];
  }
}

// The scripts' inputs.
std::vector<double> normal(uint64_t stream, size_t n) {
  std::vector<double> out(n);
  for (size_t k = 0; k < n; ++k) {
    int64_t sum = 0;
    for (uint64_t i = 0; i < 3; ++i) {
      uint64_t z = stream + i + (k + 1) * 0x9E3779B97F4A7C15;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
      z ^= z >> 31;
      for (int s = 0; s < 64; s += 16) sum += int64_t(z >> s & 0xFFFF);
    }
    out[k] = double(sum - 6 * 65535) / 65536;
  }
  return out;
}

std::vector<float> inputs(const std::string& kind, size_t n) {
  const uint64_t number = kind == "normal" ? 0 : kind == "heavy" ? 1 : 2;
  std::vector<float> out(n);
  const std::vector<double> x = normal(1000 + 100 * number, n);
  for (size_t i = 0; i < n; ++i) {
    const double v = number == 0 ? x[i] : number == 1 ? x[i] * std::fabs(x[i]) * x[i] : x[i] * 0.25 + 0.125;
    out[i] = float(v / 16);
  }
  return out;
}

// No worse than llama.cpp on any kind of values, with and without importance.
TEST_P(QuantGolden, ErrorsAreBelowThoseOfLlamaCpp) {
  const auto golden = nlohmann::json::parse(std::ifstream(kFolder + "quant_errors.golden.json"));
  const size_t rows = golden["rows"], columns = golden["columns"];
  std::vector<float> importance(columns);
  const std::vector<double> x = normal(5000, columns);
  for (size_t i = 0; i < columns; ++i) importance[i] = float(x[i] * x[i] * x[i] * x[i] + 1.0 / 64);
  for (const auto& [kind, theirs] : golden["errors"][name].items()) {
    const std::vector<float> values = inputs(kind, rows * columns);
    std::vector<std::byte> blocks(bytes_of(type.type, int64_t(values.size())));
    std::vector<float> back(values.size());
    for (const bool weighted : {false, true}) {
      quantize(type.type, values, weighted ? std::span<const float>(importance) : std::span<const float>(),
               blocks.data());
      dequantize(type.type, blocks.data(), back);
      double error = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        const double off = double(back[i]) - double(values[i]);
        error += off * off * (weighted ? double(importance[i % columns]) : 1.0);
      }
      const double ratio = error / theirs[weighted].get<double>();
      RecordProperty(kind + (weighted ? "_weighted" : ""), std::to_string(ratio));
      EXPECT_LT(ratio, 1) << kind << (weighted ? " with importance" : "");
      EXPECT_GT(ratio, 0.3) << "the inputs are not the script's";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, QuantGolden, ::testing::ValuesIn(quantized_types()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace toy::quant_golden_test
