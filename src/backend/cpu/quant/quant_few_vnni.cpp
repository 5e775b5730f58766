// Products on quantized weights for few rows of x, with AVX-512 and VNNI: two blocks at a time.
#include "backend/cpu/quant/quant_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#endif

#include "backend/cpu/quant/quant_few-inl.h"

namespace toy::cpu {
namespace {

struct Double {
  using V = __m512i;
  static constexpr size_t kBlocks = 2;
  static constexpr int kSignedOffset = 128;
  static inline V both(__m256i low, __m256i high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }
  static inline V bytes(const uint8_t* p, size_t stride) { return both(bytes32(p), bytes32(p + stride)); }
  static inline V nibbles(const uint8_t* p, size_t stride) {
    const auto of = [](const uint8_t* q) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(q)); };
    const V twice = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(of(p)), 0xff00, of(p + stride));
    return _mm512_and_si512(_mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)), _mm512_set1_epi8(15));
  }
  static inline V fifth_bits(const uint8_t* p, size_t stride) {
    const __mmask64 set = __mmask64(word(p)) | __mmask64(word(p + stride)) << 32;
    return _mm512_maskz_set1_epi8(set, 16);
  }
  static inline V look_up(__m128i table, V index) { return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), index); }
  static inline V either(V a, V b) { return _mm512_or_si512(a, b); }
  template <class T>
  static inline V parts(const uint8_t* w, int part) {
    return both(T::values(w, part), T::values(w, part + 1));
  }
  static inline V load(const int8_t* x) { return _mm512_loadu_si512(x); }
  template <bool kSigned>
  static inline V dot(V w, V x) {
    return _mm512_dpbusd_epi32(zero(), kSigned ? _mm512_xor_si512(w, _mm512_set1_epi8(-128)) : w, x);
  }
  static inline V zero() { return _mm512_setzero_si512(); }
  static inline V add(V a, V b) { return _mm512_add_epi32(a, b); }
  // In each lane of 128 bits: the sums of its four values, of outputs 0 to 3 in a and 4 to 7 in b.
  [[gnu::always_inline]] static inline void in_lanes(const V (&v)[kOutputs], V& a, V& b) {
    V two[4];
    for (int i = 0; i < 4; ++i)
      two[i] = add(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    a = add(_mm512_unpacklo_epi64(two[0], two[1]), _mm512_unpackhi_epi64(two[0], two[1]));
    b = add(_mm512_unpacklo_epi64(two[2], two[3]), _mm512_unpackhi_epi64(two[2], two[3]));
  }
  template <size_t kRuns>
  [[gnu::always_inline]] static inline void across(const V (&v)[kOutputs], __m256i (&sums)[kRuns]) {
    V a, b;
    in_lanes(v, a, b);
    if constexpr (kRuns == 4) {
      halves_of(_mm512_shuffle_i32x4(a, b, 0x44), sums[0], sums[1]);
      halves_of(_mm512_shuffle_i32x4(a, b, 0xee), sums[2], sums[3]);
    } else {
      halves_of(add(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd)), sums[0], sums[1]);
    }
  }
  // Lanes of 128 bits 0 and 2, and 1 and 3.
  static inline void halves_of(V v, __m256i& low, __m256i& high) {
    v = _mm512_shuffle_i32x4(v, v, 0xd8);
    low = _mm512_castsi512_si256(v), high = _mm512_extracti64x4_epi64(v, 1);
  }
};

}  // namespace

static void run(const QuantPart& part, size_t s) { run_few_rows<Double>(part, s); }

}  // namespace toy::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace toy::cpu {

const QuantIsa* quant_few_vnni() {
  static const QuantIsa isa{kOutputs, 1, offset_of_few_rows<Double>, run, nullptr, 3};
  const bool there = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("bmi2") && cpu_has_f16c();
  return there ? &isa : nullptr;
}

}  // namespace toy::cpu
#else
namespace toy::cpu {
const QuantIsa* quant_few_vnni() { return nullptr; }
}  // namespace toy::cpu
#endif
