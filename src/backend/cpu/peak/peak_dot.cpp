// The ceilings of dot products that Highway 1.0.3 does not have: bf16 pairs and int8 quads. Intrinsics, fenced into
// this file; on machines without the instructions the answer is 0.
#include "backend/cpu/peak/peak.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <atomic>

namespace toy::bench {
#if defined(__x86_64__)
namespace {

constexpr int kRounds = 20000, kChains = 12;
std::atomic<int> g_dot_sink{0};  // what nobody looks at, so that the work is done

// Twelve independent chains hide the latency of 4 to 6 cycles at two instructions a cycle.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"), noinline)) void bf16_dots() {
  __m512 a[kChains];
  for (__m512& v : a) v = _mm512_set1_ps(1.0f);
  __m512i x = _mm512_set1_epi16(0x3f00), y = _mm512_set1_epi16(0x3e80);  // 0.5 and 0.25
  for (int i = 0; i < kRounds; ++i) {
    __asm__("" : "+v"(x), "+v"(y));
#pragma GCC unroll 16
    for (int j = 0; j < kChains; ++j) a[j] = _mm512_dpbf16_ps(a[j], (__m512bh)x, (__m512bh)y);
  }
  __m512 sum = a[0];
  for (int j = 1; j < kChains; ++j) sum = _mm512_add_ps(sum, a[j]);
  g_dot_sink.store(int(_mm512_cvtss_f32(sum)), std::memory_order_relaxed);
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"), noinline)) void int8_dots() {
  __m512i a[kChains];
  for (__m512i& v : a) v = _mm512_set1_epi32(1);
  __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-2);
  for (int i = 0; i < kRounds; ++i) {
    __asm__("" : "+v"(x), "+v"(y));
#pragma GCC unroll 16
    for (int j = 0; j < kChains; ++j) a[j] = _mm512_dpbusd_epi32(a[j], x, y);
  }
  __m512i sum = a[0];
  for (int j = 1; j < kChains; ++j) sum = _mm512_add_epi32(sum, a[j]);
  g_dot_sink.store(_mm512_cvtsi512_si32(sum), std::memory_order_relaxed);
}

// Without VNNI a quad takes three instructions: pairs in 16 bits, pairs of these in 32 bits, a sum.
__attribute__((target("avx2"), noinline)) void int8_dots_avx2() {
  __m256i a[kChains];
  for (__m256i& v : a) v = _mm256_set1_epi32(1);
  __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-2);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kChains; ++j) {
      __asm__("" : "+v"(x), "+v"(y));  // else twelve equal products would be one
      a[j] = _mm256_add_epi32(a[j], _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), ones));
    }
  }
  __m256i sum = a[0];
  for (int j = 1; j < kChains; ++j) sum = _mm256_add_epi32(sum, a[j]);
  g_dot_sink.store(_mm256_extract_epi32(sum, 0), std::memory_order_relaxed);
}

// Operations a second (1e9), `each` of them in a step of a chain.
double rate(ThreadPool& pool, void (*work)(), double each) {
  pool.run([](int) {});  // wakes the team
  const double start = now();
  pool.run([&](int) { work(); });
  return pool.size() * double(kRounds) * kChains * each / (now() - start) * 1e-9;
}

}  // namespace

double bf16_dot_gflops(ThreadPool& pool) {
  return __builtin_cpu_supports("avx512bf16") ? rate(pool, bf16_dots, 64) : 0;
}
double int8_dot_gops(ThreadPool& pool) {
  if (__builtin_cpu_supports("avx512vnni")) return rate(pool, int8_dots, 128);
  return __builtin_cpu_supports("avx2") ? rate(pool, int8_dots_avx2, 64) : 0;
}
#else
double bf16_dot_gflops(ThreadPool&) { return 0; }
double int8_dot_gops(ThreadPool&) { return 0; }
#endif

}  // namespace toy::bench
