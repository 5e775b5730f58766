// Products with operands rounded to bf16, against f64 sums of the rounded operands; bits for any number of threads.
#include <array>
#include <cmath>
#include <cstring>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/kernel_test_util.h"
#include "toy/ops/attrs/structs.h"

namespace toy::test::bf16_test {
namespace {

constexpr double kUnit = 0x1p-24;  // roundoff of f32

double rounded(float v) { return double(to_float(from_float<BF16>(v))); }

// C[i,j] = start[i,j] + sum_k a[i,k] b[k,j], every operand an accessor of f32 values. An element is at most k + 2
// additions, each within kUnit of the magnitudes.
struct Expected {
  size_t m, n, k;
  std::function<float(size_t, size_t)> a, b, start;

  void compare(const Array<float>& c, const std::string& what) const {
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j) {
        double sum = start ? double(start(i, j)) : 0, magnitude = std::fabs(sum);
        for (size_t l = 0; l < k; ++l) {
          const double term = rounded(a(i, l)) * rounded(b(l, j));
          sum += term, magnitude += std::fabs(term);
        }
        ASSERT_NEAR(double(c[i * n + j]), sum, double(k + 4) * kUnit * magnitude)
            << what << " [" << i << "," << j << "]";
      }
  }
};

class Bf16 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu::has_bf16_products()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  }

  // Runs the record with 1, 2, 3 and 8 threads: the same bits, nothing written outside.
  static void run(const KernelRecord& record, const std::vector<View>& in, Array<float>& out, const Attrs& attrs = {}) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 8}) {
      std::fill(out.data(), out.data() + out.size(), -7.0f);
      EXPECT_FALSE(run_kernel(record, in, {out.view()}, attrs, threads, {}, DType::bf16));
      if (first.empty()) first.assign(out.data(), out.data() + out.size());
      ASSERT_EQ(std::memcmp(first.data(), out.data(), out.size() * 4), 0) << threads << " threads";
      ASSERT_TRUE(out.intact());
    }
  }
};

constexpr struct {
  int64_t rows, outs, ins;
} kShapes[] = {{1, 1, 1}, {3, 5, 7}, {33, 49, 31}, {64, 17, 513}, {70, 130, 1030}, {400, 100, 65}};

TEST_F(Bf16, Linear) {
  for (const auto& shape : kShapes) {
    const int64_t rows = shape.rows, outs = shape.outs, ins = shape.ins;
    if (rows < 32) continue;  // left to the f32 record
    Array<float> x({rows, ins}), w({outs, ins}), bias({outs}), acc({rows, outs}), y({rows, outs});
    fill_random(x, 1), fill_random(w, 2), fill_random(bias, 3), fill_random(acc, 4);
    const View none;
    Expected e{size_t(rows),
               size_t(outs),
               size_t(ins),
               [&](size_t i, size_t l) { return x[i * size_t(ins) + l]; },
               [&](size_t l, size_t j) { return w[j * size_t(ins) + l]; },
               {}};
    run(cpu::linear_bf16_kernel(), {x.view(), w.view(), none, none}, y);
    e.compare(y, "plain");
    e.start = [&](size_t, size_t j) { return bias[j]; };
    run(cpu::linear_bf16_kernel(), {x.view(), w.view(), bias.view(), none}, y);
    e.compare(y, "bias");
    e.start = [&](size_t i, size_t j) { return acc[i * size_t(outs) + j]; };
    run(cpu::linear_bf16_kernel(), {x.view(), w.view(), none, acc.view()}, y);
    e.compare(y, "acc");
  }
}

TEST_F(Bf16, GradientOfInput) {
  for (const auto& shape : kShapes) {
    const int64_t rows = shape.rows, outs = shape.outs, ins = shape.ins;
    Array<float> dy({rows, outs}), w({outs, ins}), acc({rows, ins}), dx({rows, ins});
    fill_random(dy, 5), fill_random(w, 6), fill_random(acc, 7);
    Expected e{size_t(rows),
               size_t(ins),
               size_t(outs),
               [&](size_t i, size_t l) { return dy[i * size_t(outs) + l]; },
               [&](size_t l, size_t j) { return w[l * size_t(ins) + j]; },
               {}};
    run(cpu::linear_grad_x_bf16_kernel(), {dy.view(), w.view(), View()}, dx);
    e.compare(dx, "plain");
    e.start = [&](size_t i, size_t j) { return acc[i * size_t(ins) + j]; };
    run(cpu::linear_grad_x_bf16_kernel(), {dy.view(), w.view(), acc.view()}, dx);
    e.compare(dx, "acc");
  }
}

TEST_F(Bf16, GradientOfWeight) {
  for (const auto& shape : kShapes) {
    const int64_t rows = shape.rows, outs = shape.outs, ins = shape.ins;
    Array<float> dy({rows, outs}), x({rows, ins}), acc({outs, ins}), dw({outs, ins});
    fill_random(dy, 8), fill_random(x, 9), fill_random(acc, 10);
    Expected e{size_t(outs),
               size_t(ins),
               size_t(rows),
               [&](size_t i, size_t l) { return dy[l * size_t(outs) + i]; },
               [&](size_t l, size_t j) { return x[l * size_t(ins) + j]; },
               {}};
    run(cpu::linear_grad_w_bf16_kernel(), {dy.view(), x.view(), View()}, dw);
    e.compare(dw, "plain");
    e.start = [&](size_t i, size_t j) { return acc[i * size_t(ins) + j]; };
    run(cpu::linear_grad_w_bf16_kernel(), {dy.view(), x.view(), acc.view()}, dw);
    e.compare(dw, "acc");
  }
}

// Three matrices by one, either operand transposed; more threads than matrices, and fewer.
TEST_F(Bf16, Matmul) {
  for (const auto& shape : kShapes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        const int64_t m = shape.rows, n = shape.outs, k = shape.ins;
        const auto sides = [](bool transposed, int64_t r, int64_t c) {
          return transposed ? std::pair(c, r) : std::pair(r, c);
        };
        const auto [a0, a1] = sides(transpose_a, m, k);
        const auto [b0, b1] = sides(transpose_b, k, n);
        Array<float> a({3, a0, a1}), b({1, b0, b1}), y({3, m, n});
        fill_random(a, 11), fill_random(b, 12);
        run(cpu::matmul_bf16_kernel(), {a.view(), b.view()}, y, MatmulAttrs{transpose_a, transpose_b});
        for (int64_t item = 0; item < 3; ++item) {
          const float *ai = a.data() + item * m * k, *bi = b.data();
          const Expected e{size_t(m),
                           size_t(n),
                           size_t(k),
                           [&](size_t i, size_t l) { return ai[transpose_a ? l * size_t(m) + i : i * size_t(k) + l]; },
                           [&](size_t l, size_t j) { return bi[transpose_b ? j * size_t(k) + l : l * size_t(n) + j]; },
                           {}};
          Array<float> c({m, n});
          std::copy_n(y.data() + item * m * n, m * n, c.data());
          e.compare(c, "item");
        }
      }
}

// a [m,k] and b [k,n] with either dimension contiguous, init a matrix, a row, or absent.
struct ProductCase {
  size_t m, n, k;
  bool a_along_k, b_along_k;
  enum Init { none, matrix, row } init;
};

// The product by `product` with a team of `threads`.
std::vector<float> product_of(const ProductCase& c, const Array<float>& a, const Array<float>& b,
                              const Array<float>& init, int threads,
                              void (*product)(const cpu::OuterProduct&, const TeamMember&, std::byte*)) {
  std::vector<float> result(c.m * c.n, -7.0f);
  std::vector<std::byte> workspace(cpu::outer_workspace(c.m, c.n, c.k, threads, DType::bf16) + 64);
  auto* aligned = reinterpret_cast<std::byte*>(cpu::round_up(reinterpret_cast<size_t>(workspace.data()), 64));
  const cpu::OuterProduct p{
      .a = {a.data(), c.a_along_k ? c.k : 1, c.a_along_k ? 1 : c.m},
      .b = {b.data(), c.b_along_k ? 1 : c.n, c.b_along_k ? c.k : 1},
      .m = c.m,
      .n = c.n,
      .k = c.k,
      .init = c.init == ProductCase::none ? nullptr : init.data(),
      .init_is_row = c.init == ProductCase::row,
      .c = result.data(),
  };
  ThreadPool pool(threads);
  pool.run([&](int thread) { product(p, TeamMember{thread, threads, &pool}, aligned); });
  return result;
}

// What gemm.h promises of AMX, as plain loops.
float in_order_of_amx(const ProductCase& c, const Array<float>& a, const Array<float>& b, const Array<float>& init,
                      size_t i, size_t j) {
  const auto of_a = [&](size_t l) { return l < c.k ? float(rounded(a[c.a_along_k ? i * c.k + l : l * c.m + i])) : 0; };
  const auto of_b = [&](size_t l) { return l < c.k ? float(rounded(b[c.b_along_k ? j * c.k + l : l * c.n + j])) : 0; };
  float sum = c.init == ProductCase::none ? 0 : init[c.init == ProductCase::row ? j : i * c.n + j];
  for (size_t g = 0; g < c.k; g += 32) {
    float chain[2] = {0, 0};
    for (size_t l = g; l < std::min(g + 32, c.k); ++l) chain[l % 2] = std::fma(of_a(l), of_b(l), chain[l % 2]);
    sum += chain[0] + chain[1];
  }
  return sum;
}

TEST_F(Bf16, EveryInstructionGivesTheProductForEveryLayout) {
  for (const auto& size :
       {std::array<size_t, 3>{1, 1, 1}, {33, 47, 70}, {64, 32, 512}, {31, 16, 1100}, {40, 20, 4200}, {97, 33, 2}})
    for (const bool a_along_k : {true, false})
      for (const bool b_along_k : {true, false})
        for (const auto init : {ProductCase::none, ProductCase::matrix, ProductCase::row}) {
          const size_t m = size[0], n = size[1], k = size[2];
          const ProductCase c{m, n, k, a_along_k, b_along_k, init};
          SCOPED_TRACE(::testing::Message() << m << " " << n << " " << k << " " << a_along_k << b_along_k << init);
          Array<float> a({int64_t(m * k)}), b({int64_t(k * n)}), start({int64_t(m * n)});
          fill_random(a, 1), fill_random(b, 2), fill_random(start, 3);
          Array<float> out({int64_t(m), int64_t(n)});
          Expected e{m,
                     n,
                     k,
                     [&](size_t i, size_t l) { return a[a_along_k ? i * k + l : l * m + i]; },
                     [&](size_t l, size_t j) { return b[b_along_k ? j * k + l : l * n + j]; },
                     {}};
          if (init != ProductCase::none)
            e.start = [&](size_t i, size_t j) { return start[init == ProductCase::row ? j : i * n + j]; };
          const std::vector<float> dot = product_of(c, a, b, start, 1, cpu::outer_product_dot);
          std::copy(dot.begin(), dot.end(), out.data());
          e.compare(out, "dot");
          EXPECT_EQ(dot, product_of(c, a, b, start, 3, cpu::outer_product_dot));
          if (!cpu::has_amx()) continue;
          const std::vector<float> amx = product_of(c, a, b, start, 1, cpu::outer_product_amx);
          EXPECT_EQ(amx, product_of(c, a, b, start, 3, cpu::outer_product_amx));
          for (size_t i = 0; i < m; ++i)
            for (size_t j = 0; j < n; ++j)
              ASSERT_EQ(amx[i * n + j], in_order_of_amx(c, a, b, start, i, j)) << i << "," << j;
        }
}

// Many blocks of what is held; a team cuts them elsewhere, or (a small one) claims panels of them.
TEST_F(Bf16, ManyBlocksGiveTheSameBitsForAnyTeam) {
  for (const auto& [m, n] : {std::pair<size_t, size_t>{1503, 741}, {741, 1503}})
    for (const bool along_k : {true, false}) {
      const ProductCase c{m, n, 1100, along_k, !along_k, ProductCase::matrix};
      Array<float> a({int64_t(m * c.k)}), b({int64_t(c.k * n)}), start({int64_t(m * n)});
      fill_random(a, 1), fill_random(b, 2), fill_random(start, 3);
      for (const auto product : {cpu::outer_product, cpu::outer_product_dot, cpu::outer_product_amx}) {
        if (product == cpu::outer_product_amx && !cpu::has_amx()) continue;
        const std::vector<float> alone = product_of(c, a, b, start, 1, product);
        for (const int team : {2, 5}) EXPECT_EQ(alone, product_of(c, a, b, start, team, product)) << team;
      }
    }
}

TEST_F(Bf16, IsChosenOnlyWhereThePlanAllowsIt) {
  const std::vector<OperandDesc> in{{true, DType::f32, {64, 32}}, {true, DType::f32, {48, 32}}, {}, {}},
      out{{true, DType::f32, {64, 48}}};
  const Attrs none;
  const auto accepts = cpu::linear_bf16_kernel().accepts;
  EXPECT_TRUE(accepts({in, out, none, 2, DType::bf16}));
  EXPECT_FALSE(accepts({in, out, none, 2, DType::f32}));
}

}  // namespace
}  // namespace toy::test::bf16_test
