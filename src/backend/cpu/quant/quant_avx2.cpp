// Products on quantized weights with AVX2, without a dot product instruction for bytes. Only what stands between push
// and pop is compiled for these instructions: code that other files share must not be.
#include "backend/cpu/quant/quant_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#include "backend/cpu/quant/quant_kernel-inl.h"

namespace toy::cpu {
namespace {

struct Avx2 {
  static constexpr size_t kLanes = 8;
  static constexpr int kTile = 4, kSignedOffset = 0;
  using V = __m256i;
  using F = __m256;
  static V set1(uint32_t v) { return _mm256_set1_epi32(int(v)); }
  static V multiples(uint32_t n) { return _mm256_mullo_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), set1(n)); }
  static V and_(V a, V b) { return _mm256_and_si256(a, b); }
  static V or_(V a, V b) { return _mm256_or_si256(a, b); }
  static V xor_(V a, V b) { return _mm256_xor_si256(a, b); }
  static V add(V a, V b) { return _mm256_add_epi32(a, b); }
  static V sub(V a, V b) { return _mm256_sub_epi32(a, b); }
  static V multiply(V a, V b) { return _mm256_mullo_epi32(a, b); }
  static V shift_words(V v, int n) { return _mm256_srl_epi32(v, _mm_cvtsi32_si128(n)); }
  static V shift_words_left(V v, int n) { return _mm256_sll_epi32(v, _mm_cvtsi32_si128(n)); }
  static V signed_byte(V v, int i) { return _mm256_srai_epi32(shift_words_left(v, 24 - 8 * i), 24); }
  static V from_signed(V v) { return v; }
  static V look_up(const int8_t (&table)[16], V index) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table))),
                               index);
  }
  static V gather(const uint8_t* p, V offset) {
    return _mm256_i32gather_epi32(reinterpret_cast<const int*>(p), offset, 1);
  }
  static V load(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void store_words(V v, uint8_t* p) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  static V load_halves(const uint8_t* p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static V load_bytes(const uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static void load_rows(const uint8_t* p, size_t stride, V (&v)[4]) {
    const auto row = [&](size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * stride)); };
    V z[4];
    for (size_t j = 0; j < 4; ++j) z[j] = _mm256_inserti128_si256(_mm256_castsi128_si256(row(j)), row(j + 4), 1);
    const V a = _mm256_unpacklo_epi32(z[0], z[1]), b = _mm256_unpackhi_epi32(z[0], z[1]),
            c = _mm256_unpacklo_epi32(z[2], z[3]), d = _mm256_unpackhi_epi32(z[2], z[3]);
    v[0] = _mm256_unpacklo_epi64(a, c), v[1] = _mm256_unpackhi_epi64(a, c);
    v[2] = _mm256_unpacklo_epi64(b, d), v[3] = _mm256_unpackhi_epi64(b, d);
  }
  static V negative_bytes(V v) { return _mm256_cmpgt_epi8(_mm256_setzero_si256(), v); }
  static V magnitudes(V v) { return _mm256_abs_epi8(v); }
  // Pairs are summed in 16 bits. Unsigned weights are at most 63, so a pair is below 2^15. The magnitude of signed ones
  // is at most 128; of their x two are from -128 to 127, so a pair is at least -2^15.
  template <bool kSigned>
  static V pairs(V w, V x) {
    return kSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)) : _mm256_maddubs_epi16(w, x);
  }
  static V add_pairs(V a, V b) { return _mm256_add_epi16(a, b); }
  static V sum_pairs(V pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }
  template <bool kSigned>
  static V dot(V sum, V w, V x) {
    return add(sum, sum_pairs(pairs<kSigned>(w, x)));
  }

  static F zero() { return _mm256_setzero_ps(); }
  static F set1f(float v) { return _mm256_set1_ps(v); }
  static F load_floats(const float* p) { return _mm256_loadu_ps(p); }
  static void store(F v, float* p) { _mm256_storeu_ps(p, v); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F negative(F v) { return _mm256_xor_ps(v, set1f(-0.0f)); }
  static F as_float(V v) { return _mm256_castsi256_ps(v); }
  static F to_float(V v) { return _mm256_cvtepi32_ps(v); }
  static F half_low(V v) {
    const V words = and_(v, set1(0xffff)), packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 8);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
  }
  static F half_high(V v) { return half_low(_mm256_srli_epi32(v, 16)); }
  // 2^(e-128) of the lowest byte e.
  static F power_of_two(V v) {
    const V e = and_(v, set1(255)), normal = _mm256_slli_epi32(sub(e, set1(1)), 23),
            small = _mm256_sllv_epi32(set1(0x00200000), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(set1(2), e)));
  }
};

}  // namespace

static void run_avx2(const QuantPart& part, size_t s) { run_strip<Avx2>(part, s); }
static void repack_avx2(DType type, const uint8_t* w, size_t k, uint8_t* to) { repack_strip<Avx2>(type, w, k, to); }

}  // namespace toy::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace toy::cpu {

const QuantIsa* quant_avx2() {
  static const QuantIsa isa{2 * Avx2::kLanes, Avx2::kTile, offset_of_type<Avx2>, run_avx2, repack_avx2};
  const bool there = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c();
  return there ? &isa : nullptr;
}

}  // namespace toy::cpu
#else
namespace toy::cpu {
const QuantIsa* quant_avx2() { return nullptr; }
}  // namespace toy::cpu
#endif
