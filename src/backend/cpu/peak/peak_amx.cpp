// The ceilings of products of tiles (AMX), of bf16 and of bytes; on other machines the answers are 0.
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
template <bool kBytes>
__attribute__((noinline)) void tiles() {
  using namespace toy::cpu;
  alignas(64) const uint32_t operands[4][256] = {};
  const TileConfig config;
  tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>();
  for (int i = 0; i < kRounds; ++i) {
    tile_load<4>(operands[0], 64), tile_load<5>(operands[1], 64);
    tile_load<6>(operands[2], 64), tile_load<7>(operands[3], 64);
    if constexpr (kBytes)
      tile_product_bytes<0, 4, 6>(), tile_product_bytes<1, 4, 7>(), tile_product_bytes<2, 5, 6>(),
          tile_product_bytes<3, 5, 7>();
    else
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

// Operations a second (1e9), `macs` multiply-adds for each element of a tile.
static double rate(ThreadPool& pool, void (*work)(), double macs) {
  pool.run([&](int) { work(); });  // wakes the team and the units
  const double start = now();
  pool.run([&](int) { work(); });
  return pool.size() * double(kRounds) * 4 * 2 * 16 * 16 * macs / (now() - start) * 1e-9;
}

double bf16_tile_gflops(ThreadPool& pool) { return cpu::has_amx() ? rate(pool, tiles<false>, 32) : 0; }
double int8_tile_gops(ThreadPool& pool) { return cpu::has_amx_bytes() ? rate(pool, tiles<true>, 64) : 0; }

}  // namespace toy::bench
#else
namespace toy::bench {

double bf16_tile_gflops(ThreadPool&) { return 0; }
double int8_tile_gops(ThreadPool&) { return 0; }

}  // namespace toy::bench
#endif
