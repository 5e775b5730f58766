// Element types, shapes, views, buffers, conversions.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "testing/errors.h"
#include "toy/base/error.h"
#include "toy/tensor/buffer.h"
#include "toy/tensor/convert.h"

namespace toy::tensor_test {
namespace {

using testing::error_of;

// Every 16-bit pattern survives the way to f32 and back.
TEST(Half, EveryPatternRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const F16 h{uint16_t(bits)};
    const float f = to_float(h);
    if (std::isnan(f))
      EXPECT_TRUE(std::isnan(to_float(to_f16(f))));
    else
      EXPECT_EQ(to_f16(f).bits, h.bits) << bits;
    const BF16 b{uint16_t(bits)};
    const float g = to_float(b);
    if (std::isnan(g))
      EXPECT_TRUE(std::isnan(to_float(to_bf16(g))));
    else
      EXPECT_EQ(to_bf16(g).bits, b.bits) << bits;
  }
}

// Between two neighbours the nearer one is taken, and the even one in the middle.
TEST(Half, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = to_float(F16{uint16_t(bits)}), high = to_float(F16{uint16_t(bits + 1)}),
                 middle = (low + high) / 2;
    EXPECT_EQ(to_f16(float(middle)).bits, bits + (bits & 1)) << bits;
    EXPECT_EQ(to_f16(std::nextafter(float(middle), 0.0f)).bits, bits) << bits;
    EXPECT_EQ(to_f16(std::nextafter(float(middle), 1e9f)).bits, bits + 1) << bits;
  }
  EXPECT_EQ(to_f16(65519.99f).bits, 0x7bff);
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7c00);
  for (uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const float middle = std::bit_cast<float>((bits << 16) | 0x8000u);
    EXPECT_EQ(to_bf16(middle).bits, bits + (bits & 1)) << bits;
    EXPECT_EQ(to_bf16(std::nextafter(middle, 0.0f)).bits, bits) << bits;
  }
}

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ(Shape({2, 3, 4}).count(), 24);
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(Shape({2, 3}).str(), "[2,3]");
  EXPECT_EQ(Shape({2, 3, 4}).back(), 4);
  EXPECT_THROW(Shape({1, 2, 3, 4, 5, 6}), Error);
}

TEST(View, KnowsItsLayout) {
  float data[24] = {};
  View v(data, DType::f32, {4, 6});
  EXPECT_TRUE(v.contiguous());
  v.shape[1] = 3;  // the left half of each row
  EXPECT_FALSE(v.contiguous());
  EXPECT_TRUE(v.rows_contiguous());
  std::swap(v.stride[0], v.stride[1]);
  EXPECT_FALSE(v.rows_contiguous());
}

TEST(DType, QuantizedRowsAreWholeBlocks) {
  EXPECT_EQ(bytes_of(DType::q4_k, Shape{3, 512}), 3u * 2 * 144);
  EXPECT_EQ(bytes_of(DType::q8_0, Shape{0, 32}), 0u);
  EXPECT_EQ(View(nullptr, DType::mxfp4, {2, 3, 64}).bytes(), 2u * 3 * 2 * 17);
  EXPECT_EQ(View(nullptr, DType::bf16, {2, 3}).bytes(), 12u);
  EXPECT_EQ(error_of([] {
              View(nullptr, DType::q6_k, {256, 128});
            }),
            "a view: row length 128 is not a multiple of 256, the block size of q6_k");
  EXPECT_THROW(bytes_of(DType::q4_0, Shape{}), Error);
  EXPECT_EQ(error_of([] { size_of(DType::q8_0); }), "q8_0: a quantized type has no elements of a size");
  for (const DTypeInfo& t : kDTypes) EXPECT_EQ(is_quantized(t.type), t.block > 1) << t.name;
}

TEST(Convert, StridedAndBetweenTypes) {
  double data[6] = {0, 1, 2, 3, 4, 5};
  View v(data, DType::f64, {3, 2});
  std::swap(v.stride[0], v.stride[1]);
  v.stride = {1, 3};
  float out[6];
  convert(v, View(out, DType::f32, {3, 2}));
  const float expected[6] = {0, 3, 1, 4, 2, 5};
  EXPECT_EQ(std::memcmp(out, expected, sizeof out), 0);
  EXPECT_THROW(convert(v, View(out, DType::f32, {2, 3})), Error);
}

TEST(Buffer, IsAlignedZeroedAndMovable) {
  for (const size_t bytes : {size_t(0), size_t(1), size_t(100), size_t(5) << 20}) {
    Buffer a(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
    for (size_t i = 0; i < bytes; i += 997) EXPECT_EQ(a.data()[i], std::byte(0));
    const std::byte* p = a.data();
    Buffer b = std::move(a);
    EXPECT_EQ(b.data(), p);
    EXPECT_EQ(b.bytes(), bytes);
  }
}

}  // namespace
}  // namespace toy::tensor_test
