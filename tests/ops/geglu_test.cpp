// gelu(gate) up with both gelus, z = gate, gelu(z) = z s. The errors of the functions are math-inl.h's, in units of u.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::geglu_test {
namespace {

// s, its relative error, and the error of the slope s + z s', whose terms may cancel.
struct Units {
  double s, of_s, of_slope;
};

// By tanh the slope is s (1 + 2a' z (1 - s)): twice the error of s, which arrives at s and at 1 - s, and 8 roundings.
// By erf it is Phi + z phi, with a rounded square in phi's exponent: z^2/2 + 5, and 4 roundings of either.
Units units(double z, GeluKind kind) {
  const double c = std::sqrt(2 / std::numbers::pi);
  if (kind == GeluKind::tanh) {
    const double a2 = 2 * c * (z + 0.044715 * z * z * z), s = 1 / (1 + std::exp(-a2));
    const double of_s = 4 * std::fabs(a2) * (1 - s) + 4, rise = std::fabs(z) * 2 * c * (1 + 3 * 0.044715 * z * z);
    return {s, of_s, (2 * of_s + 8) * s * (1 + rise)};
  }
  const double s = 0.5 * std::erfc(-z / std::numbers::sqrt2), of_s = z < 0 ? 2.5 * z * z + 12 : 12;
  const double term = std::fabs(z) * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return {s, of_s, (of_s + 4) * s + (z * z / 2 + 9) * term};
}

std::vector<double> bound(const Run& r, int) {
  std::vector<double> result = r.out(0);
  const std::vector<double> gate = r.in(0);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = (units(gate[i], r.attrs().as<GegluAttrs>().kind).of_s + 1) * std::fabs(result[i]);
  return result;
}

std::vector<double> grad_bound(const Run& r, int o) {
  std::vector<double> result = r.out(o);
  const std::vector<double> gate = r.in(0), up = r.in(1), dy = r.in(2);
  for (size_t i = 0; i < result.size(); ++i) {
    const Units u = units(gate[i], r.attrs().as<GegluAttrs>().kind);
    result[i] = o == 0 ? std::fabs(dy[i] * up[i]) * u.of_slope : (u.of_s + 1) * std::fabs(result[i]);
  }
  return result;
}

std::vector<Case> both(const std::vector<std::string>& operands) {
  std::vector<Case> cases;
  for (const GeluKind kind : {GeluKind::tanh, GeluKind::erf})
    for (const std::string& text : operands) cases.push_back({text, GegluAttrs{kind}});
  return cases;
}

const OpSuite kGeglu{
    .op = "geglu",
    .cases = both({"gate:[1] up:[1]", "gate:[3,31] up:[3,31]", "gate:[5,4]@(1,0) up:[4,5]",
                   "gate:[40]=range(-6,6) up:[40]", "gate:[67,130] up:[67,130]"}),
    .bad = {{"gate:[3,4] up:[4,3]", "geglu: up has leading dimensions [4,3], gate has [3,4]", GegluAttrs{}}},
    .bound = bound,
    .rows = {"gate", "up"}};

const OpSuite kGegluGrad{
    .op = "geglu_grad",
    .cases = both({"gate:[1] up:[1] dy:[1]", "gate:[3,31] up:[3,31] dy:[3,31]", "gate:[5,4]@(1,0) up:[4,5] dy:[4,5]",
                   "gate:[40]=range(-6,6) up:[40] dy:[40]", "gate:[67,130] up:[67,130] dy:[67,130]"}),
    .bad = {{"gate:[3] up:[3] dy:[4]", "geglu_grad: dy has leading dimensions [4], gate has [3]", GegluAttrs{}}},
    .bound = grad_bound,
    .rows = {"gate", "up", "dy"}};

const bool kDone = register_suite(kGeglu) && register_suite(kGegluGrad);

// Far out the gate is open or shut, and its slope 1 or 0, not NaN.
TEST(Geglu, FarOut) {
  for (const GeluKind kind : {GeluKind::tanh, GeluKind::erf}) {
    const Built b =
        build_op(*find_op("geglu_grad"),
                 parse_operands("gate:[4]=list(1e30,40,-40,-1e30) up:[4]=const(2) dy:[4]=const(3)"), GegluAttrs{kind});
    for (Device* device : {&cpu_device(1), &reference_device()}) {
      const Results y = Program(b, *device).run();
      EXPECT_EQ(y[0], (std::vector<double>{6, 6, 0, 0})) << device->name();
    }
  }
}

}  // namespace
}  // namespace toy::test::geglu_test
