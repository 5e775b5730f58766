// rms_norm, its gradient, softmax and rope. Bounds are derived at the top of each kernel's file.
#include "backend/compare_util.h"

namespace toy::test::norm_test {
namespace {

double rstd_units(int64_t D) { return double(D) / 128 + 7; }

double rstd_of(const View& x, int64_t n, int64_t D, double eps) {
  double sum = 0;
  for (int64_t k = 0; k < D; ++k) sum += value_at(x, n * D + k) * value_at(x, n * D + k);
  return 1 / std::sqrt(sum / double(D) + eps);
}

TEST(RmsNorm, AgreesWithReference) {
  for (const int64_t D : kSizes) {
    const int64_t rows = D < 100 ? 130 : 3;
    Comparison c{.cpu = cpu::rms_norm_kernel()};
    c.in.push_back(random_tensor({rows, D}, 1));
    c.in.push_back(random_tensor({D}, 2));
    c.out = {{DType::f32, {rows, D}}};
    c.attrs = RmsNormAttrs{1e-3f};
    c.tolerance = [&](int, int64_t, double e) { return (rstd_units(D) + 2) * kUnit * std::fabs(e); };
    compare(c);
  }
}

TEST(RmsNorm, LeadingDimensionsAndNoRows) {
  for (const Shape& shape : {Shape{2, 3, 5, 33}, Shape{0, 64}, Shape{17}}) {
    const int64_t D = shape.back();
    Comparison c{.cpu = cpu::rms_norm_kernel()};
    c.in.push_back(random_tensor(shape, 1));
    c.in.push_back(random_tensor({D}, 2));
    c.out = {{DType::f32, shape}};
    c.attrs = RmsNormAttrs{};
    c.tolerance = [&](int, int64_t, double e) { return (rstd_units(D) + 2) * kUnit * std::fabs(e); };
    compare(c);
  }
}

// In a large batch a row has the bits that it has alone.
TEST(RmsNorm, RowIsIndependentOfOthers) {
  const int64_t D = 577, rows = 9;
  const Tensor x = random_tensor({rows, D}, 1), w = random_tensor({D}, 2);
  Tensor all(DType::f32, {rows, D}), one(DType::f32, {1, D});
  run_kernel(cpu::rms_norm_kernel(), {x.view, w.view}, {all.view}, RmsNormAttrs{}, 2);
  for (int64_t n = 0; n < rows; ++n) {
    const View row(x.view.as<float>() + n * D, DType::f32, {1, D});
    run_kernel(cpu::rms_norm_kernel(), {row, w.view}, {one.view}, RmsNormAttrs{});
    EXPECT_EQ(std::memcmp(one.view.data, all.view.as<float>() + n * D, size_t(D) * sizeof(float)), 0);
  }
}

// |dx| and |dw| before cancellation, for the tolerance.
struct Magnitudes {
  std::vector<double> dx, dw;
  Magnitudes(const View& x, const View& w, const View& dy, double eps) {
    const int64_t D = w.shape[0], N = x.count() / D;
    dx.resize(size_t(N * D)), dw.resize(size_t(D));
    for (int64_t n = 0; n < N; ++n) {
      const double rstd = rstd_of(x, n, D, eps);
      double dot = 0;
      for (int64_t k = 0; k < D; ++k)
        dot += std::fabs(value_at(w, k) * value_at(dy, n * D + k) * value_at(x, n * D + k));
      for (int64_t k = 0; k < D; ++k) {
        const double xk = std::fabs(value_at(x, n * D + k)), dyk = std::fabs(value_at(dy, n * D + k));
        dx[size_t(n * D + k)] = rstd * (std::fabs(value_at(w, k)) * dyk + xk * rstd * rstd / double(D) * dot);
        dw[size_t(k)] += dyk * xk * rstd;
      }
    }
  }
};

void compare_grad(int64_t N, int64_t D, std::vector<bool> unused) {
  Comparison c{.cpu = cpu::rms_norm_grad_kernel()};
  c.in.push_back(random_tensor({N, D}, 1));
  c.in.push_back(random_tensor({D}, 2));
  c.in.push_back(random_tensor({N, D}, 3));
  c.out = {{DType::f32, {N, D}}, {DType::f32, {D}}};
  c.unused = std::move(unused);
  c.attrs = RmsNormAttrs{1e-3f};
  const Magnitudes size(c.in[0].view, c.in[1].view, c.in[2].view, double(1e-3f));
  c.tolerance = [&](int o, int64_t i, double) {
    return o == 0 ? (double(D) / 24 + 40) * kUnit * size.dx[size_t(i)]
                  : (67 + double(N) / 64 + rstd_units(D)) * kUnit * size.dw[size_t(i)];
  };
  compare(c);
}

TEST(RmsNorm, Gradient) {
  for (const int64_t D : {1, 15, 16, 17, 31, 1000})
    for (const int64_t N : {0, 1, 64, 65, 200}) compare_grad(N, D, {});
  for (const int64_t N : {3, 130}) compare_grad(N, 100, {true, false});
  for (const int64_t N : {3, 130}) compare_grad(N, 100, {false, true});
}

TEST(Softmax, AgreesWithReference) {
  for (const int64_t D : kSizes)
    for (const double range : {1.0, 30.0}) {
      const int64_t rows = 5;
      Comparison c{.cpu = cpu::softmax_kernel(), .reference = reference::softmax_kernel()};
      c.in.push_back(random_tensor({rows, D}, 1, -range, range));
      c.out = {{DType::f32, {rows, D}}};
      c.tolerance = [&](int, int64_t, double e) { return (4 * range + double(D) / 64 + 18) * kUnit * e + kSmallest; };
      compare(c);
    }
}

TEST(Softmax, SpecialValues) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<double>& row : {std::vector<double>{1, -inf, 3, -inf, 5},
                                         {-inf, -inf, -inf, -inf, -inf},
                                         {1, 2, nan, 4, 5},
                                         {1, 2, 3, inf, 4},
                                         {1e38, -1e38, 0, 1e38, 1}}) {
    Comparison c{.cpu = cpu::softmax_kernel(), .reference = reference::softmax_kernel()};
    c.in.push_back(tensor_of({5}, row));
    c.out = {{DType::f32, {5}}};
    c.tolerance = [](int, int64_t, double e) { return 40 * kUnit * e; };
    compare(c);
  }
}

void compare_rope(int64_t N, int64_t H, int64_t P, int64_t Q, RopeAttrs attrs) {
  const int64_t C = 7;
  Comparison c{.cpu = cpu::rope_kernel()};
  c.in.push_back(random_tensor({N, H, P}, 1));
  c.in.push_back(random_tensor({N}, 2, 0, double(C), DType::i32));
  c.in.push_back(random_tensor({C, Q, 2}, 3, -1, 1));
  c.out = {{DType::f32, {N, H, P}}};
  c.attrs = attrs;
  // |x| <= 2 and |cos|, |sin| <= 1: two roundings of |x0 c| + |x1 s| <= 4.
  c.tolerance = [](int, int64_t, double) { return 2 * kUnit * 4; };
  compare(c);
}

TEST(Rope, AgreesWithReference) {
  for (const RopePairing pairing : {RopePairing::neighbour, RopePairing::half})
    for (const bool inverse : {false, true}) {
      for (const int64_t Q : {1, 3, 4, 8, 16, 17, 32, 37}) compare_rope(5, 3, 2 * Q, Q, {pairing, inverse});
      compare_rope(130, 2, 64, 16, {pairing, inverse});  // half of the head is not turned
      compare_rope(0, 2, 64, 32, {pairing, inverse});
    }
}

TEST(Rope, ReportsPositionOutsideTheTable) {
  for (const double bad : {-1.0, 4.0}) {
    const Tensor x = random_tensor({3, 1, 4}, 1), table = random_tensor({4, 2, 2}, 2);
    const Tensor pos = tensor_of({3}, {0, bad, 3}, DType::i32);
    Tensor y(DType::f32, {3, 1, 4});
    const auto report = run_kernel(cpu::rope_kernel(), {x.view, pos.view, table.view}, {y.view}, RopeAttrs{});
    EXPECT_EQ(report, fmt::format("rope: row 1 has position {}", bad));
  }
}

}  // namespace
}  // namespace toy::test::norm_test
