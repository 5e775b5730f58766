// outer_product_dot: outer_product on pairs of bf16, for CPUs with AVX512_BF16; those with AMX have a faster one
// (gemm_amx.cpp). Highway 1.0.3 does not have the instruction, so this file is intrinsics, fenced off behind
// has_bf16_products(). Only what stands between push and pop
// is compiled for that instruction set: code that other files share must not be.
#include "backend/cpu/gemm/gemm_outer_task.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#endif

#include "backend/cpu/gemm/bf16_pairs-inl.h"

namespace toy::cpu {
namespace {

// GCC 12 folds one load into several instructions as their memory operand, and the load port becomes the limit.
inline void keep(__m512i& v) { __asm__("" : "+v"(v)); }

// r[i] becomes column i of the square of 32-bit words that the r[] were rows of.
inline void transpose(__m256i (&r)[8]) {
  __m256i t[8];
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
  }
  for (int h = 0; h < 8; h += 4) {
    const __m256i a = _mm256_unpacklo_epi32(t[h], t[h + 1]), b = _mm256_unpackhi_epi32(t[h], t[h + 1]);
    const __m256i c = _mm256_unpacklo_epi32(t[h + 2], t[h + 3]), e = _mm256_unpackhi_epi32(t[h + 2], t[h + 3]);
    r[h] = _mm256_unpacklo_epi64(a, c);
    r[h + 1] = _mm256_unpackhi_epi64(a, c);
    r[h + 2] = _mm256_unpacklo_epi64(b, e);
    r[h + 3] = _mm256_unpackhi_epi64(b, e);
  }
}

// Panels of pairs (k, k+1) of bf16: see gemm_outer_task.h.
struct Bf16Panels {
  using Panel = uint32_t;
  static constexpr size_t kPack = 2, kStep = 1, kMR = 8, kNV = 3, kLanes = 16, kMacs = 16, kStepsAtOnce = 1;
  static constexpr bool kFetchesLines = true;
  static KBlocks blocks(size_t k) { return outer_blocks(k); }

  static void pack_transposed(const float* p, size_t stride, size_t rows, size_t len, size_t width, uint32_t* out) {
    for (size_t g = ceil_div(width, 8); g-- > 0;) {
      const float* row[8];
      for (size_t i = 0; i < 8; ++i) row[i] = p + std::min(g * 8 + i, rows - 1) * stride;
      uint32_t* o = out + g * 8;
      for (size_t k = 0; k < len; k += 16, o += 8 * width) {
        const size_t n = std::min<size_t>(16, len - k);
        __m256i v[8];
        for (int i = 0; i < 8; ++i) v[i] = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(first(n), row[i] + k));
        transpose(v);
        for (size_t i = 0; i < ceil_div(n, 2); ++i)
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(o + i * width), v[i]);
      }
    }
  }

  static void pack_straight(const float* p, size_t stride, size_t cols, size_t len, size_t width, uint32_t* out) {
    for (size_t k = 0; k < len; k += 2, out += width) {
      const float* a = p + k * stride;
      __builtin_prefetch(a + 24 * stride, 0, 3);
      __builtin_prefetch(a + 25 * stride, 0, 3);
      for (size_t j = 0; j < width; j += 16) {
        const __mmask16 mask = first(j < cols ? std::min(cols, width) - j : 0);
        const __m512 low = _mm512_maskz_loadu_ps(mask, a + j);
        const __m512 high = _mm512_maskz_loadu_ps(k + 1 < len ? mask : __mmask16(0), a + stride + j);
        _mm512_storeu_si512(out + j, pairs(low, high));  // may run into the next line, which is rewritten
      }
    }
  }

  static void pack_a_transposed(const float* p, size_t stride, size_t rows, size_t len, uint32_t* out) {
    pack_transposed(p, stride, rows, len, kMR, out);
  }
  static void pack_a_straight(const float* p, size_t stride, size_t cols, size_t len, uint32_t* out) {
    pack_straight(p, stride, cols, len, kMR, out);
  }

  template <size_t MR, size_t NV>
  __attribute__((noinline)) static void micro(const uint32_t* a, const uint32_t* b, Fetch fetch, const OuterTile& t) {
    __m512 acc[MR][NV];
#pragma GCC unroll 8
    for (size_t i = 0; i < MR; ++i) {
      t.stored.fetch_row<NV * 16>(i);
#pragma GCC unroll 4
      for (size_t j = 0; j < NV; ++j) acc[i][j] = _mm512_setzero_ps();
    }
    for (size_t s = 0; s < t.steps; ++s, a += 8, b += NV * 16) {
      fetch.step();
      __m512i bv[NV];
#pragma GCC unroll 4
      for (size_t j = 0; j < NV; ++j) {
        __m512i v = _mm512_loadu_si512(b + j * 16);
        keep(v);
        bv[j] = v;
      }
#pragma GCC unroll 8
      for (size_t i = 0; i < MR; ++i) {
        __m512i av = _mm512_set1_epi32(int(a[i]));
        keep(av);
#pragma GCC unroll 4
        for (size_t j = 0; j < NV; ++j) acc[i][j] = _mm512_dpbf16_ps(acc[i][j], (__m512bh)av, (__m512bh)bv[j]);
      }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (size_t j = 0; j < NV; ++j) {
        const size_t at = i * t.ldc + j * 16;
        __m512 v = acc[i][j];
        if (t.init) v = _mm512_add_ps(_mm512_loadu_ps(t.init + i * t.ld_init + j * 16), v);
        _mm512_storeu_ps(t.c + at, v);
      }
  }

  static void micro_tile(const uint32_t* a, const uint32_t* b, const Fetch& fetch, const OuterTile& t) {
    register_tile<Bf16Panels>(a, b, fetch, t);
  }
};

}  // namespace
}  // namespace toy::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace toy::cpu {

bool has_bf16_products() {
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// What counts panels has their instructions, too.
size_t bf16_bytes_of_thread(size_t m, size_t n, size_t k) {
  if (!has_bf16_products()) return 0;
  return std::max(OuterSpace<Bf16Panels>(m, n, k).bytes(), has_amx() ? amx_bytes_of_thread(m, n, k) : 0);
}

void outer_product_bf16(const OuterProduct& p, const TeamMember& team, std::byte* workspace) {
  (has_amx() ? outer_product_amx : outer_product_dot)(p, team, workspace);
}

void outer_product_dot(const OuterProduct& p, const TeamMember& team, std::byte* workspace) {
  if (p.m == 0 || p.n == 0) return;
  outer_task<Bf16Panels, float>(p, team, workspace);
}

}  // namespace toy::cpu
#else
namespace toy::cpu {

bool has_bf16_products() { return false; }
size_t bf16_bytes_of_thread(size_t, size_t, size_t) { return 0; }
void outer_product_bf16(const OuterProduct&, const TeamMember&, std::byte*) {}  // never called: see has_bf16_products()
void outer_product_dot(const OuterProduct&, const TeamMember&, std::byte*) {}

}  // namespace toy::cpu
#endif
