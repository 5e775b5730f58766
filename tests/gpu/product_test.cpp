// Products: all kernels give an element the same bits, whatever the tile, the rows beside it, and how operands lie.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/gpu/emulated/emulated_driver.h"
#include "backend/gpu/gpu_device.h"
#include "backend/gpu/launches.h"
#include "toy/tensor/convert.h"
#include "toy/tensor/quantize.h"

namespace toy::gpu::product_test {
namespace {

class Memory {
 public:
  explicit Memory(Driver& driver) : driver_(driver) {}
  ~Memory() {
    for (void* m : all_) driver_.release(m);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* bytes(size_t n) { return all_.emplace_back(driver_.allocate(n)); }
  float* floats(std::span<const float> values) {
    void* const m = bytes(values.size_bytes());
    driver_.upload(m, values.data(), values.size_bytes());
    return static_cast<float*>(m);
  }
  void* in_bf16(std::span<const float> values) {
    std::vector<BF16> rounded;
    for (const float f : values) rounded.push_back(to_bf16(f));
    void* const m = bytes(rounded.size() * sizeof(BF16));
    driver_.upload(m, rounded.data(), rounded.size() * sizeof(BF16));
    return m;
  }

 private:
  Driver& driver_;
  std::vector<void*> all_;
};

std::vector<float> numbers(size_t n, uint32_t seed) {
  std::vector<float> v(n);
  for (float& x : v) x = float(int32_t((seed = seed * 1664525u + 1013904223u) >> 8) % 2001 - 1000) / 512;
  return v;
}

// c = a b^T by one kernel; a and b may be stored transposed.
std::vector<float> product(Driver& driver, Kernel kernel, int M, int N, int K, const void* a, bool a_turned, int a_type,
                           const void* b, bool b_turned, int type, int rounded = 0) {
  Memory memory(driver);
  void* const c = memory.bytes(size_t(M) * size_t(N) * sizeof(float));
  const int64 a_m = a_turned ? 1 : K, a_k = a_turned ? M : 1, b_k = b_turned ? N : 1, b_n = b_turned ? 1 : K;
  const Arg none = nullptr;
  Launch l{kernel, {}, {}};
  if (kernel == Kernel::product_few) {
    l.groups = {blocks(N, 8)}, l.args = {a, M, K, a_m, rounded};
    add_slots(l.args, {b, none, none, c, N, b_n, type}, kProductsOfFew);
  } else {
    const int tile = kernel == Kernel::product ? 64 : 128;
    l.groups = {blocks(N, tile), blocks(M, tile)};
    l.args = {a, b, none, none, c, M, N, K, a_m, a_k, b_k, b_n, a_type, type, rounded, Batch{{1, 1, 1}, {}, {}}};
  }
  driver.launch(l);
  std::vector<float> result(size_t(M) * size_t(N));
  driver.download(result.data(), c, result.size() * sizeof(float));
  return result;
}

std::vector<float> turned(std::span<const float> x, int rows, int columns) {
  std::vector<float> y(x.size());
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) y[size_t(j * rows + i)] = x[size_t(i * columns + j)];
  return y;
}

// k in blocks of 64, each one chain of fma; the blocks in order.
std::vector<float> in_order(std::span<const float> a, std::span<const float> b, int M, int N, int K) {
  std::vector<float> c;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float total = 0;
      for (int k0 = 0; k0 < K; k0 += 64) {
        float part = 0;
        for (int k = k0; k < std::min(K, k0 + 64); ++k)
          part = std::fma(a[size_t(m * K + k)], b[size_t(n * K + k)], part);
        total += part;
      }
      c.push_back(total);
    }
  return c;
}

TEST(Products, EveryKernelHasTheOrderOfTheText) {
  const auto driver = make_emulated_driver(ItemOrder::shuffled);
  for (const auto& [M, N, K] : {std::array{8, 19, 200}, {5, 70, 67}, {131, 133, 90}, {1, 1, 1}}) {
    const std::vector<float> a = numbers(size_t(M * K), 1), b = numbers(size_t(N * K), 2);
    std::vector<float> x = a, y = b;
    for (std::vector<float>* v : {&x, &y})
      for (float& f : *v) f = to_float(to_bf16(f));
    const std::vector<float> exact = in_order(a, b, M, N, K), of_bf16 = in_order(x, y, M, N, K);
    Memory memory(*driver);
    for (const auto& [a_type, b_type] : {std::pair{WEIGHT_F32, WEIGHT_F32},
                                         {WEIGHT_F32, WEIGHT_BF16},
                                         {WEIGHT_BF16, WEIGHT_F32},
                                         {WEIGHT_BF16, WEIGHT_BF16}}) {
      const auto stored = [&](std::span<const float> values, int type) {
        return type == WEIGHT_F32 ? static_cast<void*>(memory.floats(values)) : memory.in_bf16(values);
      };
      const void *const a_of[] = {stored(a, a_type), stored(turned(a, M, K), a_type)}, *const b_of[] = {
                                                                                           stored(b, b_type),
                                                                                           stored(turned(b, N, K),
                                                                                                  b_type)};
      const bool mixed = a_type != b_type, both = !mixed && a_type == WEIGHT_BF16;
      for (const int rounded : {0, 1}) {
        if (mixed && !rounded) continue;
        const std::vector<float>& expected = both || rounded ? of_bf16 : exact;
        for (const Kernel kernel : {Kernel::product, Kernel::product_wide})
          for (const bool a_turned : {false, true})
            for (const bool b_turned : {false, true})
              EXPECT_EQ(product(*driver, kernel, M, N, K, a_of[a_turned], a_turned, a_type, b_of[b_turned], b_turned,
                                b_type, rounded),
                        expected)
                  << M << " " << N << " " << K << " " << a_turned << b_turned << a_type << b_type;
        if (M <= 8 && a_type == WEIGHT_F32) {
          EXPECT_EQ(
              product(*driver, Kernel::product_few, M, N, K, a_of[0], false, a_type, b_of[0], false, b_type, rounded),
              expected);
        }
      }
    }
  }
}

// Wide loads give the values of dequantize().
TEST(Products, ReadWeightsOfEveryType) {
  const auto driver = make_emulated_driver();
  for (const auto& [type, K] : {std::pair{DType::f16, 72},
                                {DType::f16, 67},
                                {DType::bf16, 136},
                                {DType::q8_0, 96},
                                {DType::q4_k, 512},
                                {DType::q4_0, 64},
                                {DType::q6_k, 256}}) {
    constexpr int M = 3, N = 21;
    const std::vector<float> a = numbers(size_t(M * K), 3), given = numbers(size_t(N * K), 4);
    std::vector<std::byte> stored(bytes_of(type, int64_t(given.size())));
    std::vector<float> b(given.size());
    const View from(const_cast<float*>(given.data()), DType::f32, {N, K}), to(b.data(), DType::f32, {N, K}),
        between(stored.data(), type, {N, K});
    if (is_quantized(type)) {
      quantize(type, given, {}, stored.data());
      dequantize(type, stored.data(), b);
    } else {
      convert(from, between), convert(between, to);
    }
    Memory memory(*driver);
    void* const w = memory.bytes(stored.size());
    driver->upload(w, stored.data(), stored.size());
    const float* const x = memory.floats(a);
    const std::vector<float> expected = in_order(a, b, M, N, K);
    for (const Kernel kernel : {Kernel::product, Kernel::product_wide, Kernel::product_few})
      EXPECT_EQ(product(*driver, kernel, M, N, K, x, false, WEIGHT_F32, w, false, weight_type(type)), expected)
          << name_of(type) << " " << K;
  }
}

}  // namespace
}  // namespace toy::gpu::product_test
