// Products on quantized weights of many rows on tiles: registers of AMX of up to 16 rows by 64 bytes. Included behind
// the instructions, which are gemm/amx-inl.h or, in tests, plain loops.
//
// One instruction multiplies a run of up to 16 rows of x by 16 outputs, in an eighth of the time that VNNI needs. But a
// run has scales of its own, so its products go through memory to the vectors, where each takes two fma: with the
// stores these take longer than the tiles. So sums of y stay in registers, which 12 rows by 32 outputs fill; products
// begin as kRounder (quant_rows.h), so that none is converted; and while vectors scale run b - 1, run b is stored and
// run b + 1 multiplied, in two sets of tiles, since tiles are not renamed and wait for each other. While tiles work,
// vectors of 512 bits run at half their speed (bench/README.md), so runs of 16, which need the same stores
// and fma for half the products, are left to VNNI.
#pragma once

#include <algorithm>
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

  // Which tiles are what: two sets of sums, of 16 outputs and 16 more, and of rows; weights of 16 outputs and 16 more.
  static constexpr int kSums = 0, kRows = 4, kWeights = 6;
  static TileConfig config() {
    return TileConfig({kTile, kTile, kTile, kTile, kTile, kTile, 8, 8}, {64, 64, 64, 64, 32, 32, 64, 64});
  }

  // Adds `runs` runs of the panel by x to the sums of `tiles` tiles of MR rows by 32 outputs; MR = 0: of a last one of
  // `rows` rows, fewer than kTile, which is read as if it had all. `first`: the first run of x. `begins`: the sums are
  // zero yet. begin(t) and end(t) are called before and after the sums of tile t change.
  template <class T, int MR, class Begin, class End>
  [[gnu::noinline]] static void add_tiles(const Panel<Amx> (&panel)[2], size_t runs, const QuantRows& x, size_t first,
                                          size_t tiles, size_t rows, float* sums, bool begins, const Begin& begin,
                                          const End& end) {
    static_assert(T::kRun == 32);
    const size_t m = MR ? MR : rows, count = tiles * runs;
    alignas(64) float rounders[16];
    std::fill_n(rounders, 16, kRounder);
    alignas(64) float dots[2][kTile][32];  // of two runs: kRounder plus the sum of the products

    // With the set of tiles S: multiplies run i of x by run b of the panel; stores what it has.
    const auto multiply = [&panel, &x, &rounders, first, m ]<int S>(size_t i, size_t b) __attribute__((always_inline)) {
      constexpr int C = kSums + 2 * S, A = kRows + S, W = kWeights;
      tile_load<C>(rounders, 0), tile_load<C + 1>(rounders, 0);
      tile_load<A>(x.q + (first + i * m) * T::kRun, T::kRun);
      tile_load<W>(panel[0].q + b * 8, 64), tile_load<W + 1>(panel[1].q + b * 8, 64);
      tile_product_bytes<C, A, W>(), tile_product_bytes<C + 1, A, W + 1>();
    };
    const auto keep = [&dots]<int S>() __attribute__((always_inline)) {
      constexpr int C = kSums + 2 * S;
      tile_store<C>(dots[S][0], 128), tile_store<C + 1>(dots[S][0] + 16, 128);
    };
    F y[kTile][2];
    multiply.template operator()<0>(0, 0);
    size_t t = 0, b = 0, ahead = 0;  // the tile and the run that are scaled, the run that was multiplied last
    for (size_t i = 0; i <= count; ++i) {
      const bool odd = i % 2 != 0;
      if (i + 1 < count) {
        if (++ahead == runs) ahead = 0;
        odd ? multiply.template operator()<0>(i + 1, ahead) : multiply.template operator()<1>(i + 1, ahead);
      }
      if (i < count) odd ? keep.template operator()<1>() : keep.template operator()<0>();
      if (i == 0) continue;
      float* sum = sums + t * kTile * 32;
      if (b == 0) {
        begin(t);
#pragma GCC unroll 12
        for (size_t r = 0; r < m; ++r)
          for (size_t g = 0; g < 2; ++g) y[r][g] = begins ? zero() : load_floats(sum + r * 32 + g * 16);
      }
      const size_t at = first + (i - 1) * m;
      const F d[2] = {panel[0].d[b], panel[1].d[b]};
      const auto& dot = dots[odd ? 0 : 1];
#pragma GCC unroll 12
      for (size_t r = 0; r < m; ++r) {
        const F xs = set1f(x.scale[at + r]), less = set1f(x.less[at + r]);
        for (size_t g = 0; g < 2; ++g) y[r][g] = fma(d[g], fma(load_floats(dot[r] + g * 16), xs, less), y[r][g]);
        if constexpr (T::kMin) {
          const F all = set1f(x.scaled_sum[at + r]);
          for (size_t g = 0; g < 2; ++g) y[r][g] = fma(panel[g].m[b], all, y[r][g]);
        }
      }
      if (++b < runs) continue;
#pragma GCC unroll 12
      for (size_t r = 0; r < m; ++r)
        for (size_t g = 0; g < 2; ++g) store(y[r][g], sum + r * 32 + g * 16);
      end(t);
      ++t, b = 0;
    }
  }
};

void run_tiles(const QuantPart& part, size_t s) {
  with_type(part.p->w_type, [&](auto t) {
    using T = decltype(t);
    if constexpr (T::kRun == 32) {
      const TileConfig tiles = Amx::config();
      QuantTask<Amx, T>(part).strip(s);
    } else {
      __builtin_trap();  // see QuantIsa::only_run
    }
  });
}

}  // namespace
}  // namespace toy::cpu
