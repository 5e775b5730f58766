// Products on quantized weights for few rows of x: no panels, a block is multiplied as it lies. The sums are those of
// quant.h, because integers are exact in any order. Blocks of eight outputs give eight vectors of integers, which are
// added up across together. Included by a file for each instruction set, which defines `Isa`: vectors V of kBlocks
// times 32 bytes, one or two blocks (or parts of 32 of a large one) at a time.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "backend/cpu/quant/quant_isa.h"

namespace toy::cpu {
namespace {

using V = __m256i;  // 32 bytes
using F = __m256;

constexpr size_t kOutputs = 8;  // of a strip: lanes of F

// ---- formats: 32 consecutive values, and what scales them

inline V bytes32(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const V*>(p)); }
inline uint32_t word(const uint8_t* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
inline V every(int byte) { return _mm256_set1_epi8(char(byte)); }
// Bits [at, at + n) of each byte, moved to bit `to`.
inline V bits(V v, int at, int n, int to = 0) {
  const V low = _mm256_and_si256(_mm256_srli_epi16(v, at), every((1 << n) - 1));
  return to == 0 ? low : _mm256_slli_epi16(low, to);
}
// 32 nibbles in 16 bytes: the low ones first.
inline V nibbles(const uint8_t* p) {
  const V twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4)), every(15));
}
// 16 where bit k of the word is set, else 0.
inline V fifth_bits(const uint8_t* p) {
  const V place = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const V of_byte = _mm256_set1_epi64x(int64_t(0x8040201008040201));
  const V copies = _mm256_shuffle_epi8(_mm256_set1_epi32(int(word(p))), place);
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(copies, of_byte), of_byte), every(16));
}
inline V look_up(__m128i table, V index) { return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index); }

// Values 32 i to 32 i + 31 of a plane.
template <class Plane>
inline V field(const uint8_t* b, int i) {
  constexpr int kOfStride = Plane::stride * Plane::fields;
  const int n = 32 * i / kOfStride, r = 32 * i % kOfStride / Plane::stride, l = 32 * i % Plane::stride;
  return bits(bytes32(b + Plane::at + n * Plane::stride + l), Plane::bits * r, Plane::bits, Plane::shift);
}
template <class F>
inline __m128i table_of() {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(F::Level::table));
}

// The integers of a block of 256: 16 bits each, in order. Of 8 parts they are in the lower half.
struct Integers {
  V scale, min = _mm256_setzero_si256();
};
inline V words(__m128i bytes) { return _mm256_cvtepi8_epi16(bytes); }
inline __m128i bytes16(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
template <size_t kAt>
inline Integers integers(quant::SignedBytes<kAt>, const uint8_t* b) {
  return {words(bytes16(b + kAt))};
}
template <size_t kAt>
inline Integers integers(quant::NibblePairs<kAt>, const uint8_t* b) {
  const __m128i both = bytes16(b + kAt), low = _mm_set1_epi8(15);
  return {words(_mm_and_si128(both, low)), words(_mm_and_si128(_mm_srli_epi16(both, 4), low))};
}
// The words behind d and dmin: 4 scales in a, 4 minimums in b, the low bits of the others in c and their high bits
// above those of a and b.
template <size_t kAt>
inline Integers integers(quant::SixBitPairs<kAt>, const uint8_t* b) {
  static_assert(kAt == 4);
  const __m128i v = bytes16(b);
  const __m128i low = _mm_srlv_epi32(_mm_shuffle_epi32(v, _MM_SHUFFLE(3, 2, 3, 1)), _mm_setr_epi32(0, 0, 0, 4)),
                high = _mm_srli_epi32(_mm_shuffle_epi32(v, _MM_SHUFFLE(2, 2, 1, 1)), 2);
  const V both = words(_mm_or_si128(_mm_and_si128(low, _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f)),
                                    _mm_and_si128(high, _mm_setr_epi32(0, 0x30303030, 0, 0x30303030))));
  return {both, _mm256_castsi128_si256(_mm256_extracti128_si256(both, 1))};
}
// 16 of them, four of which are bytes of a word; and 8 of them, in order.
template <size_t kLow, size_t kHigh>
inline Integers integers(quant::SixBits<quant::Plane<kLow, 4, 8>, quant::Plane<kHigh, 2, 4, 4>>, const uint8_t* b) {
  const uint32_t low[2] = {word(b + kLow), word(b + kLow + 4)}, high = word(b + kHigh);
  int s[4];
  for (int i = 0; i < 4; ++i)
    s[i] = int(((low[i % 2] >> (4 * (i / 2))) & 0x0f0f0f0f) | (((high >> (2 * i)) & 0x03030303) << 4));
  return {words(_mm_sub_epi8(_mm_setr_epi32(s[0], s[1], s[2], s[3]), _mm_set1_epi8(32)))};
}
template <size_t kLow, size_t kHigh>
inline Integers integers(quant::SixBits<quant::Plane<kLow, 4, 1>, quant::Plane<kHigh, 2, 1, 4>>, const uint8_t* b) {
  uint16_t above;
  std::memcpy(&above, b + kHigh, 2);
  const uint64_t low = _pdep_u64(word(b + kLow), 0x0f0f0f0f0f0f0f0f), high = _pdep_u64(above, 0x0303030303030303) << 4;
  return {words(_mm_sub_epi8(_mm_set_epi64x(0, int64_t(low | high)), _mm_set1_epi8(32)))};
}

// A format, read as it lies.
template <class F>
struct InPlace : BlockFormat<F> {
  using Code = typename F::Code;
  using Low = typename Code::Low;
  using High = typename Code::High;
  // Of a block of 32.
  template <class Isa>
  static inline auto values(const uint8_t* b) {
    const auto low = [&] {
      if constexpr (Low::bits == 8)
        return Isa::bytes(b + Low::at, InPlace::kBytes);
      else
        return Isa::nibbles(b + Low::at, InPlace::kBytes);
    }();
    if constexpr (Code::has_high)
      return Isa::either(low, Isa::fifth_bits(b + High::at, InPlace::kBytes));
    else if constexpr (InPlace::kTable)
      return Isa::look_up(table_of<F>(), low);
    else
      return low;
  }
  // Of a block of 256: the 32 from 32 i on.
  static inline V values(const uint8_t* b, int i) {
    if constexpr (Low::stride == 16)
      return look_up(table_of<F>(), nibbles(b + Low::at + 16 * i));
    else if constexpr (Code::has_high)
      return _mm256_or_si256(field<Low>(b, i), field<High>(b, i));
    else
      return field<Low>(b, i);
  }
  static inline Integers integers(const uint8_t* b) { return cpu::integers(typename F::Integers(), b); }
};

// ---- products

// Pairs of products in 16 bits: unsigned values are at most 63, and of signed ones the magnitude is at most 128, so
// that a pair is below 2^15.
template <bool kSigned>
inline V pairs(V w, V x) {
  if constexpr (kSigned) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_maddubs_epi16(w, x);
}
// sums[n], lane o: the sum of the lanes of v[o] that are of run n, 16 or 32 values.
template <size_t kRuns>
inline void sums_across(const V (&v)[kOutputs], V (&sums)[kRuns]) {
  const V a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3])),
          b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
  const V low = _mm256_permute2x128_si256(a, b, 0x20), high = _mm256_permute2x128_si256(a, b, 0x31);
  if constexpr (kRuns == 2)
    sums[0] = low, sums[1] = high;
  else
    sums[0] = _mm256_add_epi32(low, high);
}
// Integers of eight outputs, 16 of each, as floats: vector i has number i of all outputs.
template <size_t kRuns>
inline void by_runs(const V (&of_outputs)[kOutputs], F factor, F (&of_runs)[kRuns]) {
  V v[kOutputs], w[kOutputs];
  std::copy_n(of_outputs, kOutputs, v);
  for (int round = 0; round < 3; ++round) {  // each turns the bits of a number's place by one
    for (size_t i = 0; i < 4; ++i)
      w[2 * i] = _mm256_unpacklo_epi16(v[i], v[i + 4]), w[2 * i + 1] = _mm256_unpackhi_epi16(v[i], v[i + 4]);
    std::copy_n(w, kOutputs, v);
  }
  for (size_t i = 0; i < kRuns; ++i) {
    const __m128i eight = i < 8 ? _mm256_castsi256_si128(v[i]) : _mm256_extracti128_si256(v[i - 8], 1);
    of_runs[i] = _mm256_mul_ps(factor, _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(eight)));
  }
}

// One block at a time, with AVX2.
struct Single {
  using V = __m256i;
  static constexpr size_t kBlocks = 1;
  static constexpr int kSignedOffset = 0;
  // Of a block, and of kBlocks blocks a stride apart.
  static inline V bytes(const uint8_t* p, size_t) { return bytes32(p); }
  static inline V nibbles(const uint8_t* p, size_t) { return cpu::nibbles(p); }
  static inline V fifth_bits(const uint8_t* p, size_t) { return cpu::fifth_bits(p); }
  static inline V look_up(__m128i table, V index) { return cpu::look_up(table, index); }
  static inline V either(V a, V b) { return _mm256_or_si256(a, b); }
  template <class T>
  static inline V parts(const uint8_t* w, int part) {
    return T::values(w, part);
  }
  static inline V load(const int8_t* x) { return _mm256_loadu_si256(reinterpret_cast<const V*>(x)); }
  template <bool kSigned>
  static inline V dot(V w, V x) {
    return _mm256_madd_epi16(pairs<kSigned>(w, x), _mm256_set1_epi16(1));
  }
  // Of the runs of a vector, each output's sum.
  template <size_t kRuns>
  [[gnu::always_inline]] static inline void across(const V (&v)[kOutputs], __m256i (&sums)[kRuns]) {
    sums_across(v, sums);
  }
};

template <class T, class Isa>
class FewTask {
 public:
  explicit FewTask(const QuantPart& part)
      : p_(*part.p), x_(part.x.from(part.row)), part_(part), row_bytes_(p_.k / T::kBlock * T::kBytes) {}

  // A strip begins earlier where it would end behind the last output.
  [[gnu::noinline]] void strip(size_t s) {
    const size_t first = std::min(s * kOutputs, p_.outs - kOutputs);
    w_ = reinterpret_cast<const uint8_t*>(p_.w) + first * row_bytes_;
    from_ = s * kOutputs;
    size_t r = 0;
    for (; r + 4 <= part_.rows; r += 4) rows<4>(r, first);
    if (part_.rows - r == 3) return rows<3>(r, first);
    if (part_.rows - r == 2) return rows<2>(r, first);
    if (part_.rows - r == 1) rows<1>(r, first);
  }

 private:
  template <int MR>
  void rows(size_t r, size_t first) const {
    const size_t blocks = p_.k / T::kBlock;
    F y[MR];
    for (F& v : y) v = _mm256_setzero_ps();
    size_t b = 0;
    if constexpr (HasRuns<T>) {
      for (; b < blocks; ++b) fetch_next(b, 1), large<MR>(w_ + b * T::kBytes, r, b, y);
    } else {
      for (; b + Isa::kBlocks <= blocks; b += Isa::kBlocks)
        fetch_next(b, Isa::kBlocks), small<Isa, MR>(w_ + b * T::kBytes, r, b, y);
      for (; b < blocks; ++b) small<Single, MR>(w_ + b * T::kBytes, r, b, y);
    }
    for (int i = 0; i < MR; ++i) store(y[i], r + size_t(i), first);
  }

  // Of the next strip, the same blocks, to L2: L1 can wait for too few lines at once.
  void fetch_next(size_t b, size_t blocks) const {
    const uint8_t* next = w_ + kOutputs * row_bytes_ + b * T::kBytes;
    for (size_t o = 0; o < kOutputs; ++o, next += row_bytes_)
      for (size_t at = 0; at < blocks * T::kBytes; at += 64)
        _mm_prefetch(reinterpret_cast<const char*>(next + at), _MM_HINT_T1);
  }

  // f16 `at` of each block.
  [[gnu::always_inline]] inline F halves(const uint8_t* w, size_t at) const {
    const auto half = [&](size_t o) {
      uint16_t v;
      std::memcpy(&v, w + o * row_bytes_ + at, 2);
      return short(v);
    };
    return _mm256_cvtph_ps(_mm_setr_epi16(half(0), half(1), half(2), half(3), half(4), half(5), half(6), half(7)));
  }
  F scale(const uint8_t* w) const {
    if constexpr (!T::kExponent) return halves(w, T::kScaleAt);
    alignas(32) float d[kOutputs];  // 2^(e-128)
    for (size_t o = 0; o < kOutputs; ++o) {
      const uint32_t e = w[o * row_bytes_], of_float = e < 2 ? 0x00200000u << e : (e - 1) << 23;
      std::memcpy(d + o, &of_float, 4);
    }
    return _mm256_load_ps(d);
  }

  // kBlocks blocks from block b on.
  template <class I, int MR>
  inline void small(const uint8_t* w, size_t r, size_t b, F (&y)[MR]) const {
    F d[I::kBlocks], m[I::kBlocks];
    for (size_t n = 0; n < I::kBlocks; ++n) {
      d[n] = scale(w + n * T::kBytes);
      if constexpr (T::kMin) m[n] = halves(w + n * T::kBytes, T::kMinAt);
    }
    add<I, MR>([&](size_t o) { return T::template values<I>(w + o * row_bytes_); }, d, m, r, b, y);
  }

  // Block b of 256.
  template <int MR>
  inline void large(const uint8_t* w, size_t r, size_t b, F (&y)[MR]) const requires HasRuns<T> {
    constexpr size_t kRuns = 256 / T::kRun, kOnce = 32 * Isa::kBlocks / T::kRun;
    V scales[kOutputs], mins[kOutputs];
    for (size_t o = 0; o < kOutputs; ++o) {
      const Integers of_output = T::integers(w + o * row_bytes_);
      scales[o] = of_output.scale, mins[o] = of_output.min;
    }
    F d[kRuns], m[kRuns];
    by_runs(scales, halves(w, T::kScaleAt), d);
    if constexpr (T::kMin) by_runs(mins, _mm256_xor_ps(halves(w, T::kMinAt), _mm256_set1_ps(-0.0f)), m);
#pragma GCC unroll 8
    for (size_t n = 0; n < kRuns; n += kOnce)
      add<Isa, MR>([&](size_t o) { return Isa::template parts<T>(w + o * row_bytes_, int(n * T::kRun / 32)); }, d + n,
                   m + n, r, b * kRuns + n, y);
  }

  // Adds the runs of one vector, values(o) of output o, from run `at` of a row on; d and m are theirs.
  template <class I, int MR, class Values>
  [[gnu::always_inline]] inline void add(const Values& values, const F* d, const F* m, size_t r, size_t at,
                                         F (&y)[MR]) const {
    constexpr size_t kRuns = 32 * I::kBlocks / T::kRun;
    typename I::V dot[MR][kOutputs];
#pragma GCC unroll 8
    for (size_t o = 0; o < kOutputs; ++o) {
      const auto w = values(o);
#pragma GCC unroll 4
      for (int i = 0; i < MR; ++i)
        dot[i][o] = I::template dot<T::kSigned>(w, I::load(x_.q + (r + size_t(i)) * p_.k + at * T::kRun));
    }
    for (int i = 0; i < MR; ++i) {
      V sums[kRuns];
      I::across(dot[i], sums);
      for (size_t n = 0; n < kRuns; ++n) {
        const size_t run = (r + size_t(i)) * (p_.k / T::kRun) + at + n;
        constexpr bool kCorrects = T::kOffset != 0 || (T::kSigned && I::kSignedOffset != 0);
        const int begin = kCorrects ? x_.correction[run] : std::bit_cast<int>(kRounder);
        const F sum = _mm256_castsi256_ps(_mm256_add_epi32(sums[n], _mm256_set1_epi32(begin)));
        y[i] = _mm256_fmadd_ps(d[n], _mm256_fmadd_ps(sum, _mm256_set1_ps(x_.scale[run]), _mm256_set1_ps(x_.less[run])),
                               y[i]);
        if constexpr (T::kMin) y[i] = _mm256_fmadd_ps(m[n], _mm256_set1_ps(x_.scaled_sum[run]), y[i]);
      }
    }
  }

  // Outputs from from_ on.
  void store(F sums, size_t r, size_t first) const {
    alignas(32) float all[kOutputs];
    _mm256_store_ps(all, sums);
    finish_sums(p_, all + (from_ - first), part_.row + r, from_, first + kOutputs);
  }

  const QuantProduct& p_;
  const QuantRows x_;
  const QuantPart& part_;
  const size_t row_bytes_;
  const uint8_t* w_ = nullptr;
  size_t from_ = 0;
};

template <class Isa>
void run_few_rows(const QuantPart& part, size_t s) {
  quant::with_format(part.p->w_type, [&]<class F>() { FewTask<InPlace<F>, Isa>(part).strip(s); });
}
template <class Isa>
int offset_of_few_rows(DType type) {
  return quant::with_format(type,
                            []<class F>() { return InPlace<F>::kSigned ? Isa::kSignedOffset : InPlace<F>::kOffset; });
}

}  // namespace
}  // namespace toy::cpu
