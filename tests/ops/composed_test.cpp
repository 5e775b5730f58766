// mean, pad, repeat, arithmetic with numbers: functions that put other ops together, against plain loops, with their
// gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/harness.h"
#include "testing/errors.h"
#include "toy/ops/ops.h"
#include "toy/runtime/evaluate.h"

namespace toy::test::composed_test {
namespace {

// y = f(x) with d (sum y R) / dx, for x:[2,3,2] with the values 1, 2, ..., 12, and R = 1, 2, ...
struct Result {
  Shape shape;
  std::vector<double> y, dx;
};
Result evaluate(const std::function<Value(Value)>& f, Device& device) {
  Built b = build_operands(parse_operands("x:[2,3,2]=list(1,2,3,4,5,6,7,8,9,10,11,12)"));
  const Value y = f(b.operands[0]);
  std::vector<double> r(size_t(y.type().count()));
  for (size_t i = 0; i < r.size(); ++i) r[i] = double(i + 1);
  const std::vector<Value> wrt{b.leaves[0]};
  const std::vector<Value> dx = gradients(sum_all(y * b.graph->constant(y.type(), r)), wrt);
  b.outputs = {y, dx[0]};
  const Results results = Program(b, device).run();
  return {y.shape(), results[0], results[1]};
}
void expect_result(const std::function<Value(Value)>& f, const Result& expected) {
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    const Result r = evaluate(f, *device);
    EXPECT_EQ(r.shape, expected.shape) << device->name();
    EXPECT_EQ(r.y, expected.y) << device->name();
    EXPECT_EQ(r.dx, expected.dx) << device->name();
  }
}

std::string message_of(const std::function<Value(Value)>& f, const TensorType& type) {
  Graph g;
  return toy::testing::error_of([&] { f(g.input("x", type)); });
}
const TensorType kFixed{DType::f32, {2, 3}, 0};

TEST(Composed, Numbers) {
  const auto expect = [](const std::function<Value(Value)>& f, double (*y)(double), double (*slope)(double)) {
    Result r{{2, 3, 2}, {}, {}};
    for (int i = 1; i <= 12; ++i) r.y.push_back(y(i)), r.dx.push_back(slope(i) * i);
    expect_result(f, r);
  };
  const auto one = [](double) { return 1.0; };
  expect([](Value x) { return x + 1; }, [](double x) { return x + 1; }, one);
  expect([](Value x) { return 1 + x; }, [](double x) { return x + 1; }, one);
  expect([](Value x) { return x - 3; }, [](double x) { return x - 3; }, one);
  expect([](Value x) { return -x; }, [](double x) { return -x; }, [](double) { return -1.0; });
  expect([](Value x) { return 1.0 - x * 2.0; }, [](double x) { return 1 - 2 * x; }, [](double) { return -2.0; });
  expect([](Value x) { return 0.5 * x; }, [](double x) { return x / 2; }, [](double) { return 0.5; });
  expect([](Value x) { return x / 8; }, [](double x) { return x / 8; }, [](double) { return 0.125; });
  // 1 / x and its gradient are exact at powers of two.
  Graph g;
  const Value x = g.constant(f32({3}), {1, 2, -4}), y = 8 / x;
  EXPECT_EQ(evaluate(y, {.device = &cpu_device(2)}).values, (std::vector<double>{8, 4, -2}));
  const Value dx = gradients(sum_all(y), std::vector{x})[0];
  EXPECT_EQ(evaluate(dx, {.device = &cpu_device(2)}).values, (std::vector<double>{-8, -2, -0.5}));
}

// A quotient is one division, not a product with a rounded inverse; a number has the dtype of the value.
TEST(Composed, NumbersAreNotRoundedTwice) {
  Graph g;
  std::vector<double> x, thirds;
  for (int i = 1; i < 50; ++i) x.push_back(i), thirds.push_back(double(float(i) / 3.0f));
  EXPECT_EQ(evaluate(g.constant(f32({49}), x) / 3, {.device = &cpu_device(1)}).values, thirds);
  EXPECT_EQ((1 - g.constant({DType::bf16, {2}, 0}, {1, 2})).type().dtype, DType::bf16);
  EXPECT_EQ(toy::testing::error_of([&] { g.input("ids", i32({2})) + 1; }), "add: a is i32, expected a float type");
  EXPECT_EQ(toy::testing::error_of([] { 1 - Value{}; }), "graph: an empty value has no type; was an operand left out?");
}

// On both sides of the limits, not at them, where the slopes jump.
TEST(Composed, SwigluOai) {
  const std::vector<double> gate{-9, -7.5, -1, -0.25, 0, 0.5, 3, 6.9, 7.1, 20}, up{-8, -6, 0.5, 2, 6.5, 7.5};
  const auto f = [](double g, double u) {
    g = std::min(g, 7.0), u = std::clamp(u, -7.0, 7.0);
    return g / (1 + std::exp(-1.702 * g)) * (u + 1);
  };
  Graph graph;
  std::vector<double> gates, ups, y, dg, du;
  for (const double g : gate)
    for (const double u : up) {
      constexpr double h = 1e-4;
      gates.push_back(g), ups.push_back(u), y.push_back(f(g, u));
      dg.push_back((f(g + h, u) - f(g - h, u)) / (2 * h)), du.push_back((f(g, u + h) - f(g, u - h)) / (2 * h));
    }
  const TensorType type = f32({int64_t(gates.size())});
  const Value g = graph.constant(type, gates), u = graph.constant(type, ups), out = swiglu_oai(g, u);
  const std::vector<Value> wrt{g, u}, slopes = gradients(sum_all(out), wrt);
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    const double tiny = device == &reference_device() ? 1e-12 : 1e-6, of_difference = 1e-6;
    const auto near = [&](Value v, const std::vector<double>& expected, double relative) {
      const std::vector<double> values = evaluate(v, {.device = device}).values;
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], expected[i], relative * (1 + std::fabs(expected[i]))) << gates[i] << " " << ups[i];
    };
    near(out, y, tiny);
    near(slopes[0], dg, tiny + of_difference);
    near(slopes[1], du, tiny + of_difference);
  }
}

TEST(Composed, Mean) {
  expect_result([](Value x) { return mean(x, 0); },
                {{1, 3, 2}, {4, 5, 6, 7, 8, 9}, {0.5, 1, 1.5, 2, 2.5, 3, 0.5, 1, 1.5, 2, 2.5, 3}});
  expect_result([](Value x) { return mean(x, 2); },
                {{2, 3, 1}, {1.5, 3.5, 5.5, 7.5, 9.5, 11.5}, {0.5, 0.5, 1, 1, 1.5, 1.5, 2, 2, 2.5, 2.5, 3, 3}});
  EXPECT_EQ(message_of([](Value x) { return mean(x, 2); }, kFixed), "mean: axis 2 of 2 dimensions");
  EXPECT_EQ(message_of([](Value x) { return mean(x, 0); }, {DType::f32, {0, 3}, 0}), "mean: axis 0 of [0,3] is empty");
}

TEST(Composed, Pad) {
  expect_result([](Value x) { return pad(x, 1, 1, 2, -7); },
                {{2, 6, 2},
                 {-7, -7, 1, 2, 3, 4, 5, 6, -7, -7, -7, -7, -7, -7, 7, 8, 9, 10, 11, 12, -7, -7, -7, -7},
                 {3, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20}});
  expect_result(
      [](Value x) { return pad(x, 0, 0, 1); },
      {{3, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0, 0, 0}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}});
  EXPECT_EQ(message_of([](Value x) { return pad(x, -1, 0, 1); }, kFixed), "pad: axis -1 of 2 dimensions");
  EXPECT_EQ(message_of([](Value x) { return pad(x, 0, -1, 1); }, kFixed),
            "pad: -1 elements before and 1 after, expected 0 or more; slice() removes");
}

TEST(Composed, Repeat) {
  expect_result([](Value x) { return repeat(x, 1, 2); },
                {{2, 6, 2},
                 {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 7, 8, 9, 10, 11, 12},
                 {8, 10, 12, 14, 16, 18, 32, 34, 36, 38, 40, 42}});
  expect_result([](Value x) { return repeat(x, 2, 2); },
                {{2, 3, 4},
                 {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6, 7, 8, 7, 8, 9, 10, 9, 10, 11, 12, 11, 12},
                 {4, 6, 12, 14, 20, 22, 28, 30, 36, 38, 44, 46}});
  expect_result(
      [](Value x) { return repeat(slice(x, 0, 0, 1), 0, 3); },
      {{3, 3, 2}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, {21, 24, 27, 30, 33, 36, 0, 0, 0, 0, 0, 0}});
  EXPECT_EQ(message_of([](Value x) { return repeat(x, 2, 2); }, kFixed), "repeat: axis 2 of 2 dimensions");
  EXPECT_EQ(message_of([](Value x) { return repeat(x, 1, 0); }, kFixed), "repeat: 0 times, expected 1 or more");
}

// Columns of run-time rows are padded and repeated like others; the rows themselves cannot be.
TEST(Composed, RunTimeRows) {
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    Built b = build_operands(parse_operands("x:[3,2]=list(1,2,3,4,5,6)"), {"x"});
    const Value x = b.operands[0];
    b.outputs = {pad(x, 1, 1, 0, 9), repeat(x, 1, 2), mean(x, 1)};
    Program program(b, *device);
    program.set_rows(2);
    const Results y = program.run();
    EXPECT_EQ(y[0], (std::vector<double>{9, 1, 2, 9, 3, 4}));
    EXPECT_EQ(y[1], (std::vector<double>{1, 2, 1, 2, 3, 4, 3, 4}));
    EXPECT_EQ(y[2], (std::vector<double>{1.5, 3.5}));
  }
  Graph g;
  const Value x = g.input("x", g.rows_type(g.declare_rows("N", 4), DType::f32, {3}));
  EXPECT_THROW(repeat(x, 0, 2), Error);
  EXPECT_THROW(mean(x, 0), Error);
  EXPECT_THROW(pad(x, 0, 1, 0), Error);
}

// The gradient of a part of the columns of run-time rows has run-time rows too.
TEST(Composed, GradientOfASliceOfRunTimeRows) {
  Graph g;
  const int n = g.declare_rows("N", 3);
  const Value x = g.param("x", g.rows_type(n, DType::f32, {4})), w = g.param("w", {DType::f32, {5, 2}, 0});
  const Value targets = g.input("targets", g.rows_type(n, DType::i32)),
              weight = g.input("weight", g.rows_type(n, DType::f32));
  const std::vector<Value> wrt{x};
  EXPECT_EQ(gradients(linear_xent(slice(x, 1, 1, 2), w, targets, weight).loss, wrt)[0].type(), x.type());
}

}  // namespace
}  // namespace toy::test::composed_test
