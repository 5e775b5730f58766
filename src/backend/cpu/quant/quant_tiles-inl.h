// Products on quantized weights of many rows on tiles: registers of AMX of up to 16 rows by 64 bytes. Included behind
// the instructions, which are gemm/amx-inl.h or, in tests, plain loops.
//
// One instruction multiplies a run of up to 16 rows of x by 16 outputs, in a quarter of the time that VNNI needs. But a
// run has scales of its own, so its products go through memory to the vectors, and there each takes a conversion, a
// multiplication and an fma: longer than the tile. So sums of y stay in registers, which 12 rows by 32 outputs fill,
// and tiles of the next run are multiplied while vectors scale those of this one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/quant/quant_avx512-inl.h"
#include "backend/cpu/quant/quant_kernel-inl.h"

namespace toy::cpu {
namespace {

struct Amx : Vnni {
  static constexpr bool kHasTiles = true;
  static constexpr int kTile = 12;
  static V from_signed(V v) { return v; }  // both operands have signs
  static int offset(DType) { return 0; }

  // `steps` vectors of weights without their offset: at most 63, they have signs then.
  template <class T>
  static void center(Panel<Amx>& panel, size_t steps) {
    if constexpr (T::kOffset != 0)
      for (size_t s = 0; s < steps; ++s) panel.q[s] = _mm512_sub_epi8(panel.q[s], _mm512_set1_epi8(T::kOffset));
  }

  // Which tiles are what. Two of each pair: 16 outputs each.
  static constexpr int kSums = 0, kLastSums = 2, kRows = 4, kLastRows = 5, kWeights = 6;
  template <class T>
  static TileConfig tiles_for(size_t rows) {
    constexpr uint8_t kSteps = T::kRun / 4;
    const uint8_t last = rows % kTile == 0 ? kTile : uint8_t(rows % kTile);
    return TileConfig({kTile, kTile, last, last, kTile, last, kSteps, kSteps},
                      {64, 64, 64, 64, T::kRun, T::kRun, 64, 64});
  }

  // Adds `runs` runs of the panel by x to the sums of MR rows by 32 outputs; MR = 0: of the last `rows` ones, fewer
  // than kTile. `first`: the first run of x. `begins`: the sums are zero yet.
  template <class T, int MR>
  [[gnu::noinline]] static void tile(const Panel<Amx> (&panel)[2], size_t runs, const QuantRows& x, size_t first,
                                     size_t rows, float* sums, bool begins) {
    constexpr int C = MR ? kSums : kLastSums, A = MR ? kRows : kLastRows;
    const size_t m = MR ? MR : rows;
    alignas(64) int32_t dots[2][kTile][32];  // of two runs
    const auto multiply = [&](size_t b) __attribute__((always_inline)) {
      tile_zero<C>(), tile_zero<C + 1>();
      tile_load<A>(x.q + (first + b * m) * T::kRun, T::kRun);
      tile_load<kWeights>(panel[0].q + b * (T::kRun / 4), 64);
      tile_load<kWeights + 1>(panel[1].q + b * (T::kRun / 4), 64);
      tile_product_bytes<C, A, kWeights>(), tile_product_bytes<C + 1, A, kWeights + 1>();
      tile_store<C>(dots[b % 2][0], 128), tile_store<C + 1>(dots[b % 2][0] + 16, 128);
    };
    F y[kTile][2];
#pragma GCC unroll 12
    for (size_t i = 0; i < m; ++i)
      for (size_t g = 0; g < 2; ++g) y[i][g] = begins ? zero() : load_floats(sums + i * 32 + g * 16);
    multiply(0);
    for (size_t b = 0; b < runs; ++b) {
      if (b + 1 < runs) multiply(b + 1);
      const float *scale = x.scale + first + b * m, *sum = T::kMin ? x.scaled_sum + first + b * m : nullptr;
      const F d[2] = {panel[0].d[b], panel[1].d[b]};
#pragma GCC unroll 12
      for (size_t i = 0; i < m; ++i) {
        const F xs = set1f(scale[i]);
        for (size_t g = 0; g < 2; ++g) {
          const V dot = _mm512_load_si512(dots[b % 2][i] + g * 16);
          y[i][g] = fma(d[g], mul(to_float(dot), xs), y[i][g]);
        }
        if constexpr (T::kMin) {
          const F all = set1f(sum[i]);
          for (size_t g = 0; g < 2; ++g) y[i][g] = fma(panel[g].m[b], all, y[i][g]);
        }
      }
    }
#pragma GCC unroll 12
    for (size_t i = 0; i < m; ++i)
      for (size_t g = 0; g < 2; ++g) store(y[i][g], sums + i * 32 + g * 16);
  }
};

void run_tiles(const QuantPart& part, size_t s) {
  with_type(part.p->w_type, [&](auto t) {
    using T = decltype(t);
    const TileConfig tiles = Amx::tiles_for<T>(part.rows);
    QuantTask<Amx, T>(part).strip(s);
  });
}

}  // namespace
}  // namespace toy::cpu
