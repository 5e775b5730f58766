#include "toy/formats/dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "toy/base/error.h"

namespace toy::gguf {
namespace {

struct Q8_0 {
  std::vector<std::byte> bytes;
  TensorInfo info;
  explicit Q8_0(const std::vector<uint16_t>& scales) : bytes(scales.size() * 34) {
    for (size_t b = 0; b < scales.size(); ++b) {
      std::memcpy(&bytes[b * 34], &scales[b], 2);
      for (size_t i = 0; i < 32; ++i) bytes[b * 34 + 2 + i] = std::byte(uint8_t(quantum(b, i)));
    }
    info = {.name = "w", .ggml_type = 8, .type_name = "Q8_0", .shape = {int64_t(scales.size()), 32}};
    info.data = bytes.data(), info.bytes = bytes.size();
  }
  static int8_t quantum(size_t b, size_t i) { return int8_t(int(b * 32 + i * 8) % 256 - 128); }
};

// Scale times quantum in f64 is what f32 holds: every product is exact. Zero, subnormal, negative and largest scales.
TEST(Dequantize, Q8_0IsExact) {
  const std::vector<uint16_t> scales{0x3c00, 0x0000, 0x8000, 0x0001, 0x83ff, 0x7bff, 0xfbff, 0x2e66, 0xb555};
  const Q8_0 q(scales);
  std::vector<float> values(scales.size() * 32);
  dequantize(q.info, values);
  for (size_t b = 0; b < scales.size(); ++b)
    for (size_t i = 0; i < 32; ++i) {
      const double exact = double(to_float(F16{scales[b]})) * double(Q8_0::quantum(b, i));
      EXPECT_EQ(double(values[b * 32 + i]), exact) << b << " " << i;
      EXPECT_EQ(std::signbit(values[b * 32 + i]), std::signbit(exact)) << b << " " << i;
    }
}

TEST(Dequantize, ScalesThatAreNotFiniteAreRefused) {
  for (const uint16_t bad : {0x7c00, 0xfc00, 0x7e00}) {
    const Q8_0 q({0x3c00, bad});
    std::vector<float> values(64);
    EXPECT_THROW(dequantize(q.info, values), Error);
  }
}

}  // namespace
}  // namespace toy::gguf
