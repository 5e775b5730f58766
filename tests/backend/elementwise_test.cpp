// Functions of two elements with broadcasting, of one element, and swiglu. Bounds: src/backend/cpu/vec-inl.h and
// math-inl.h; math_test.cpp visits the numbers that random ones miss.
#include "backend/compare_util.h"

namespace toy::test::elementwise_test {
namespace {

struct Binary {
  KernelRecord cpu, reference;
};

std::vector<Binary> binaries() {
  return {{cpu::add_kernel(), reference::add_kernel()},         {cpu::sub_kernel(), reference::sub_kernel()},
          {cpu::mul_kernel(), reference::mul_kernel()},         {cpu::div_kernel(), reference::div_kernel()},
          {cpu::maximum_kernel(), reference::maximum_kernel()}, {cpu::minimum_kernel(), reference::minimum_kernel()}};
}

// One IEEE operation: half an ulp of the result.
double one_rounding(int, int64_t, double expected) { return kUnit * std::fabs(expected) + kSmallest; }

void compare_binary(const std::function<Tensor()>& a, const std::function<Tensor()>& b, const Shape& out) {
  for (const Binary& k : binaries()) {
    Comparison c{.cpu = k.cpu, .reference = k.reference, .out = {{DType::f32, out}}, .tolerance = one_rounding};
    c.in.push_back(a());
    c.in.push_back(b());
    compare(c);
  }
}

std::function<Tensor()> random_of(const Shape& shape, uint32_t seed) {
  return [=] { return random_tensor(shape, seed); };
}

TEST(Binary, SameShape) {
  for (const int64_t n : kSizes) compare_binary(random_of({n}, 1), random_of({n}, 2), {n});
  compare_binary(random_of({3, 5, 7, 2, 3}, 1), random_of({3, 5, 7, 2, 3}, 2), {3, 5, 7, 2, 3});
  compare_binary(random_of({}, 1), random_of({}, 2), {});
  compare_binary(random_of({0, 4}, 1), random_of({0, 4}, 2), {0, 4});
}

TEST(Binary, Broadcast) {
  for (const int64_t n : kSizes) {
    compare_binary(random_of({3, n}, 1), random_of({n}, 2), {3, n});
    compare_binary(random_of({n}, 1), random_of({3, n}, 2), {3, n});
    compare_binary(random_of({n, 3}, 1), random_of({}, 2), {n, 3});
    compare_binary(random_of({1}, 1), random_of({3, n}, 2), {3, n});
    compare_binary(random_of({n, 1}, 1), random_of({1, 5}, 2), {n, 5});
    compare_binary(random_of({2, n, 1, 3}, 1), random_of({1, 4, 1}, 2), {2, n, 4, 3});
  }
  compare_binary(random_of({1, 1}, 1), random_of({1}, 2), {1, 1});
}

TEST(Binary, Strided) {
  const auto transposed = [] {  // [37,21] as columns of a [21,37]
    Tensor t = random_tensor({21, 37}, 3);
    t.view.shape = {37, 21};
    t.view.stride = {1, 37};
    return t;
  };
  const auto every_second = [] {
    Tensor t = random_tensor({37, 42}, 4);
    t.view.shape = {37, 21};
    t.view.stride = {42, 2};
    return t;
  };
  const auto expanded = [] {  // stride 0 on a dimension of full size
    Tensor t = random_tensor({21}, 5);
    t.view.shape = {37, 21};
    t.view.stride = {0, 1};
    return t;
  };
  compare_binary(transposed, random_of({37, 21}, 1), {37, 21});
  compare_binary(transposed, every_second, {37, 21});
  compare_binary(expanded, transposed, {37, 21});
  compare_binary(random_of({37, 1}, 1), expanded, {37, 21});
}

struct Unary {
  KernelRecord cpu, reference;
  double low, high;
  double units, floor = kSmallest;
  Attrs attrs = {};
};

std::vector<Unary> unaries() {
  return {{cpu::neg_kernel(), reference::neg_kernel(), -9, 9, 0},
          {cpu::abs_kernel(), reference::abs_kernel(), -9, 9, 0},
          {cpu::sign_kernel(), reference::sign_kernel(), -9, 9, 0},
          {cpu::sqr_kernel(), reference::sqr_kernel(), -9, 9, 1},
          {cpu::relu_kernel(), reference::relu_kernel(), -9, 9, 0},
          {cpu::clamp_kernel(), reference::clamp_kernel(), -9, 9, 0, 0, ClampAttrs{-0.3f, 2.1f}},
          {cpu::sin_kernel(), reference::sin_kernel(), -1e5, 1e5, 4},
          {cpu::cos_kernel(), reference::cos_kernel(), -1e5, 1e5, 4},
          {cpu::tanh_kernel(), reference::tanh_kernel(), -20, 20, 5},
          {cpu::erf_kernel(), reference::erf_kernel(), -6, 6, 4},
          {cpu::softplus_kernel(), reference::softplus_kernel(), -80, 80, 5},
          {cpu::exp_kernel(), reference::exp_kernel(), -100, 88.5, 2},
          {cpu::log_kernel(), reference::log_kernel(), 1e-5, 1e5, 4},
          {cpu::sqrt_kernel(), reference::sqrt_kernel(), 0, 1e5, 1},
          {cpu::rsqrt_kernel(), reference::rsqrt_kernel(), 1e-5, 1e5, 1.5},
          {cpu::sigmoid_kernel(), reference::sigmoid_kernel(), -100, 100, 4, 0x1p-125},
          {cpu::silu_kernel(), reference::silu_kernel(), -100, 100, 4, 0x1p-119}};
}

TEST(Unary, AgreesWithReference) {
  for (const Unary& k : unaries())
    for (const int64_t n : kSizes)
      for (const double shrink : {1.0, 0.01}) {
        Comparison c{.cpu = k.cpu, .reference = k.reference, .out = {{DType::f32, {n}}}, .attrs = k.attrs};
        c.tolerance = [&](int, int64_t, double e) { return k.units * kUnit * std::fabs(e) + k.floor; };
        c.in.push_back(random_tensor({n}, uint32_t(n), k.low * shrink, k.high * shrink));
        compare(c);
      }
}

// Near 1 the logarithm is small: there the error relative to it shows.
TEST(Unary, LogNearOne) {
  Comparison c{.cpu = cpu::log_kernel(), .reference = reference::log_kernel(), .out = {{DType::f32, {5000}}}};
  c.tolerance = [](int, int64_t, double e) { return 4 * kUnit * std::fabs(e) + kSmallest; };
  c.in.push_back(random_tensor({5000}, 1, 0.99, 1.01));
  compare(c);
}

TEST(Unary, SpecialValues) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> special = {0.0, -0.0, inf, -inf, nan,   1,    -1,    3e38, -3e38,
                                       89,  104,  200, -104, -1000, 1e30, -1e30, 2e-38};
  for (const Unary& k : unaries()) {
    Comparison c{.cpu = k.cpu, .reference = k.reference, .attrs = k.attrs};
    const auto n = int64_t(special.size());
    c.out = {{DType::f32, {n}}};
    c.tolerance = [&](int, int64_t, double e) {  // what f32 cannot hold is infinite
      return std::fabs(e) > 3.4028236e38 ? inf : k.units * kUnit * std::fabs(e) + k.floor;
    };
    c.in.push_back(tensor_of({n}, special));
    compare(c);
  }
}

TEST(Unary, Scale) {
  for (const int64_t n : kSizes) {
    Comparison c{.cpu = cpu::scale_kernel(), .reference = reference::scale_kernel(), .out = {{DType::f32, {n}}}};
    c.attrs = ScaleAttrs{0.1};
    c.tolerance = [](int, int64_t, double e) { return 2 * kUnit * std::fabs(e); };
    c.in.push_back(random_tensor({n}, 1));
    compare(c);
  }
}

TEST(SwiGlu, AgreesWithReference) {
  for (const int64_t n : kSizes) {
    Comparison c{.cpu = cpu::swiglu_kernel(), .out = {{DType::f32, {n}}}};
    c.tolerance = [](int, int64_t, double e) { return 5 * kUnit * std::fabs(e) + 0x1p-117; };
    c.in.push_back(random_tensor({n}, 1, -100, 100));
    c.in.push_back(random_tensor({n}, 2));
    compare(c);
  }
}

TEST(SwiGlu, Gradient) {
  for (const int64_t n : kSizes)
    for (const std::vector<bool>& unused : {std::vector<bool>{}, {true, false}, {false, true}}) {
      Comparison c{.cpu = cpu::swiglu_grad_kernel()};
      c.out = {{DType::f32, {n}}, {DType::f32, {n}}};
      c.unused = unused;
      for (uint32_t seed = 0; seed < 3; ++seed) c.in.push_back(random_tensor({n}, seed, -8, 8));
      c.tolerance = [&](int o, int64_t i, double e) {
        const double z = value_at(c.in[0].view, i), s = 1 / (1 + std::exp(-z));
        const double scale = std::fabs(value_at(c.in[1].view, i) * value_at(c.in[2].view, i)) * s * (1 + std::fabs(z));
        return o == 0 ? 12 * kUnit * scale : 6 * kUnit * std::fabs(e) + kSmallest;
      };
      compare(c);
    }
}

}  // namespace
}  // namespace toy::test::elementwise_test
