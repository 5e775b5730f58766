// Products on quantized weights in loops over lanes, which compilers turn into the vectors of any machine.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/cpu/quant/quant_kernel-inl.h"
#include "toy/tensor/dtype.h"

namespace toy::cpu {
namespace {

struct Plain {
  static constexpr size_t kLanes = 8;
  static constexpr int kTile = 2, kSignedOffset = 128;
  struct alignas(32) V {
    uint32_t lane[kLanes];
  };
  struct alignas(32) F {
    float lane[kLanes];
  };
  template <class To = V, class Op>
  static To each(const Op& op) {
    To v;
    for (size_t l = 0; l < kLanes; ++l) v.lane[l] = op(l);
    return v;
  }
  static V set1(uint32_t v) {
    return each([&](size_t) { return v; });
  }
  static V multiples(uint32_t n) {
    return each([&](size_t l) { return uint32_t(l) * n; });
  }
  static V and_(V a, V b) {
    return each([&](size_t l) { return a.lane[l] & b.lane[l]; });
  }
  static V or_(V a, V b) {
    return each([&](size_t l) { return a.lane[l] | b.lane[l]; });
  }
  static V add(V a, V b) {
    return each([&](size_t l) { return a.lane[l] + b.lane[l]; });
  }
  static V sub(V a, V b) {
    return each([&](size_t l) { return a.lane[l] - b.lane[l]; });
  }
  static V multiply(V a, V b) {
    return each([&](size_t l) { return a.lane[l] * b.lane[l]; });
  }
  static V shift_words(V v, int n) {
    return each([&](size_t l) { return v.lane[l] >> n; });
  }
  static V shift_words_left(V v, int n) {
    return each([&](size_t l) { return v.lane[l] << n; });
  }
  static V signed_byte(V v, int i) {
    return each([&](size_t l) { return uint32_t(int8_t(v.lane[l] >> (8 * i))); });
  }
  static V from_signed(V v) {
    return each([&](size_t l) { return v.lane[l] ^ 0x80808080; });
  }
  static V look_up(const int8_t (&table)[16], V index) {
    return each([&](size_t l) {
      uint32_t word = 0;
      for (int i = 0; i < 32; i += 8) word |= uint32_t(uint8_t(table[index.lane[l] >> i & 15])) << i;
      return word;
    });
  }
  static uint32_t word(const uint8_t* p) {
    uint32_t v;
    std::memcpy(&v, p, 4);
    return v;
  }
  static V gather(const uint8_t* p, V offset) {
    return each([&](size_t l) { return word(p + offset.lane[l]); });
  }
  static V load(const uint8_t* p) {
    return each([&](size_t l) { return word(p + 4 * l); });
  }
  static void store_words(V v, uint8_t* p) { std::memcpy(p, v.lane, sizeof(v.lane)); }
  static V load_halves(const uint8_t* p) {
    return each([&](size_t l) { return uint32_t(p[2 * l]) | uint32_t(p[2 * l + 1]) << 8; });
  }
  static V load_bytes(const uint8_t* p) {
    return each([&](size_t l) { return uint32_t(p[l]); });
  }
  static void load_rows(const uint8_t* p, size_t stride, V (&v)[4]) {
    for (int i = 0; i < 4; ++i) v[i] = each([&](size_t l) { return word(p + l * stride + 4 * i); });
  }
  template <bool kSigned>
  static V dot(V sum, V w, V x) {
    return each([&](size_t l) {
      uint32_t s = sum.lane[l];
      for (int i = 0; i < 32; i += 8) s += (w.lane[l] >> i & 255) * uint32_t(int8_t(x.lane[l] >> i));
      return s;
    });
  }

  static F zero() { return set1f(0); }
  static F set1f(float v) {
    return each<F>([&](size_t) { return v; });
  }
  static F load_floats(const float* p) {
    return each<F>([&](size_t l) { return p[l]; });
  }
  static void store(F v, float* p) { std::memcpy(p, v.lane, sizeof(v.lane)); }
  static F add(F a, F b) {
    return each<F>([&](size_t l) { return a.lane[l] + b.lane[l]; });
  }
  static F mul(F a, F b) {
    return each<F>([&](size_t l) { return a.lane[l] * b.lane[l]; });
  }
  static F fma(F a, F b, F c) {
    return each<F>([&](size_t l) { return std::fma(a.lane[l], b.lane[l], c.lane[l]); });
  }
  static F negative(F v) {
    return each<F>([&](size_t l) { return -v.lane[l]; });
  }
  static F as_float(V v) {
    return each<F>([&](size_t l) { return std::bit_cast<float>(v.lane[l]); });
  }
  static F to_float(V v) {
    return each<F>([&](size_t l) { return float(int32_t(v.lane[l])); });
  }
  static F half_low(V v) {
    return each<F>([&](size_t l) { return toy::to_float(F16{uint16_t(v.lane[l])}); });
  }
  static F half_high(V v) { return half_low(shift_words(v, 16)); }
  // 2^(e-128) of the lowest byte e.
  static F power_of_two(V v) {
    return each<F>([&](size_t l) { return std::ldexp(1.0f, int(v.lane[l] & 255) - 128); });
  }
};

}  // namespace

static void run_plain(const QuantPart& part, size_t s) { run_strip<Plain>(part, s); }
static void repack_plain(DType type, const uint8_t* w, size_t k, uint8_t* to) { repack_strip<Plain>(type, w, k, to); }

const QuantIsa* quant_plain() {
  static const QuantIsa isa{2 * Plain::kLanes, Plain::kTile, offset_of_type<Plain>, run_plain, repack_plain};
  return &isa;
}

}  // namespace toy::cpu
