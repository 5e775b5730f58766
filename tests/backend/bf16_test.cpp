// Products with operands rounded to bf16, against f64 sums of the rounded operands; bits for any number of threads.
#include <cmath>
#include <cstring>

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/kernel_test_util.h"

namespace toy::test {
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

class Bf16 : public testing::Test {
 protected:
  void SetUp() override {
    if (!cpu::has_bf16_products()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  }

  // Runs the record with 1, 2, 3 and 8 threads: the same bits, nothing written outside.
  static void run(const KernelRecord& record, const std::vector<View>& in, Array<float>& out) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 8}) {
      std::fill(out.data(), out.data() + out.size(), -7.0f);
      EXPECT_FALSE(run_kernel(record, in, {out.view()}, {}, threads, {}, DType::bf16));
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

TEST_F(Bf16, IsChosenOnlyWhereThePlanAllowsIt) {
  const std::vector<OperandDesc> in{{true, DType::f32, {64, 32}}, {true, DType::f32, {48, 32}}, {}, {}},
      out{{true, DType::f32, {64, 48}}};
  const Attrs none;
  const auto accepts = cpu::linear_bf16_kernel().accepts;
  EXPECT_TRUE(accepts({in, out, none, 2, DType::bf16}));
  EXPECT_FALSE(accepts({in, out, none, 2, DType::f32}));
}

}  // namespace
}  // namespace toy::test
