// outer_product_amx: outer_product on tiles of bf16 pairs, for CPUs with AMX (Intel's Xeons since 2023). A tile
// register is sixteen rows of 64 bytes; one instruction adds the product of two of them, 16 x 16 x 32 multiply-adds, to
// a third. The operations as in Intel's "Software Developer's Manual", TDPBF16PS. Intrinsics and four instructions in
// assembly, fenced off behind has_amx(): the compilers' own intrinsics do not say that they read memory.
#include "backend/cpu/gemm/gemm_outer_task.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16"))), apply_to = function)
#else
#pragma GCC push_options
// GCC 12 warns of its own intrinsics.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")
#endif

#include "backend/cpu/gemm/amx-inl.h"
#include "backend/cpu/gemm/bf16_pairs-inl.h"

namespace toy::cpu {
namespace {

// r[i] becomes column i of the square of 32-bit words that the r[] were rows of.
inline void transpose(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {  // r[i + j]: column j of each quarter, rows i to i + 3
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i a = _mm512_shuffle_i32x4(r[j], r[j + 4], 0x44), b = _mm512_shuffle_i32x4(r[j], r[j + 4], 0xee);
    const __m512i c = _mm512_shuffle_i32x4(r[j + 8], r[j + 12], 0x44);
    const __m512i e = _mm512_shuffle_i32x4(r[j + 8], r[j + 12], 0xee);
    t[j] = _mm512_shuffle_i32x4(a, c, 0x88);
    t[j + 4] = _mm512_shuffle_i32x4(a, c, 0xdd);
    t[j + 8] = _mm512_shuffle_i32x4(b, e, 0x88);
    t[j + 12] = _mm512_shuffle_i32x4(b, e, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

// Thirty-two consecutive f32 as sixteen pairs; zeros from the n-th on.
inline __m512i consecutive(const float* p, size_t n) {
  if (n >= 32) return (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(p + 16), _mm512_loadu_ps(p));
  const __m512 low = _mm512_maskz_loadu_ps(first(n), p);
  const __m512 high = n > 16 ? _mm512_maskz_loadu_ps(first(n - 16), p + 16) : _mm512_setzero_ps();
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

// Sixteen columns of lines k and k + 1; zeros where there are fewer columns or lines.
inline __m512i lines(const float* p, size_t stride, size_t k, size_t len, __mmask16 columns) {
  const __m512 low = _mm512_maskz_loadu_ps(k < len ? columns : __mmask16(0), p + k * stride);
  const __m512 high = _mm512_maskz_loadu_ps(k + 1 < len ? columns : __mmask16(0), p + (k + 1) * stride);
  return pairs(low, high);
}

// A panel of A is tiles one behind the other, [k/32][32 rows][16 pairs]; one of B is [k/2][width] pairs, of which 16 by
// 16 are a tile.
struct AmxPanels {
  using Panel = uint32_t;
  static constexpr size_t kPack = 2, kStep = 16, kMR = 32, kNV = 2, kLanes = 16, kMacs = 512, kStepsAtOnce = 16;
  static constexpr bool kFetchesLines = false;  // took 10% of dX
  // Longer than f32's: C is read and written less often. Blocks of 2048 were up to 20% faster than of 512.
  static KBlocks blocks(size_t k) { return KBlocks(k, 2048, 32); }

  static void pack_transposed(const float* p, size_t stride, size_t cols, size_t len, size_t width, uint32_t* out) {
    for (size_t j = 0; j < width; j += 16)
      for (size_t k = 0; k < len; k += 32) {
        __m512i r[16];
#pragma GCC unroll 16
        for (size_t i = 0; i < 16; ++i) r[i] = consecutive(p + std::min(j + i, cols - 1) * stride + k, len - k);
        transpose(r);
        uint32_t* o = out + k / 2 * width + j;
#pragma GCC unroll 16
        for (size_t i = 0; i < 16; ++i) _mm512_storeu_si512(o + i * width, r[i]);
      }
  }

  static void pack_straight(const float* p, size_t stride, size_t cols, size_t len, size_t width, uint32_t* out) {
    for (size_t k = 0; k < round_up(len, 32); k += 2, out += width)
      for (size_t j = 0; j < width; j += 16)
        _mm512_storeu_si512(out + j, lines(p + j, stride, k, len, first(j < cols ? cols - j : 0)));
  }

  static void pack_a_transposed(const float* p, size_t stride, size_t rows, size_t len, uint32_t* out) {
    for (size_t i = 0; i < kMR; ++i) {
      const float* row = p + std::min(i, rows - 1) * stride;
      for (size_t k = 0; k < len; k += 32) _mm512_storeu_si512(out + k * 16 + i * 16, consecutive(row + k, len - k));
    }
  }

  static void pack_a_straight(const float* p, size_t stride, size_t cols, size_t len, uint32_t* out) {
    for (size_t k = 0; k < len; k += 32)
      for (size_t i = 0; i < kMR; i += 16) {
        __m512i r[16];
        const __mmask16 columns = first(i < cols ? cols - i : 0);
#pragma GCC unroll 16
        for (size_t l = 0; l < 16; ++l) r[l] = lines(p + i, stride, k + 2 * l, len, columns);
        transpose(r);
#pragma GCC unroll 16
        for (size_t l = 0; l < 16; ++l) _mm512_storeu_si512(out + k * 16 + (i + l) * 16, r[l]);
      }
  }

  // 32 rows by NV tiles across.
  template <int NV>
  __attribute__((noinline)) static void whole_tile(const uint32_t* a, const uint32_t* b, Fetch fetch,
                                                   const OuterTile& t) {
    const size_t ldc = t.ldc * 4, ld_init = t.ld_init * 4;
    if (t.init) {
      tile_load<0>(t.init, ld_init);
      tile_load<2>(t.init + 16 * t.ld_init, ld_init);
      if constexpr (NV == 2) tile_load<1>(t.init + 16, ld_init), tile_load<3>(t.init + 16 * t.ld_init + 16, ld_init);
    } else {
      tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>();
    }
    const size_t steps = t.steps / 16, rows_each = ceil_div(kMR, std::max<size_t>(1, steps));
    size_t row = 0;
    for (size_t g = 0; g < steps; ++g, a += 512, b += NV * 256) {
      // C is often cold: fetched for the stores, dW was half as fast again.
      for (const size_t end = std::min(row + rows_each, kMR); row < end; ++row) t.stored.fetch_row<NV * 16>(row);
      fetch.step();
      // Loads first: products between them cost up to twice the time.
      tile_load<4>(a, 64);
      tile_load<5>(a + 256, 64);
      tile_load<6>(b, NV * 64);
      if constexpr (NV == 2) tile_load<7>(b + 16, NV * 64);
      tile_product<0, 4, 6>();
      tile_product<2, 5, 6>();
      if constexpr (NV == 2) tile_product<1, 4, 7>(), tile_product<3, 5, 7>();
    }
    tile_store<0>(t.c, ldc);
    tile_store<2>(t.c + 16 * t.ldc, ldc);
    if constexpr (NV == 2) tile_store<1>(t.c + 16, ldc), tile_store<3>(t.c + 16 * t.ldc + 16, ldc);
  }

  static void micro_tile(const uint32_t* a, const uint32_t* b, const Fetch& fetch, const OuterTile& t) {
    if (t.rows < kMR) {  // the rows that are there take a way round
      alignas(64) float c[kMR * kNV * kLanes] = {};
      OuterTile all = t;
      all.rows = kMR, all.c = c, all.ldc = t.width, all.stored = {};
      if (t.init) {
        for (size_t i = 0; i < t.rows; ++i) std::copy_n(t.init + i * t.ld_init, t.width, c + i * t.width);
        all.init = c, all.ld_init = t.width;
      }
      micro_tile(a, b, fetch, all);
      for (size_t i = 0; i < t.rows; ++i) std::copy_n(c + i * t.width, t.width, t.c + i * t.ldc);
      return;
    }
    t.width == 2 * kLanes ? whole_tile<2>(a, b, fetch, t) : whole_tile<1>(a, b, fetch, t);
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

// Called only where has_amx().
size_t amx_bytes_of_thread(size_t m, size_t n, size_t k) { return OuterSpace<AmxPanels>(m, n, k).bytes(); }

// Are there tiles, and products of them by this bit of edx? Linux keeps the large registers from a process until it
// asks for them, and grants only what it saves (arch_prctl(2)).
static bool has_tiles(unsigned products) {
  constexpr unsigned kTile = 1u << 24;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  unsigned eax, ebx, ecx, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & products) && (edx & kTile) &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
bool has_amx() {
  static const bool there = has_bf16_products() && has_tiles(1u << 22);
  return there;
}
bool has_amx_bytes() {
  static const bool there = has_tiles(1u << 25);
  return there;
}

void outer_product_amx(const OuterProduct& p, const TeamMember& team, std::byte* workspace) {
  if (p.m == 0 || p.n == 0) return;
  const TileConfig tiles;
  outer_task<AmxPanels, float>(p, team, workspace);
}

}  // namespace toy::cpu
#else
namespace toy::cpu {

bool has_amx() { return false; }
bool has_amx_bytes() { return false; }
size_t amx_bytes_of_thread(size_t, size_t, size_t) { return 0; }
void outer_product_amx(const OuterProduct&, const TeamMember&, std::byte*) {}  // never called: see has_amx()

}  // namespace toy::cpu
#endif
