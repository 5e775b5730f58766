// The ceiling of products of bf16 tiles (AMX); on other machines the answer is 0.
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/peak/peak.h"

#if defined(__x86_64__) && defined(__linux__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("amx-tile,amx-bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("amx-tile,amx-bf16")
#endif

#include "backend/cpu/gemm/amx-inl.h"

namespace toy::bench {
namespace {

constexpr int kRounds = 20000;

// Four independent sums of two tiles by two, read from the first-level cache as a product reads them.
__attribute__((noinline)) void tiles() {
  using namespace toy::cpu;
  alignas(64) const uint32_t operands[4][256] = {};
  const TileConfig config;
  tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>();
  for (int i = 0; i < kRounds; ++i) {
    tile_load<4>(operands[0], 64), tile_load<5>(operands[1], 64);
    tile_load<6>(operands[2], 64), tile_load<7>(operands[3], 64);
    tile_product<0, 4, 6>(), tile_product<1, 4, 7>(), tile_product<2, 5, 6>(), tile_product<3, 5, 7>();
  }
}

}  // namespace
}  // namespace toy::bench

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace toy::bench {

double bf16_tile_gflops(ThreadPool& pool) {
  if (!cpu::has_amx()) return 0;
  pool.run([](int) { tiles(); });  // wakes the team and the units
  const double start = now();
  pool.run([](int) { tiles(); });
  return pool.size() * double(kRounds) * 4 * 2 * 16 * 16 * 32 / (now() - start) * 1e-9;
}

}  // namespace toy::bench
#else
namespace toy::bench {

double bf16_tile_gflops(ThreadPool&) { return 0; }

}  // namespace toy::bench
#endif
