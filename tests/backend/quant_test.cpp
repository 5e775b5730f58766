// Products on quantized weights: their definition in plain loops, every instruction set, any rows, threads and shapes,
// the same bits.
#include "backend/cpu/quant/quant.h"

#include <bit>
#include <cmath>
#include <random>

#include "backend/cpu/quant/quant_isa.h"
#include "backend/kernel_test_util.h"
#include "backend/quant_amx_emulated.h"
#include "toy/tensor/buffer.h"
#include "toy/tensor/quantize.h"

namespace toy::test::quant_test {
namespace {

using cpu::QuantIsa;
using cpu::QuantRows;

std::vector<DType> quantized_types() {
  std::vector<DType> types;
  for (const DTypeInfo& t : kDTypes)
    if (is_quantized(t.type)) types.push_back(t.type);
  return types;
}

// Random bytes with sensible scales: quantized random values.
std::vector<std::byte> random_weights(DType type, int64_t outs, int64_t k, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(outs * k));
  for (float& v : values) v = normal(random);
  std::vector<std::byte> blocks(size_t(outs) * bytes_of(type, k));
  for (int64_t o = 0; o < outs; ++o)
    quantize(type, std::span(values).subspan(size_t(o * k), size_t(k)), {},
             blocks.data() + size_t(o) * bytes_of(type, k));
  return blocks;
}

struct Case {
  DType type;
  int64_t rows, outs, k;
  std::vector<std::byte> w;
  Array<float> x;
  bool repacked = false;
  Case(DType type_in, int64_t rows_in, int64_t outs_in, int64_t k_in)
      : type(type_in), rows(rows_in), outs(outs_in), k(k_in), w(random_weights(type, outs, k, 5)), x({rows, k}) {
    fill_random(x, 3);
    // Blocks of 32 have scales that are far apart; one is zero.
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] *= std::exp(float(i % 7) - 3) * std::ldexp(1.0f, -int(i / 32 * 7 % 15));
      if (i % size_t(k) / 32 == 3) x[i] = 0;
    }
  }
};

Array<float> product(const Case& c, int threads, int64_t first = 0, int64_t count = -1, const float* bias = nullptr,
                     const float* acc = nullptr) {
  if (count < 0) count = c.rows;
  Array<float> y({count, c.outs});
  Buffer workspace(cpu::quant_workspace(c.type, size_t(count), size_t(c.outs), size_t(c.k), threads));
  const cpu::QuantProduct p{c.x.data() + first * c.k,
                            c.w.data(),
                            c.type,
                            size_t(count),
                            size_t(c.outs),
                            size_t(c.k),
                            bias,
                            acc,
                            y.data(),
                            c.repacked};
  ThreadPool& pool = pool_of(threads);
  pool.run([&](int thread) {
    cpu::quant_product(p, {thread, threads, threads > 1 ? &pool : nullptr}, workspace.data());
  });
  EXPECT_TRUE(y.intact());
  return y;
}

bool same(const float* a, const float* b, size_t n) { return std::memcmp(a, b, n * sizeof(float)) == 0; }

// Values that share a scale of the weights.
int64_t run_of(DType type) { return type == DType::q2_k || type == DType::q3_k || type == DType::q6_k ? 16 : 32; }

// How rows of x are rounded, as quant.h states it.
float scale_of_run(const float* x, int64_t run) {
  float most = 0;
  for (int64_t j = 0; j < run; ++j) most = std::max(most, std::fabs(x[j]));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(most / 127) & ~3u);
}

// Products in f64 of the dequantized weights and the rounded rows.
TEST(QuantProduct, IsTheProductOfRoundedRows) {
  for (const DType type : quantized_types())
    for (const auto& [outs, k] : {std::pair<int64_t, int64_t>{5, 256}, {70, 512}, {33, 768}, {32, 416}, {7, 32}}) {
      if (k % info_of(type).block) continue;
      const int64_t run = run_of(type);
      const Case c(type, 3, outs, k);
      const Array<float> y = product(c, 1);
      std::vector<float> w(size_t(outs * k));
      dequantize(type, c.w.data(), w);
      for (int64_t r = 0; r < c.rows; ++r)
        for (int64_t o = 0; o < outs; ++o) {
          double want = 0, bound = 0;
          for (int64_t i = 0; i < k; i += run) {
            const float scale = scale_of_run(&c.x[size_t(r * k + i)], run), inverse = scale > 0 ? 1 / scale : 0;
            for (int64_t j = i; j < i + run; ++j) {
              const double rounded = double(scale) * std::nearbyint(c.x[size_t(r * k + j)] * inverse);
              want += rounded * w[size_t(o * k + j)];
              bound += std::fabs(rounded * w[size_t(o * k + j)]);
            }
          }
          // Each run adds one rounding of its product and one of the sum, twice with a minimum, whose two terms cancel:
          // of the magnitude of the weights, 16 times that of the values at most (q2_k, q4_1). Few of them are large.
          const double u = 0x1p-24, tolerance = double(k / info_of(type).block + 4) * 64 * u * bound;
          EXPECT_NEAR(y[size_t(r * outs + o)], want, tolerance) << name_of(type) << " " << outs << "x" << k;
        }
    }
}

std::vector<const QuantIsa*> isas(DType type) {
  std::vector<const QuantIsa*> list;
  for (const QuantIsa* isa : {cpu::quant_vnni(), cpu::quant_amx(), quant_amx_emulated(), cpu::quant_avx2(),
                              cpu::quant_few_vnni(), cpu::quant_few_avx2(), cpu::quant_plain()})
    if (isa && isa->has(type)) list.push_back(isa);
  return list;
}

// One thread, one instruction set, parts of `most` rows. `repacked`: what its repack() wrote; empty: the weights as
// they are.
std::vector<float> run_set(const QuantIsa& isa, const Case& c, const std::vector<std::byte>& repacked = {},
                           const float* bias = nullptr, const float* acc = nullptr, size_t most = size_t(-1)) {
  const DType type = c.type;
  const size_t run = size_t(run_of(type)), rows = size_t(c.rows), outs = size_t(c.outs), k = size_t(c.k);
  Buffer memory(QuantRows::bytes(rows, k, run) + 64), sums(rows * 32 * sizeof(float));
  const QuantRows x(memory.data(), rows, k, info_of(type).block, run, isa.tile);
  cpu::quantize_rows(c.x.data(), 0, rows, isa.offset(type), isa.by_runs, x);
  std::vector<float> y(rows * outs);
  const cpu::QuantProduct p{
      c.x.data(),       repacked.empty() ? c.w.data() : repacked.data(), type, rows, outs, k, bias, acc, y.data(),
      !repacked.empty()};
  for (size_t r = 0; r < rows; r += std::min(most, rows - r))
    for (size_t s = 0; s * isa.strip < outs; ++s)
      isa.run({&p, x, r, std::min(most, rows - r), reinterpret_cast<float*>(sums.data())}, s);
  return y;
}

// A repacked copy gives the same bits, for any rows and threads, also where the last strip overlaps the one before.
TEST(QuantProduct, RepackedWeightsGiveTheSameBits) {
  for (const DType type : quantized_types())
    for (const auto& [o, i] : {std::pair<int64_t, int64_t>{32, 256}, {33, 512}, {77, 768}, {101, 416}}) {
      const int64_t outs = o, k = i;  // clang 14 does not capture structured bindings
      if (k % info_of(type).block) continue;
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 40}) {
        Case c(type, rows, outs, k);
        const Array<float> y = product(c, 1);
        const size_t bytes = cpu::repacked_bytes(type, size_t(outs), size_t(k));
        ASSERT_GE(bytes, c.w.size());
        for (const int threads : {1, 2, 3}) {
          Case copy(type, rows, outs, k);
          copy.repacked = true, copy.w.assign(bytes, std::byte(0xee));
          ThreadPool& pool = pool_of(threads);
          pool.run([&](int thread) {
            cpu::repack(type, c.w.data(), size_t(outs), size_t(k), {thread, threads, threads > 1 ? &pool : nullptr},
                        copy.w.data());
          });
          const Array<float> of_copy = product(copy, threads);
          EXPECT_TRUE(same(of_copy.data(), y.data(), y.size()))
              << name_of(type) << " " << rows << " rows of " << outs << "x" << k << ", " << threads << " threads";
        }
      }
    }
}

std::vector<std::byte> repacked_by(const QuantIsa& isa, const Case& c) {
  const size_t row_bytes = bytes_of(c.type, c.k), strips = (size_t(c.outs) + isa.strip - 1) / isa.strip;
  std::vector<std::byte> copy(strips * isa.strip * row_bytes);
  for (size_t s = 0; s < strips; ++s)
    isa.repack(
        c.type,
        reinterpret_cast<const uint8_t*>(c.w.data()) + std::min(s * isa.strip, size_t(c.outs) - isa.strip) * row_bytes,
        size_t(c.k), reinterpret_cast<uint8_t*>(copy.data()) + s * isa.strip * row_bytes);
  return copy;
}

// Each instruction set reads the order that it writes.
TEST(QuantProduct, InstructionSetsAgreeOnRepackedWeights) {
  for (const DType type : quantized_types())
    for (const int64_t rows : {1, 2, 3, 4, 7, 13}) {
      const Case c(type, rows, 45, info_of(type).block == 32 ? 352 : 768);
      const Array<float> want = product(c, 1);
      for (const QuantIsa* isa : isas(type)) {
        if (!isa->repack) continue;
        const std::vector<float> y = run_set(*isa, c, repacked_by(*isa, c));
        EXPECT_TRUE(same(y.data(), want.data(), want.size())) << name_of(type) << " " << rows;
      }
    }
}

TEST(QuantProduct, FewOutputsAreNotRepacked) { EXPECT_EQ(cpu::repacked_bytes(DType::q8_0, 7, 64), 0u); }

// Alone, among others, in pieces, on any number of threads.
TEST(QuantProduct, ARowHasTheSameBitsAnywhere) {
  for (const DType type : quantized_types())
    for (const auto& [outs, k] : {std::pair<int64_t, int64_t>{70, 768}, {70, 896}, {32, 2304}}) {
      if (k % info_of(type).block) continue;
      const Case c(type, 217, outs, k);
      const Array<float> all = product(c, 1);
      for (const int threads : {2, 3}) {
        const Array<float> y = product(c, threads);
        EXPECT_TRUE(same(y.data(), all.data(), all.size())) << name_of(type) << " " << threads;
      }
      for (const int64_t first : {0, 1, 100, 216}) {
        const Array<float> one = product(c, 2, first, 1);
        EXPECT_TRUE(same(one.data(), all.data() + first * outs, size_t(outs))) << name_of(type) << " row " << first;
      }
      const Array<float> some = product(c, 3, 3, 8);
      EXPECT_TRUE(same(some.data(), all.data() + 3 * outs, size_t(8 * outs))) << name_of(type);
    }
}

void expect_sets_agree(const Case& c) {
  std::vector<std::vector<float>> results;
  for (const QuantIsa* isa : isas(c.type)) {
    results.push_back(run_set(*isa, c));
    if (isa->repack) results.push_back(run_set(*isa, c, repacked_by(*isa, c)));
  }
  for (size_t i = 1; i < results.size(); ++i)
    for (size_t j = 0; j < results[0].size(); ++j)
      ASSERT_TRUE(same(&results[i][j], &results[0][j], 1) || (std::isnan(results[i][j]) && std::isnan(results[0][j])))
          << name_of(c.type) << " set " << i << " at " << j << ": " << results[i][j] << " and " << results[0][j];
}

// Any bytes are weights: scales and values of every bit pattern.
TEST(QuantProduct, InstructionSetsAgree) {
  std::mt19937 random(1);
  for (const DType type : quantized_types())
    for (const int64_t rows : {9, 15, 70}) {
      Case c(type, rows, 45, info_of(type).block == 32 ? 896 : 768);
      for (std::byte& b : c.w) b = std::byte(random());
      const size_t bytes = info_of(type).bytes;
      for (std::byte* block = c.w.data(); block < c.w.data() + c.w.size(); block += bytes)
        while (find_broken_block(type, block, 1) >= 0)  // until its scales are finite
          for (size_t i = 0; i < bytes; ++i) block[i] = std::byte(random());
      expect_sets_agree(c);
    }
}

// Sums of products in 16 bits are largest where all values of x and of the weights are.
TEST(QuantProduct, InstructionSetsAgreeOnTheLargestValues) {
  for (const DType type : quantized_types())
    for (const auto& [fill, rows] : {std::pair{0xff, 4},
                                     {0x80, 4},
                                     {0x7f, 4},
                                     {0x00, 4},
                                     {0xff, 2},
                                     {0x80, 2},
                                     {0xff, 13},
                                     {0x80, 13},
                                     {0x7f, 13}}) {
      Case c(type, rows, 32, 256);
      for (int64_t i = 0; i < c.rows * c.k; ++i) c.x[size_t(i)] = i / c.k % 2 ? -1.0f : 1.0f;
      const size_t bytes = info_of(type).bytes;
      for (std::byte* block = c.w.data(); block < c.w.data() + c.w.size(); block += bytes)
        for (size_t i = 0; i < bytes; ++i) {
          const std::byte before = block[i];
          block[i] = std::byte(fill);
          if (find_broken_block(type, block, 1) >= 0) block[i] = before;  // part of a scale
        }
      expect_sets_agree(c);
    }
}

// Instructions on tiles have the bits of those on vectors: complete tiles of 12 rows and what is left, in one part and
// in several, the last strip complete or not, k of one run, of several chunks, and with one run in the last, with all
// that is added.
TEST(QuantProduct, TilesHaveTheBitsOfVectors) {
  const QuantIsa *const vnni = cpu::quant_vnni(), *const tiles = quant_amx_emulated();
  if (!tiles) GTEST_SKIP() << "this CPU has no AVX-512 with VNNI";
  for (const DType type : quantized_types())
    for (const auto& [outs, k] : {std::pair<int64_t, int64_t>{32, 32}, {45, 416}, {64, 256}, {77, 768}, {32, 4256}}) {
      if (k % info_of(type).block || !tiles->has(type)) continue;
      for (const int64_t rows : {1, 11, 12, 13, 35, 61}) {
        Case c(type, rows, outs, k);
        c.x[size_t(rows / 2 * k)] = INFINITY, c.x[size_t(rows / 3 * k)] = 0x1.fffffep110f;
        Array<float> bias({outs}), acc({rows, outs});
        fill_random(bias, 8), fill_random(acc, 9);
        const std::vector<float> want = run_set(*vnni, c, {}, bias.data(), acc.data());
        for (const size_t most : {size_t(12), size_t(36), size_t(-1)})
          for (const bool repacked : {false, true}) {
            const std::vector<float> y = run_set(
                *tiles, c, repacked ? repacked_by(*tiles, c) : std::vector<std::byte>(), bias.data(), acc.data(), most);
            ASSERT_TRUE(same(y.data(), want.data(), want.size()))
                << name_of(type) << " " << rows << " rows of " << outs << "x" << k << ", parts of " << most;
          }
      }
    }
}

// How AMX and VNNI are compared: loops instead of instructions take some hundred times as long.
TEST(QuantProduct, TheFasterKernelIsFound) {
  const QuantIsa *const vnni = cpu::quant_vnni(), *const tiles = quant_amx_emulated();
  if (!tiles) GTEST_SKIP() << "this CPU has no AVX-512 with VNNI";
  EXPECT_TRUE(cpu::is_faster(*vnni, *tiles));
  EXPECT_FALSE(cpu::is_faster(*tiles, *vnni));
}

TEST(QuantProduct, BiasAndWhatIsAddedComeLast) {
  for (const DType type : {DType::q4_k, DType::q8_0})
    for (const int64_t rows : {1, 5, 70}) {
      const Case c(type, rows, 40, 512);
      Array<float> bias({40}), acc({rows, 40});
      fill_random(bias, 8), fill_random(acc, 9);
      const Array<float> plain = product(c, 1), y = product(c, 2, 0, rows, bias.data(), acc.data());
      for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], plain[i] + bias[i % 40] + acc[i]);
    }
}

// Rows of zeros, tiny and huge ones, and rows that are not finite, which must show: also at the end of a row.
TEST(QuantProduct, SpecialRows) {
  for (const DType type : {DType::q8_0, DType::q4_k, DType::q5_1}) {
    Case c(type, 8, 33, 768);
    for (int64_t i = 0; i < c.k; ++i) {
      c.x[size_t(i)] = 0;
      c.x[size_t(c.k + i)] *= 1e-36f;
      c.x[size_t(2 * c.k + i)] = i % 3 ? 1e-30f : 1e30f;
    }
    c.x[size_t(3 * c.k + 5)] = INFINITY, c.x[size_t(4 * c.k + 700)] = -INFINITY;
    c.x[size_t(5 * c.k + 200)] = NAN, c.x[size_t(6 * c.k + 767)] = std::copysign(NAN, -1.0f);
    c.x[size_t(7 * c.k + 300)] = -0x1p111f, c.x[size_t(2 * c.k + 9)] = 0x1.fffffep110f;
    const Array<float> y = product(c, 1);
    for (int64_t o = 0; o < c.outs; ++o) {
      EXPECT_EQ(y[size_t(o)], 0);
      for (const int64_t row : {1, 2}) EXPECT_TRUE(std::isfinite(y[size_t(row * c.outs + o)])) << row;
      for (const int64_t row : {3, 4, 5, 6, 7}) EXPECT_TRUE(std::isnan(y[size_t(row * c.outs + o)])) << row;
    }
  }
}

// Rounded rows are as defined, whatever the instruction set that rounds them.
TEST(QuantProduct, RowsAreRoundedToTheSameBits) {
  for (const DType type : {DType::q8_0, DType::q4_k, DType::q6_k})
    for (const size_t tile : {1, 4, 6}) {
      const Case c(type, 13, 1, 768);
      const size_t rows = size_t(c.rows), k = size_t(c.k), run = size_t(run_of(type)),
                   bytes = QuantRows::bytes(rows, k, run);
      std::vector<std::vector<std::byte>> results;
      for_each_target([&, type, tile] {
        Buffer memory(bytes);
        std::memset(memory.data(), 0, bytes);
        const QuantRows x(memory.data(), rows, k, info_of(type).block, run, tile);
        cpu::quantize_rows(c.x.data(), 0, rows, 128, false, x);
        if (tile == 1)  // complete rows follow each other
          for (size_t i = 0; i < rows * k; ++i) {
            const float scale = scale_of_run(&c.x[i / run * run], int64_t(run));
            ASSERT_EQ(x.scale[i / run], scale) << i;
            ASSERT_EQ(x.q[i], scale > 0 ? std::nearbyint(c.x[i] * (1 / scale)) : 0) << i;
          }
        results.emplace_back(memory.data(), memory.data() + bytes);
      });
      for (const auto& result : results) EXPECT_TRUE(result == results[0]) << name_of(type) << " tile " << tile;
    }
}

}  // namespace
}  // namespace toy::test::quant_test
