// The dense products against their definition, bit by bit, and against f64: every instruction set, 1 to 3
// threads.
#include "backend/cpu/gemm/gemm.h"
#include "backend/gemm_reference.h"

#include <cmath>
#include <limits>

#include "backend/cpu/kernels.h"
#include "backend/kernel_test_util.h"
#include "toy/ops/attrs/structs.h"

namespace toy::test {
namespace {

template <class T>
class LinearOf : public ::testing::Test {};
using WeightTypes = ::testing::Types<float, F16, BF16>;
TYPED_TEST_SUITE(LinearOf, WeightTypes);

int64_t first_difference(const Array<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < b.size(); ++i)
    if (std::memcmp(&a[i], &b[i], 4) != 0) return int64_t(i);
  return -1;
}

TYPED_TEST(LinearOf, EqualsItsDefinition) {
  using T = TypeParam;
  const int64_t shapes[][2] = {{9, 0},    {1, 1},     {7, 15},    {8, 16},     {9, 17},    {50, 100}, {33, 576},
                               {41, 641}, {24, 1536}, {17, 1999}, {600, 1280}, {192, 576}, {9, 2400}, {300, 2400}};
  const int64_t most = 260;
  const KernelRecord record = cpu::linear_kernel();
  for_each_target([&] {
    for (const auto& [outs, k] : shapes) {
      Array<T> w({outs, k});
      Array<float> x({most, k}), bias({outs}), acc({most, outs});
      fill_random(w, 1), fill_random(x, 2), fill_random(bias, 3), fill_random(acc, 4);
      std::vector<float> product(size_t(most * outs));
      const int64_t rows_wanted = outs * k > 100000 ? 60 : most;
      for (int64_t i = 0; i < rows_wanted; ++i)
        for (int64_t j = 0; j < outs; ++j)
          product[size_t(i * outs + j)] = dot_bits(x.data() + i * k, w.data() + j * k, size_t(k), target_has_fma());
      for (int64_t rows : {1, 2, 3, 4, 5, 7, 8, 16, 47, 48, 49, 50, 129, 260}) {
        if (rows > rows_wanted) continue;
        const int threads = 1 + int(rows % 3);
        for (int mode = 0; mode < 5; ++mode) {  // plain, bias, acc, both, both in place
          const bool with_bias = mode == 1 || mode >= 3, with_acc = mode >= 2;
          Array<float> y({rows, outs});
          std::vector<float> want(size_t(rows * outs));
          for (size_t i = 0; i < want.size(); ++i) {
            want[i] = product[i];
            if (with_bias) want[i] += bias[i % size_t(outs)];
            if (with_acc) want[i] += acc[i];
            y[i] = mode == 4 ? acc[i] : -7.0f;
          }
          const View start = !with_acc ? View() : mode == 4 ? y.view() : acc.first_rows(rows);
          run_kernel(record, {x.first_rows(rows), w.view(), with_bias ? bias.view() : View(), start}, {y.view()}, {},
                     threads);
          ASSERT_EQ(first_difference(y, want), -1) << outs << "x" << k << " rows " << rows << " mode " << mode;
          ASSERT_TRUE(y.intact() && x.intact() && w.intact());
        }
      }
    }
  });
}

TYPED_TEST(LinearOf, GradientOfInputEqualsItsDefinition) {
  using T = TypeParam;
  const int64_t shapes[][3] = {{1, 1, 1},    {13, 7, 31},    {14, 16, 32},   {15, 17, 33}, {64, 385, 50},
                               {3, 577, 96}, {29, 1153, 97}, {257, 40, 130}, {400, 33, 40}};
  const KernelRecord record = cpu::linear_grad_x_kernel();
  for_each_target([&] {
    for (const auto& [rows, outs, ins] : shapes) {
      Array<T> w({outs, ins});
      Array<float> dy({rows, outs}), acc({rows, ins});
      fill_random(w, 1), fill_random(dy, 2), fill_random(acc, 3);
      for (int mode = 0; mode < 3; ++mode) {  // plain, acc, acc in place
        std::vector<float> want(size_t(rows * ins));
        for (size_t i = 0; i < size_t(rows); ++i)
          for (size_t j = 0; j < size_t(ins); ++j)
            want[i * size_t(ins) + j] =
                outer_bits(dy.data() + i * size_t(outs), 1, w.data() + j, size_t(ins), size_t(outs),
                           mode ? &acc[i * size_t(ins) + j] : nullptr, target_has_fma());
        for (int threads : {1, 2, 3, 4}) {
          Array<float> dx({rows, ins});
          for (size_t i = 0; i < want.size(); ++i) dx[i] = mode == 2 ? acc[i] : -7.0f;
          const View start = mode == 0 ? View() : mode == 1 ? acc.view() : dx.view();
          run_kernel(record, {dy.view(), w.view(), start}, {dx.view()}, {}, threads);
          ASSERT_EQ(first_difference(dx, want), -1) << rows << " rows, " << outs << "x" << ins << " mode " << mode;
          ASSERT_TRUE(dx.intact());
        }
      }
    }
  });
}

TEST(Linear, GradientOfWeightEqualsItsDefinition) {
  const int64_t shapes[][3] = {{1, 1, 1},    {7, 13, 31},    {16, 14, 32},   {17, 15, 33}, {385, 64, 50},
                               {577, 3, 96}, {1153, 29, 97}, {40, 257, 130}, {33, 400, 40}};
  const KernelRecord record = cpu::linear_grad_w_kernel();
  for_each_target([&] {
    for (const auto& [rows, outs, ins] : shapes) {
      Array<float> x({rows, ins}), dy({rows, outs}), acc({outs, ins});
      fill_random(x, 1), fill_random(dy, 2), fill_random(acc, 3);
      for (int mode = 0; mode < 3; ++mode) {
        std::vector<float> want(size_t(outs * ins));
        for (size_t i = 0; i < size_t(outs); ++i)
          for (size_t j = 0; j < size_t(ins); ++j)
            want[i * size_t(ins) + j] = outer_bits(dy.data() + i, size_t(outs), x.data() + j, size_t(ins), size_t(rows),
                                                   mode ? &acc[i * size_t(ins) + j] : nullptr, target_has_fma());
        for (int threads : {1, 2, 3, 4}) {
          Array<float> dw({outs, ins});
          for (size_t i = 0; i < want.size(); ++i) dw[i] = mode == 2 ? acc[i] : -7.0f;
          const View start = mode == 0 ? View() : mode == 1 ? acc.view() : dw.view();
          run_kernel(record, {dy.view(), x.view(), start}, {dw.view()}, {}, threads);
          ASSERT_EQ(first_difference(dw, want), -1) << rows << " rows, " << outs << "x" << ins << " mode " << mode;
          ASSERT_TRUE(dw.intact());
        }
      }
    }
  });
}

// Products so large that a team shares them out piece by piece, in no fixed order.
TEST(Linear, PiecesThatAreClaimedHaveTheSameBits) {
  struct Product {
    int64_t rows, outs, ins;
  };
  for (const Product n : {Product{1, 3001, 208},                            // one row after the other
                          Product{5, 2001, 208}, Product{20, 2001, 200},    // few rows, w packed
                          Product{20, 2001, 1296},                          // three blocks of K
                          Product{49, 2001, 200}, Product{300, 2001, 200},  // two blocks of rows
                          Product{260, 1001, 1300}}) {                      // two, of three blocks of K
    Array<float> w({n.outs, n.ins});
    fill_random(w, 2);
    Array<float> x({n.rows, n.ins}), dy({n.rows, n.outs});
    fill_random(x, 1), fill_random(dy, 3);
    const auto results = [&](int threads) {
      Array<float> y({n.rows, n.outs}), dx({n.rows, n.ins}), dw({n.outs, n.ins});
      run_kernel(cpu::linear_kernel(), {x.view(), w.view(), View(), View()}, {y.view()}, {}, threads);
      run_kernel(cpu::linear_grad_x_kernel(), {dy.view(), w.view(), View()}, {dx.view()}, {}, threads);
      run_kernel(cpu::linear_grad_w_kernel(), {dy.view(), x.view(), View()}, {dw.view()}, {}, threads);
      std::vector<float> all;
      for (const auto* a : {&y, &dx, &dw}) {
        EXPECT_TRUE(a->intact());
        all.insert(all.end(), a->data(), a->data() + a->size());
      }
      return all;
    };
    const std::vector<float> alone = results(1);
    for (const int threads : {2, 3, 16})
      EXPECT_TRUE(results(threads) == alone) << n.rows << " rows, " << threads << " threads";
  }
}

// The longest chain of roundings: steps of a lane (or of a block), the tree, the blocks, bias and acc.
TEST(Linear, StaysWithinTheErrorBoundOfItsOrder) {
  const int64_t rows = 33, outs = 20, k = 3000;
  Array<float> x({rows, k}), w({outs, k}), y({rows, outs}), dy({rows, outs}), dx({rows, k}), dw({outs, k});
  fill_random(x, 1), fill_random(w, 2), fill_random(dy, 3);
  for_each_target([&] {
    run_kernel(cpu::linear_kernel(), {x.view(), w.view(), View(), View()}, {y.view()}, {}, 2);
    run_kernel(cpu::linear_grad_x_kernel(), {dy.view(), w.view(), View()}, {dx.view()}, {}, 2);
    run_kernel(cpu::linear_grad_w_kernel(), {dy.view(), x.view(), View()}, {dw.view()}, {}, 2);
    const auto check = [](float got, const float* a, size_t as, const float* b, size_t bs, size_t n, double steps) {
      double sum = 0, magnitude = 0;
      for (size_t i = 0; i < n; ++i) {
        sum += double(a[i * as]) * b[i * bs];
        magnitude += std::abs(double(a[i * as]) * b[i * bs]);
      }
      ASSERT_LE(std::abs(got - sum), steps * 2 * 0x1p-24 * magnitude);
    };
    for (size_t i = 0; i < size_t(rows); ++i)
      for (size_t j = 0; j < size_t(outs); ++j) check(y[i * outs + j], &x[i * k], 1, &w[j * k], 1, k, 640 / 16 + 4 + 5);
    for (size_t l = 0; l < size_t(k); l += 7) {
      for (size_t i = 0; i < size_t(rows); ++i) check(dx[i * k + l], &dy[i * outs], 1, &w[l], k, outs, outs);
      for (size_t j = 0; j < size_t(outs); ++j) check(dw[j * k + l], &dy[j], outs, &x[l], k, rows, rows);
    }
  });
}

TEST(Linear, NonFiniteRowLeavesTheOthersAlone) {
  const int64_t rows = 70, outs = 19, k = 33;
  Array<float> x({rows, k}), w({outs, k}), clean({rows, outs}), y({rows, outs}), dy({rows, outs}), dx({rows, k}),
      clean_dx({rows, k});
  fill_random(x, 1), fill_random(w, 2), fill_random(dy, 3);
  for_each_target([&] {
    for (int64_t few : {int64_t(5), rows}) {
      run_kernel(cpu::linear_kernel(), {x.first_rows(few), w.view(), View(), View()}, {clean.first_rows(few)});
      run_kernel(cpu::linear_grad_x_kernel(), {dy.first_rows(few), w.view(), View()}, {clean_dx.first_rows(few)});
      const float kept = x[size_t(2 * k + 4)], kept_dy = dy[size_t(2 * outs + 4)];
      x[size_t(2 * k + 4)] = std::numeric_limits<float>::quiet_NaN();
      dy[size_t(2 * outs + 4)] = std::numeric_limits<float>::infinity();
      run_kernel(cpu::linear_kernel(), {x.first_rows(few), w.view(), View(), View()}, {y.first_rows(few)});
      run_kernel(cpu::linear_grad_x_kernel(), {dy.first_rows(few), w.view(), View()}, {dx.first_rows(few)});
      x[size_t(2 * k + 4)] = kept;
      dy[size_t(2 * outs + 4)] = kept_dy;
      for (size_t i = 0; i < size_t(few); ++i) {
        for (size_t j = 0; j < size_t(outs); ++j) {
          if (i == 2)
            EXPECT_TRUE(std::isnan(y[i * size_t(outs) + j]));
          else
            EXPECT_EQ(y[i * size_t(outs) + j], clean[i * size_t(outs) + j]);
        }
        for (size_t j = 0; j < size_t(k); ++j) {
          if (i == 2)
            EXPECT_FALSE(std::isfinite(dx[i * size_t(k) + j]));
          else
            EXPECT_EQ(dx[i * size_t(k) + j], clean_dx[i * size_t(k) + j]);
        }
      }
    }
  });
}

TEST(Linear, TakesFewerRowsThanPlannedAndNone) {
  const int64_t planned = 600, outs = 70, k = 1300;
  Array<float> x({planned, k}), w({outs, k}), y({planned, outs}), dy({planned, outs}), dx({planned, k}), dw({outs, k});
  fill_random(x, 1), fill_random(w, 2), fill_random(dy, 3);
  for (int threads : {1, 2, 3})
    for (int64_t rows : {0, 1, 48, 49, 257, 513, 600}) {
      const View some_x = x.first_rows(rows), some_dy = dy.first_rows(rows);
      run_kernel(cpu::linear_kernel(), {some_x, w.view(), View(), View()}, {y.first_rows(rows)}, {}, threads,
                 Planned{{x.view(), w.view(), View(), View()}, {y.view()}});
      run_kernel(cpu::linear_grad_x_kernel(), {some_dy, w.view(), View()}, {dx.first_rows(rows)}, {}, threads,
                 Planned{{dy.view(), w.view(), View()}, {dx.view()}});
      run_kernel(cpu::linear_grad_w_kernel(), {some_dy, some_x, View()}, {dw.view()}, {}, threads,
                 Planned{{dy.view(), x.view(), View()}, {dw.view()}});
      for (int64_t i = rows > 3 ? rows - 3 : 0; i < rows; ++i)
        for (size_t j = 0; j < size_t(outs); j += 9)
          ASSERT_EQ(y[size_t(i * outs) + j],
                    dot_bits(&x[size_t(i * k)], &w[j * size_t(k)], size_t(k), target_has_fma()));
      for (size_t j = 0; j < size_t(outs); j += 9)
        ASSERT_EQ(dw[j * size_t(k) + 5],
                  outer_bits(&dy[j], size_t(outs), &x[5], size_t(k), size_t(rows), nullptr, target_has_fma()));
    }
}

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

TEST(Matmul, EqualsItsDefinition) {
  const int64_t shapes[][4] = {{1, 1, 1, 1},    {5, 7, 9, 11},    {3, 40, 70, 520},
                               {4, 64, 64, 64}, {1, 100, 50, 33}, {0, 3, 4, 5}};
  for_each_target([&] {
    for (const auto& [items, m, n, k] : shapes)
      for (const bool ta : {false, true})
        for (const bool tb : {false, true})
          for (int threads : {1, 2, 3}) {
            Array<float> a(ta ? Shape{items, k, m} : Shape{items, m, k}),
                b(tb ? Shape{items, n, k} : Shape{items, k, n});
            Array<float> c({items, m, n});
            fill_random(a, 1), fill_random(b, 2);
            run_kernel(cpu::matmul_kernel(), {a.view(), b.view()}, {c.view()}, MatmulAttrs{ta, tb}, threads);
            for (size_t t = 0; t < size_t(items); ++t)
              for (size_t i = 0; i < size_t(m); i += 3)
                for (size_t j = 0; j < size_t(n); j += 2) {
                  const float* pa = &a[t * size_t(m * k)] + (ta ? i : i * size_t(k));
                  const float* pb = &b[t * size_t(k * n)] + (tb ? j * size_t(k) : j);
                  ASSERT_EQ(
                      c[(t * size_t(m) + i) * size_t(n) + j],
                      outer_bits(pa, ta ? size_t(m) : 1, pb, tb ? 1 : size_t(n), size_t(k), nullptr, target_has_fma()))
                      << items << " " << m << " " << n << " " << k << " " << ta << tb;
                }
            ASSERT_TRUE(c.intact());
          }
  });
}

// Sizes of which no operand is held in one block, nor k done in one: A is held in the second, B in the first.
TEST(Matmul, EqualsItsDefinitionInManyBlocks) {
  for_each_target([&] {
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{803, 401}, {401, 803}})
      for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
          constexpr int64_t k = 1001;
          Array<float> a(ta ? Shape{k, m} : Shape{m, k}), b(tb ? Shape{n, k} : Shape{k, n});
          fill_random(a, 1), fill_random(b, 2);
          for (int threads : {1, 3}) {
            Array<float> c({m, n});
            run_kernel(cpu::matmul_kernel(), {a.view(), b.view()}, {c.view()}, MatmulAttrs{ta, tb}, threads);
            for (int64_t i = 0; i < m; i += 7)
              for (int64_t j = i % 5; j < n; j += 5)
                ASSERT_EQ(c[size_t(i * n + j)],
                          outer_bits(&a[size_t(ta ? i : i * k)], size_t(ta ? m : 1), &b[size_t(tb ? j * k : j)],
                                     size_t(tb ? 1 : n), size_t(k), nullptr, target_has_fma()))
                    << i << "," << j << " of " << m << "x" << n << " " << ta << tb;
            ASSERT_TRUE(c.intact());
          }
        }
  });
}

}  // namespace
}  // namespace toy::test
