// Products of f32 rows on quantized weights have the bits of those on the same weights in f32.
#include <fmt/format.h>

#include <cstring>
#include <random>
#include <tuple>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/quant/quant.h"
#include "backend/kernel_test_util.h"
#include "toy/tensor/quantize.h"

namespace toy::test::quant_exact_test {
namespace {

struct Weights {
  std::vector<std::byte> blocks;
  std::vector<float> values;
  Weights(DType type, int64_t outs, int64_t ins) : values(size_t(outs * ins)) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (float& v : values) v = normal(random);
    blocks.resize(bytes_of(type, outs * ins));
    quantize(type, values, std::vector<float>(size_t(ins), 1.0f), blocks.data());
    dequantize(type, blocks.data(), values);
  }
};

template <class F>
void on_team(int threads, const F& f) {
  ThreadPool& pool = pool_of(threads);
  pool.run([&](int thread) { f(TeamMember{thread, threads, threads > 1 ? &pool : nullptr}); });
}

Array<float> random_array(int64_t rows, int64_t columns, uint32_t seed) {
  Array<float> a({rows, columns});
  fill_random(a, seed);
  return a;
}

bool same(const Array<float>& a, const Array<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// 2080 x 256 values are more than a panel; 600 outputs more than one block of sums of a gradient. 300 rows pass by in
// parts. Of 4096 columns panels are made. 288 columns end within a tile.
TEST(QuantExact, HasTheBitsOfF32Weights) {
  for (const DTypeInfo& info : kDTypes) {
    if (!is_quantized(info.type)) continue;
    for (const auto& [rows, outs, ins] : {std::tuple<int64_t, int64_t, int64_t>{1, 40, 256},
                                          {7, 600, 512},
                                          {100, 33, 768},
                                          {5, 2080, 256},
                                          {300, 37, 1536},
                                          {60, 40, 4096},
                                          {9, 530, 288}})
      for (const int threads : {1, 3}) {
        if (ins % info.block != 0) continue;
        const Weights w(info.type, outs, ins);
        const Array<float> x = random_array(rows, ins, 1), dy = random_array(rows, outs, 2),
                           bias = random_array(1, outs, 3), acc = random_array(rows, outs, 4),
                           init = random_array(rows, ins, 6);
        const size_t r = size_t(rows), o = size_t(outs), i = size_t(ins);
        Array<float> want({rows, outs}), got({rows, outs}), want_dx({rows, ins}), got_dx({rows, ins});
        Buffer space(std::max({cpu::dot_workspace(r, o, i, threads), cpu::exact_workspace(r, o, i, threads),
                               cpu::outer_workspace(r, i, o, threads), cpu::exact_grad_x_workspace(r, o, i, threads)}));
        on_team(threads, [&](const TeamMember& team) {
          cpu::dot_product({.x = x.data(),
                            .w = w.values.data(),
                            .rows = r,
                            .outs = o,
                            .k = i,
                            .bias = bias.data(),
                            .acc = acc.data(),
                            .y = want.data()},
                           team, space.data());
        });
        on_team(threads, [&](const TeamMember& team) {
          cpu::exact_product({x.data(), w.blocks.data(), info.type, r, o, i, bias.data(), acc.data(), got.data()}, team,
                             space.data());
        });
        on_team(threads, [&](const TeamMember& team) {
          cpu::outer_product({.a = {dy.data(), o, 1},
                              .b = {w.values.data(), i, 1},
                              .m = r,
                              .n = i,
                              .k = o,
                              .init = init.data(),
                              .c = want_dx.data()},
                             team, space.data());
        });
        on_team(threads, [&](const TeamMember& team) {
          cpu::exact_grad_x({dy.data(), w.blocks.data(), info.type, r, o, i, init.data(), got_dx.data()}, team,
                            space.data());
        });
        const std::string what = fmt::format("{} {}x{}x{} {}", info.name, rows, outs, ins, threads);
        EXPECT_TRUE(same(got, want)) << what;
        EXPECT_TRUE(same(got_dx, want_dx)) << what;
        EXPECT_TRUE(got.intact() && got_dx.intact()) << what;
      }
  }
}

}  // namespace
}  // namespace toy::test::quant_exact_test
