// The dense products against their definition, bit by bit, and against f64: every instruction set, 1 to 3
// threads.
#include "backend/cpu/gemm/gemm.h"
#include "backend/gemm_reference.h"

#include <cmath>
#include <limits>

#include "backend/cpu/kernels.h"
#include "backend/kernel_test_util.h"
#include "toy/ops/attrs/structs.h"

namespace toy::test::gemm_test {
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
}  // namespace toy::test::gemm_test
