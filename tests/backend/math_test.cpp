// The errors that vec-inl.h and math-inl.h state, against libm in f64. All f32 in steps of 4001 bit patterns, both
// signs, NaN and infinities too; TOY_MATH_STEP=1 visits every one of them (minutes a function) and prints
// the largest error.
#include <bit>
#include <cstdlib>
#include <numbers>
#include <tuple>

#include "backend/compare_util.h"

namespace toy::test::math_test {
namespace {

double two_a(double x) { return 2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }

struct Function {
  KernelRecord kernel;
  double (*exactly)(double);
  double (*units)(double x);  // largest error in units of u times the result
  double floor = kSmallest;   // below it the result may be 0
};

template <int n>
double constant(double) {
  return n;
}

double softplus(double x) { return std::isnan(x) ? x : std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu_erf(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double gelu_tanh(double x) { return x / (1 + std::exp(-two_a(x))); }

std::vector<Function> functions() {
  return {{cpu::exp_kernel(), std::exp, constant<2>},
          {cpu::log_kernel(), std::log, constant<4>},
          {cpu::sin_kernel(), std::sin, constant<4>},
          {cpu::cos_kernel(), std::cos, constant<4>},
          {cpu::tanh_kernel(), std::tanh, constant<5>},
          {cpu::erf_kernel(), std::erf, constant<4>},
          {cpu::softplus_kernel(), softplus, constant<5>},
          {cpu::sigmoid_kernel(), sigmoid, constant<4>, 0x1p-125},
          {cpu::silu_kernel(), silu, constant<4>, 0x1p-119},
          {cpu::gelu_erf_kernel(), gelu_erf, [](double x) { return x < 0 ? 2.5 * x * x + 12 : 12.0; }, 0x1p-121},
          {cpu::gelu_tanh_kernel(), gelu_tanh,
           [](double x) { return 4 * std::fabs(two_a(x)) / (1 + std::exp(two_a(x))) + 4; }, 0x1p-119}};
}

// A block of numbers on every instruction set; `worst` is the largest error in units of u |y|, and where.
struct Worst {
  double error = 0, at = 0;
};
class Blocks {
 public:
  explicit Blocks(const Function& f) : f_(f) {}
  void add(float v) {
    x_[count_] = v, exact_[count_++] = f_.exactly(v);
    if (count_ == kBlock) check();
  }
  void check() {
    for_each_target([&] {
      run_kernel(f_.kernel, {x_.view()}, {y_.view()});
      for (size_t i = 0; i < count_; ++i) check(x_[i], y_[i], exact_[i]);
    });
    count_ = 0;
  }
  Worst worst;

 private:
  void check(double x, double y, double exact) {
    if (y == double(float(exact)) || (std::isnan(y) && std::isnan(exact))) return;
    const double error = std::fabs(y - exact), size = std::fabs(exact);
    if (size > f_.floor && error > worst.error * kUnit * size) worst = {error / (kUnit * size), x};
    ASSERT_LE(error, f_.units(x) * kUnit * size + f_.floor) << f_.kernel.op << "(" << x << ") is " << y;
  }

  static constexpr size_t kBlock = 1 << 14;
  const Function& f_;
  Array<float> x_{{int64_t(kBlock)}}, y_{{int64_t(kBlock)}};
  std::vector<double> exact_ = std::vector<double>(kBlock);
  size_t count_ = 0;
};

TEST(Math, ErrorsOverAllNumbers) {
  const char* text = std::getenv("TOY_MATH_STEP");
  const uint64_t step = text ? std::strtoull(text, nullptr, 10) : 4001;
  ASSERT_GE(step, 1u);
  for (const Function& f : functions()) {
    Blocks blocks(f);
    for (uint64_t bits = 0; bits < uint64_t(1) << 32 && !HasFatalFailure(); bits += step)
      if (const float v = std::bit_cast<float>(uint32_t(bits)); std::fpclassify(v) != FP_SUBNORMAL) blocks.add(v);
    blocks.check();
    if (text) std::printf("%-10s %.3f u at %.9g\n", f.kernel.op.data(), blocks.worst.error, blocks.worst.at);
  }
}

// Zeros keep their sign where the function is odd, and neither NaN nor infinity is lost.
TEST(Math, ZerosAndFarEnds) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const auto& [kernel, at, expected] :
       std::vector<std::tuple<KernelRecord, float, float>>{{cpu::sin_kernel(), -0.0f, -0.0f},
                                                           {cpu::tanh_kernel(), -0.0f, -0.0f},
                                                           {cpu::erf_kernel(), -0.0f, -0.0f},
                                                           {cpu::tanh_kernel(), inf, 1.0f},
                                                           {cpu::tanh_kernel(), -inf, -1.0f},
                                                           {cpu::erf_kernel(), -inf, -1.0f},
                                                           {cpu::erf_kernel(), inf, 1.0f},
                                                           {cpu::softplus_kernel(), inf, inf},
                                                           {cpu::softplus_kernel(), -inf, 0.0f}})
    for_each_target([&, k = kernel, v = at, want = expected] {
      Array<float> x({1}), y({1});
      x[0] = v;
      run_kernel(k, {x.view()}, {y.view()});
      EXPECT_TRUE(y[0] == want && std::signbit(y[0]) == std::signbit(want)) << k.op << "(" << v << ") is " << y[0];
    });
}

}  // namespace
}  // namespace toy::test::math_test
