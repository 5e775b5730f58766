// The output projection with cross-entropy against f64: every instruction set, 1 to 3 threads.
#include <cmath>
#include <limits>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/kernel_test_util.h"
#include "toy/ops/attrs/structs.h"
#include "toy/tensor/quantize.h"

namespace toy::test::xent_test {
namespace {

// Everything in f64, from the f32 inputs.
struct XentResult {
  double loss = 0;
  std::vector<double> nll, dx, dw, dx_magnitude, dw_magnitude;  // magnitudes: sums of absolute terms
};
template <class T>
XentResult xent_in_f64(const Array<float>& x, const Array<T>& w, const Array<int32_t>& targets,
                       const Array<float>& weight, size_t rows, size_t vocab, size_t width) {
  XentResult r{0,
               std::vector<double>(rows),
               std::vector<double>(rows * width),
               std::vector<double>(vocab * width),
               std::vector<double>(rows * width),
               std::vector<double>(vocab * width)};
  std::vector<double> p(vocab);
  for (size_t i = 0; i < rows; ++i) {
    if (targets[i] < 0) continue;
    double most = -1e300, sum = 0;
    for (size_t j = 0; j < vocab; ++j) {
      p[j] = 0;
      for (size_t l = 0; l < width; ++l) p[j] += double(x[i * width + l]) * to_float(w[j * width + l]);
      most = std::max(most, p[j]);
    }
    for (size_t j = 0; j < vocab; ++j) sum += std::exp(p[j] - most);
    r.nll[i] = most + std::log(sum) - p[size_t(targets[i])];
    r.loss += weight[i] * r.nll[i];
    for (size_t j = 0; j < vocab; ++j) {
      const double g = weight[i] * (std::exp(p[j] - most) / sum - (int32_t(j) == targets[i]));
      for (size_t l = 0; l < width; ++l) {
        const double to_x = g * to_float(w[j * width + l]), to_w = g * x[i * width + l];
        r.dx[i * width + l] += to_x, r.dx_magnitude[i * width + l] += std::abs(to_x);
        r.dw[j * width + l] += to_w, r.dw_magnitude[j * width + l] += std::abs(to_w);
      }
    }
  }
  return r;
}

struct XentCase {
  int64_t rows, vocab, width;
  float scale;  // of the weights: how extreme the logits are
};

// The f32 logits are off by at most their sum's bound; a softmax moves by twice the largest such error,
// relatively.
// With bf16 products x and w hold bf16 values, so that only the rounding of the logits' gradients is added.
template <class T>
void check_xent(const XentCase& c, bool gradients, bool bf16 = false) {
  const auto [rows, vocab, width, scale] = c;
  Array<float> x({rows, width}), weight({rows}), nll({rows}), dx({rows, width}), dw({vocab, width}), loss((Shape()));
  Array<T> w({vocab, width});
  Array<int32_t> targets({rows});
  fill_random(x, 1), fill_random(weight, 3);
  Array<float> w32({vocab, width});
  fill_random(w32, 2);
  for (size_t i = 0; bf16 && i < w32.size(); ++i) w32[i] = to_float(from_float<BF16>(w32[i]));
  for (size_t i = 0; bf16 && i < x.size(); ++i) x[i] = to_float(from_float<BF16>(x[i]));
  for (size_t i = 0; i < w.size(); ++i) w[i] = from_float<T>(w32[i] * scale);
  for (size_t i = 0; i < size_t(rows); ++i) {
    targets[i] = i % 7 == 3 ? -1 : int32_t(i * 31 % size_t(vocab));
    if (i % 5 == 2) weight[i] = 0;
  }
  const XentResult want = xent_in_f64(x, w, targets, weight, size_t(rows), size_t(vocab), size_t(width));
  const double terms = bf16 ? double(width) : double(width / 16);
  const double off = 2 * 0x1p-24 * (terms + 8) * double(width) * scale;  // of a logit, at most
  const double relative = 2 * off + (bf16 ? 0x1p-9 : 0) + 0x1p-20;
  std::vector<float> first;
  for (int threads : {1, 2, 3}) {
    const View none;
    const auto report = run_kernel(bf16 ? cpu::linear_xent_bf16_kernel() : cpu::linear_xent_kernel(),
                                   {x.view(), w.view(), targets.view(), weight.view(), none, none},
                                   {loss.view(), threads == 2 ? none : nll.view(), gradients ? dx.view() : none,
                                    gradients ? dw.view() : none, none, none},
                                   LinearXentAttrs{}, threads, {}, bf16 ? DType::bf16 : DType::f32);
    EXPECT_FALSE(report);
    double magnitude = 0;
    for (size_t i = 0; i < size_t(rows); ++i) {
      const double error = 2 * off + 0x1p-22 * (1 + std::abs(want.nll[i]));
      EXPECT_NEAR(nll[i], want.nll[i], error) << i;
      magnitude += std::abs(weight[i]) * (error + 0x1p-23 * std::abs(want.nll[i]));
    }
    EXPECT_NEAR(loss[0], want.loss, magnitude + 0x1p-23 * std::abs(want.loss));
    if (!gradients) continue;
    const double dx_bound = relative + 0x1p-23 * double(vocab), dw_bound = relative + 0x1p-23 * double(rows);
    // |softmax - 1| of a sure target is small against the softmax, whose error it inherits.
    for (size_t i = 0; i < dx.size(); ++i)
      ASSERT_NEAR(dx[i], want.dx[i],
                  dx_bound * want.dx_magnitude[i] + relative * scale * std::abs(weight[i / size_t(width)]));
    double most_weight = 0;
    for (size_t i = 0; i < size_t(rows); ++i) most_weight += std::abs(weight[i]);
    for (size_t i = 0; i < dw.size(); ++i)
      ASSERT_NEAR(dw[i], want.dw[i], dw_bound * want.dw_magnitude[i] + relative * most_weight);
    std::vector<float> all(dx.data(), dx.data() + dx.size());
    all.insert(all.end(), dw.data(), dw.data() + dw.size());
    all.push_back(loss[0]);
    if (first.empty()) first = all;
    EXPECT_EQ(std::memcmp(first.data(), all.data(), all.size() * 4), 0) << "bits differ with " << threads << " threads";
    EXPECT_TRUE(dx.intact() && dw.intact() && nll.intact() && loss.intact());
  }
}

TEST(LinearXent, AgreesWithF64) {
  for_each_target([] {
    for (const XentCase& c :
         {XentCase{1, 1, 1, 1}, {5, 3, 2, 1}, {64, 256, 64, 0.3f}, {33, 1100, 31, 1}, {20, 50, 16, 40}}) {
      SCOPED_TRACE(c.vocab);
      check_xent<float>(c, true);
      check_xent<float>(c, false);
      check_xent<BF16>(c, false);
      check_xent<F16>(c, false);
    }
  });
}

TEST(LinearXent, Bf16ProductsAgreeWithF64) {
  if (!cpu::has_bf16_products()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  for (const XentCase& c : {XentCase{1, 3, 16, 1}, {7, 33, 17, 1}, {65, 700, 64, 0.5f}, {150, 131072, 2, 1}})
    check_xent<float>(c, true, true);
  check_xent<float>({9, 50, 24, 1}, false, true);
}

TEST(LinearXent, SumsChunksOfRows) { check_xent<float>({150, 131072, 2, 1}, true); }  // 64 rows a chunk

// Rows without a weight are left out, unless single terms are wanted: no other bit depends on that.
TEST(LinearXent, RowsThatDoNotCountChangeNoBits) {
  struct Sizes {
    int64_t rows, vocab, width, added;
    bool first_and_last_count;
  };
  const auto check = [](const Sizes& s, float softcap, bool with_dw, bool bf16, DType type = DType::f32) {
    const auto [rows, vocab, width, added, ends] = s;
    Array<float> x({rows, width}), w({vocab, width}), weight({rows}), z({rows, added}), b({vocab, added});
    Array<int32_t> targets({rows});
    fill_random(x, 1), fill_random(w, 2), fill_random(weight, 3), fill_random(z, 4), fill_random(b, 5);
    std::vector<std::byte> blocks(bytes_of(type, vocab * width));
    if (is_quantized(type))
      quantize(type, {w.data(), w.size()}, std::vector<float>(size_t(width), 1.0f), blocks.data());
    const View weights = is_quantized(type) ? View(blocks.data(), type, {vocab, width}) : w.view();
    for (size_t i = 0; i < size_t(rows); ++i) {
      targets[i] = int32_t(i * 31 % size_t(vocab));
      if ((i / 3) % 4 != 1 && (!ends || (i > 0 && i + 1 < size_t(rows)))) weight[i] = 0;
    }
    std::vector<float> first;
    for (const bool single_terms : {true, false})
      for (const int threads : {1, 3}) {
        Array<float> loss((Shape())), nll({rows}), dx({rows, width}), dw({vocab, width}), dz({rows, added}),
            db({vocab, added});
        for (Array<float>* a : {&dx, &dw, &dz, &db}) std::fill_n(a->data(), a->size(), NAN);
        const View none;
        run_kernel(bf16 ? cpu::linear_xent_bf16_kernel() : cpu::linear_xent_kernel(),
                   {x.view(), weights, targets.view(), weight.view(), added ? z.view() : none, added ? b.view() : none},
                   {loss.view(), single_terms ? nll.view() : none, dx.view(), with_dw ? dw.view() : none,
                    added ? dz.view() : none, added && with_dw ? db.view() : none},
                   LinearXentAttrs{softcap}, threads, {}, bf16 ? DType::bf16 : DType::f32);
        std::vector<float> all{loss[0]};
        for (Array<float>* a : {&dx, &dw, &dz, &db})
          if (a != &dw && a != &db ? a != &dz || added : with_dw && (a == &dw || added))
            all.insert(all.end(), a->data(), a->data() + a->size());
        for (const float v : all) ASSERT_TRUE(std::isfinite(v));
        if (first.empty()) first = all;
        ASSERT_EQ(all.size(), first.size());
        EXPECT_EQ(std::memcmp(first.data(), all.data(), all.size() * 4), 0) << single_terms << threads;
        EXPECT_TRUE(loss.intact() && nll.intact() && dx.intact() && dw.intact() && dz.intact() && db.intact());
      }
  };
  // Chunks of 64 rows in the last two: some of a few rows that count, one of none.
  for (const Sizes& s : {Sizes{1, 5, 3, 0, false},
                         {37, 203, 33, 0, false},
                         {37, 203, 33, 5, true},
                         {600, 131072, 2, 0, false},
                         {150, 131072, 2, 3, true}})
    for (const bool with_dw : {true, false}) {
      SCOPED_TRACE(testing::Message() << s.rows << " " << s.added << with_dw);
      check(s, 0, with_dw, false);
      if (s.vocab < 1000) check(s, 0.7f, with_dw, false);
      if (s.vocab < 1000 && cpu::has_bf16_products()) check(s, 0, with_dw, true);
    }
  // Quantized weights are multiplied in their blocks or as panels in f32, depending on the number of rows.
  for (const DType type : {DType::q8_0, DType::q4_k})
    for (const Sizes& s : {Sizes{37, 203, 256, 0, false},
                           {300, 203, 512, 5, true},
                           {150, 2100, 512, 0, false},
                           {60, 203, 4096, 0, false}}) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << s.rows << " " << s.vocab);
      check(s, 0, false, false, type);
      check(s, 0.7f, false, false, type);
    }
}

TEST(LinearXent, ExtremeLogitsAndNonFiniteRows) {
  const int64_t rows = 6, vocab = 40, width = 4;
  for_each_target([&] {
    Array<float> x({rows, width}), w({vocab, width}), weight({rows}), nll({rows}), dx({rows, width}), loss((Shape()));
    Array<int32_t> targets({rows});
    for (size_t j = 0; j < size_t(vocab); ++j) w[j * 4] = float(j);
    for (size_t i = 0; i < size_t(rows); ++i) weight[i] = 1, targets[i] = 39;
    x[0] = 1e30f;                                     // sure of the right one
    x[4] = -1e30f;                                    // sure of a wrong one: a huge but finite term
    x[8] = std::numeric_limits<float>::quiet_NaN();   // NaN everywhere
    x[16] = std::numeric_limits<float>::quiet_NaN();  // ignored
    weight[4] = 0;
    targets[5] = -1;
    run_kernel(cpu::linear_xent_kernel(), {x.view(), w.view(), targets.view(), weight.view(), View(), View()},
               {loss.view(), nll.view(), dx.view(), View(), View(), View()}, LinearXentAttrs{}, 2);
    EXPECT_EQ(nll[0], 0);
    EXPECT_FLOAT_EQ(nll[1], 39e30f);
    EXPECT_TRUE(std::isnan(nll[2]) && std::isnan(dx[8]) && std::isnan(loss[0]));
    EXPECT_NEAR(nll[3], std::log(40.0), 1e-6);
    EXPECT_EQ(nll[5], 0);
    for (size_t l = 0; l < 4; ++l) {
      EXPECT_EQ(dx[l], 0);
      EXPECT_EQ(dx[16 + l], 0) << "an ignored row has no gradient";
      EXPECT_EQ(dx[20 + l], 0);
    }
    EXPECT_EQ(dx[4], -39);
  });
}

TEST(LinearXent, ReportsTargetsOutOfRangeAndTakesNoRows) {
  Array<float> x({3, 4}), w({5, 4}), weight({3}), dw({5, 4}), loss((Shape()));
  Array<int32_t> targets({3});
  fill_random(x, 1), fill_random(w, 2);
  weight[0] = weight[1] = weight[2] = 1;
  targets[1] = 5;
  const std::vector<View> in{x.view(), w.view(), targets.view(), weight.view(), View(), View()};
  const std::vector<View> out{loss.view(), View(), View(), dw.view(), View(), View()};
  const auto report = run_kernel(cpu::linear_xent_kernel(), in, out, LinearXentAttrs{}, 2);
  EXPECT_EQ(report, "linear_xent: row 1 has target 5");
  EXPECT_TRUE(std::isfinite(loss[0]));
  for (size_t i = 0; i < dw.size(); ++i) dw[i] = 7;
  loss[0] = 7;
  run_kernel(cpu::linear_xent_kernel(),
             {x.first_rows(0), w.view(), targets.first_rows(0), weight.first_rows(0), View(), View()}, out,
             LinearXentAttrs{}, 2, Planned{in, out});
  EXPECT_EQ(loss[0], 0);
  for (size_t i = 0; i < dw.size(); ++i) EXPECT_EQ(dw[i], 0);
}

}  // namespace
}  // namespace toy::test::xent_test
