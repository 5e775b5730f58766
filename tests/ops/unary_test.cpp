// Functions of one element. Bounds: exp 1 ulp (2u), log 4 ulp, silu and sigmoid exp and two roundings, the
// others as they are rounded once or twice, or as src/backend/cpu/math-inl.h says.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::unary_test {
namespace {

OpSuite suite(const std::string& op, const std::string& values, const Bound& bound, const Attrs& attrs = {}) {
  OpSuite s{.op = op, .bound = bound, .rows = {"x"}};
  for (const char* shape : {"[1]", "[3]", "[2,31]", "[3,4,5]@(2,0,1)", "[17,9]@(1,0)", "[67,129]"})
    s.cases.push_back({"x:" + std::string(shape) + values, attrs});
  s.bad = {{"x:i32[3]=below(5)", op + ": x is i32, expected a float type"},
           {"", op + ": 0 inputs given, expected " + op + "(x:[*]) -> y:[*]"}};
  return s;
}

OpSuite suite(const std::string& op, const std::string& values, double roundings, const Attrs& attrs = {}) {
  return suite(op, values, relative(roundings), attrs);
}

// roundings(x) u |y|.
Bound at_each(double (*roundings)(double x)) {
  return [=](const Run& r, int o) {
    std::vector<double> bound = r.out(o);
    const std::vector<double> x = r.in(0);
    for (size_t i = 0; i < bound.size(); ++i) bound[i] = roundings(x[i]) * std::fabs(bound[i]);
    return bound;
  };
}

double of_gelu_erf(double x) { return x < 0 ? 2.5 * x * x + 12 : 12; }
double of_gelu_tanh(double x) {
  const double a2 = 1.5957691216 * (x + 0.044715 * x * x * x);
  return 4 * std::fabs(a2) / (1 + std::exp(a2)) + 4;
}

// Numbers halfway between multiples of 1/16: far enough from kinks at those for finite differences.
const char* const kHalfway = "=steps(-1.53125,1.5,0.0625)";

OpSuite clamp_suite() {
  OpSuite s = suite("clamp", kHalfway, 0, ClampAttrs{-0.75f, 0.3125f});
  s.cases.push_back({std::string("x:[40]") + kHalfway, ClampAttrs{0.25f, 0.25f}});
  s.cases.push_back({std::string("x:[40]") + kHalfway, ClampAttrs{0.0f, INFINITY}});
  for (BadCase& b : s.bad) b.attrs = ClampAttrs{};
  s.bad.push_back({"x:[3]", "clamp: from 2 to 1 is no range", ClampAttrs{2, 1}});
  s.bad.push_back({"x:[3]", "clamp: from nan to 1 is no range", ClampAttrs{NAN, 1}});
  return s;
}

const OpSuite kSuites[] = {
    suite("neg", "", 0),
    suite("abs", kHalfway, 0),
    suite("sign", kHalfway, 0),
    suite("sqr", "", 1),
    suite("exp", "=range(-12,12)", 2),
    suite("log", "=range(0.25,30)", 8),
    suite("sqrt", "=range(0.25,30)", 1),
    suite("rsqrt", "=range(0.25,30)", 2),
    suite("sin", "=range(-9,9)", 4),
    suite("cos", "=range(-9,9)", 4),
    suite("tanh", "=range(-6,6)", 5),
    suite("erf", "=range(-3,3)", 4),
    suite("sigmoid", "=range(-12,12)", 4),
    suite("softplus", "=range(-12,12)", 5),
    suite("relu", kHalfway, 0),
    suite("silu", "=range(-12,12)", 5),
    suite("gelu_erf", "=range(-6,6)", at_each(of_gelu_erf)),
    suite("gelu_tanh", "=range(-6,6)", at_each(of_gelu_tanh)),
    suite("scale", "", 2, ScaleAttrs{-0.3}),
    clamp_suite(),
};

bool register_all() {
  for (const OpSuite& s : kSuites) register_suite(s);
  return true;
}
const bool kDone = register_all();

// Far ends: no NaN where the function has a value.
const OpSuite kSigmoidEnds{
    .op = "sigmoid", .cases = {{"x:[6]=list(-200,-90,-40,40,90,200)"}}, .bound = relative(4), .loss_outputs = {}};
const OpSuite kExpEnds{
    .op = "exp", .cases = {{"x:[6]=list(-200,-104,-80,0,80,88)"}}, .bound = relative(2), .loss_outputs = {}};
const bool kEndsDone = register_suite(kSigmoidEnds) && register_suite(kExpEnds);

// Gradients where the functions have a kink, and where an operand is not a number.
struct Kink {
  const char* op;
  Attrs attrs;
  std::vector<double> x, slope;
};

TEST(Unary, GradientsAtKinks) {
  const Kink kinks[] = {
      {"relu", {}, {-1, -0.0, 0, 1e-30, 2, NAN}, {0, 0, 0, 1, 1, 0}},
      {"abs", {}, {-1, -0.0, 0, 1e-30, -1e-30, 2}, {-1, 0, 0, 1, -1, 1}},
      {"clamp", ClampAttrs{-0.1f, 0.7f}, {-0.1f, 0.7f, -0.2, 0.8, 0, NAN}, {1, 1, 0, 0, 1, 0}},
      {"sign", {}, {-1, -0.0, 0, 1e-30, 2, 3}, {0, 0, 0, 0, 0, 0}},
  };
  for (const Kink& k : kinks)
    for (Device* device : {&cpu_device(1), &reference_device()}) {
      Built b = build_op(*find_op(k.op), parse_operands("x:[6]"), k.attrs);
      const std::vector<Value> wrt{b.leaves[0]};
      b.outputs = gradients(sum_all(b.outputs[0]), wrt);
      b.feed["x"] = k.x;
      EXPECT_EQ(Program(b, *device).run()[0], k.slope) << k.op << " on " << device->name();
    }
}

// The published formulas, where they do not cancel.
TEST(Unary, GelusAreTheirFormulas) {
  const double u = unit_roundoff(DType::f64);
  for (const double x : {-2.0, -0.5, 0.0, 0.25, 1.0, 3.0}) {
    Built b = build_op(*find_op("gelu_tanh"), parse_operands("x:[1]"), {});
    b.feed["x"] = {x};
    const double a = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    EXPECT_NEAR(Program(b, reference_device()).run()[0][0], 0.5 * x * (1 + std::tanh(a)), 16 * u * std::fabs(x));
    Built e = build_op(*find_op("gelu_erf"), parse_operands("x:[1]"), {});
    e.feed["x"] = {x};
    EXPECT_NEAR(Program(e, reference_device()).run()[0][0], 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))),
                16 * u * std::fabs(x));
  }
}

}  // namespace
}  // namespace toy::test::unary_test
