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
  // GCC and clang compute with these as with numbers, in what vectors the machine has.
  using V [[gnu::vector_size(32)]] = uint32_t;
  using I [[gnu::vector_size(32)]] = int32_t;
  using H [[gnu::vector_size(32)]] = int16_t;
  using F [[gnu::vector_size(32)]] = float;
  template <class To = V, class Op>
  static To each(const Op& op) {
    To v;
    for (size_t l = 0; l < kLanes; ++l) v[l] = op(l);
    return v;
  }
  static V set1(uint32_t v) { return V{} + v; }
  static V multiples(uint32_t n) { return V{0, 1, 2, 3, 4, 5, 6, 7} * n; }
  static V and_(V a, V b) { return a & b; }
  static V or_(V a, V b) { return a | b; }
  static V add(V a, V b) { return a + b; }
  static V sub(V a, V b) { return a - b; }
  static V multiply(V a, V b) { return a * b; }
  static V shift_words(V v, int n) { return v >> n; }
  static V shift_words_left(V v, int n) { return v << n; }
  static V signed_byte(V v, int i) { return V(I(v << (24 - 8 * i)) >> 24); }
  static V low_half(H v) { return V(I(V(v) << 16) >> 16); }
  static V high_half(H v) { return V(I(v) >> 16); }
  static V from_signed(V v) { return v ^ 0x80808080; }
  static V look_up(const int8_t (&table)[16], V index) {
    return each([&](size_t l) {
      uint32_t word = 0;
      for (int i = 0; i < 32; i += 8) word |= uint32_t(uint8_t(table[index[l] >> i & 15])) << i;
      return word;
    });
  }
  static uint32_t word(const uint8_t* p) {
    uint32_t v;
    std::memcpy(&v, p, 4);
    return v;
  }
  static V gather(const uint8_t* p, V offset) {
    return each([&](size_t l) { return word(p + offset[l]); });
  }
  static V load(const uint8_t* p) {
    V v;
    std::memcpy(&v, p, sizeof(v));
    return v;
  }
  static void store_words(V v, uint8_t* p) { std::memcpy(p, &v, sizeof(v)); }
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
    constexpr uint32_t kEven = 0x00ff00ff;  // 255 * -128 fits in 16 bits
    const H even = H(w & kEven) * (H(x << 8) >> 8), odd = H(w >> 8 & kEven) * (H(x) >> 8);
    return sum + ((low_half(even) + low_half(odd)) + (high_half(even) + high_half(odd)));
  }

  static F zero() { return F{}; }
  static F set1f(float v) { return F{} + v; }
  static F load_floats(const float* p) {
    F v;
    std::memcpy(&v, p, sizeof(v));
    return v;
  }
  static void store(F v, float* p) { std::memcpy(p, &v, sizeof(v)); }
  static F add(F a, F b) { return a + b; }
  static F mul(F a, F b) { return a * b; }
  static F fma(F a, F b, F c) {
    return each<F>([&](size_t l) { return std::fma(a[l], b[l], c[l]); });
  }
  static F negative(F v) { return -v; }
  static F as_float(V v) { return F(v); }
  static F to_float(V v) { return __builtin_convertvector(I(v), F); }
  static F half_low(V v) {
    constexpr uint32_t kBias = 112u << 23;  // between the exponents of f32 and f16
    const V a = v & 0x7fff, small = V(__builtin_convertvector(I(a), F) * 0x1p-24f);
    const V large = (a << 13) + kBias + (V(a >= 0x7c00) & kBias), subnormal = V(a < 0x400);
    return F((small & subnormal) | (large & ~subnormal) | (v & 0x8000) << 16);
  }
  static F half_high(V v) { return half_low(v >> 16); }
  // 2^(e-128) of the lowest byte e.
  static F power_of_two(V v) {
    return each<F>([&](size_t l) { return std::ldexp(1.0f, int(v[l] & 255) - 128); });
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
