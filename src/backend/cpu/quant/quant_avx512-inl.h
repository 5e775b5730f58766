// The vectors of AVX-512 with its int8 dot product, which Highway 1.0.3 does not have: an `Isa` for quant_kernel-inl.h.
// Included between the pragmas that choose the instruction set.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace toy::cpu {
namespace {

struct Vnni {
  static constexpr size_t kLanes = 16;
  static constexpr int kTile = 6, kSignedOffset = 128;
  using V = __m512i;
  using F = __m512;
  static V set1(uint32_t v) { return _mm512_set1_epi32(int(v)); }
  static V multiples(uint32_t n) {
    return _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), set1(n));
  }
  static V and_(V a, V b) { return _mm512_and_si512(a, b); }
  static V or_(V a, V b) { return _mm512_or_si512(a, b); }
  static V add(V a, V b) { return _mm512_add_epi32(a, b); }
  static V sub(V a, V b) { return _mm512_sub_epi32(a, b); }
  static V multiply(V a, V b) { return _mm512_mullo_epi32(a, b); }
  static V shift_words(V v, int n) { return _mm512_srl_epi32(v, _mm_cvtsi32_si128(n)); }
  static V shift_words_left(V v, int n) { return _mm512_sll_epi32(v, _mm_cvtsi32_si128(n)); }
  static V signed_byte(V v, int i) { return _mm512_srai_epi32(shift_words_left(v, 24 - 8 * i), 24); }
  static V from_signed(V v) { return _mm512_xor_si512(v, set1(0x80808080)); }
  static V look_up(const int8_t (&table)[16], V index) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(table))), index);
  }
  static V gather(const uint8_t* p, V offset) { return _mm512_i32gather_epi32(offset, p, 1); }
  static V load(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static void store_words(V v, uint8_t* p) { _mm512_storeu_si512(p, v); }
  static V load_halves(const uint8_t* p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static V load_bytes(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void load_rows(const uint8_t* p, size_t stride, V (&v)[4]) {
    const auto row = [&](size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * stride)); };
    V z[4];
    for (size_t j = 0; j < 4; ++j) {
      z[j] = _mm512_castsi128_si512(row(j));
      z[j] = _mm512_inserti32x4(z[j], row(j + 4), 1);
      z[j] = _mm512_inserti32x4(z[j], row(j + 8), 2);
      z[j] = _mm512_inserti32x4(z[j], row(j + 12), 3);
    }
    const V a = _mm512_unpacklo_epi32(z[0], z[1]), b = _mm512_unpackhi_epi32(z[0], z[1]),
            c = _mm512_unpacklo_epi32(z[2], z[3]), d = _mm512_unpackhi_epi32(z[2], z[3]);
    v[0] = _mm512_unpacklo_epi64(a, c), v[1] = _mm512_unpackhi_epi64(a, c);
    v[2] = _mm512_unpacklo_epi64(b, d), v[3] = _mm512_unpackhi_epi64(b, d);
  }
  template <bool kSigned>
  static V dot(V sum, V w, V x) {
    return _mm512_dpbusd_epi32(sum, w, x);
  }

  static F zero() { return _mm512_setzero_ps(); }
  static F set1f(float v) { return _mm512_set1_ps(v); }
  static F load_floats(const float* p) { return _mm512_loadu_ps(p); }
  static void store(F v, float* p) { _mm512_storeu_ps(p, v); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F negative(F v) { return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(v), set1(0x80000000))); }
  static F as_float(V v) { return _mm512_castsi512_ps(v); }
  static F to_float(V v) { return _mm512_cvtepi32_ps(v); }
  static F half_low(V v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
  static F half_high(V v) { return half_low(_mm512_srli_epi32(v, 16)); }
  // 2^(e-128) of the lowest byte e.
  static F power_of_two(V v) {
    const V e = and_(v, set1(255)), normal = _mm512_slli_epi32(sub(e, set1(1)), 23),
            small = _mm512_sllv_epi32(set1(0x00200000), e);
    return _mm512_castsi512_ps(_mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(e, set1(2)), normal, small));
  }
};

}  // namespace
}  // namespace toy::cpu
