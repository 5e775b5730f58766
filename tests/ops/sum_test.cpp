// Reductions: any order of n additions is within (n - 1) u sum |x|.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::sum_test {
namespace {

double terms(const Run& r) { return double(r.shape(0)[r.attrs().as<AxisAttrs>().axis]); }

const OpSuite kSum{.op = "sum",
                   .cases = {{"x:[1]", AxisAttrs{0}},
                             {"x:[33]", AxisAttrs{0}},
                             {"x:[7,13]", AxisAttrs{0}},
                             {"x:[7,13]", AxisAttrs{1}},
                             {"x:[3,4,5]", AxisAttrs{1}},
                             {"x:[3,4,5]@(2,0,1)", AxisAttrs{1}},
                             {"x:[2,3,2,3,2]", AxisAttrs{2}},
                             {"x:[301,67]", AxisAttrs{0}},
                             {"x:[67,301]", AxisAttrs{1}},
                             {"x:[9001]", AxisAttrs{0}}},
                   .bad = {{"x:[7,13]", "sum: axis 2 of 2 dimensions", AxisAttrs{2}},
                           {"x:[]", "sum: axis 0 of 0 dimensions", AxisAttrs{0}},
                           {"x:[7,13]", "sum: axis -1 of 2 dimensions", AxisAttrs{-1}}},
                   .bound = of_magnitudes([](const Run& r) { return terms(r); })};

// Run-time rows: reduced within rows, and over them.
const OpSuite kSumRows{.op = "sum",
                       .cases = {{"x:[9,13]", AxisAttrs{1}}, {"x:[9,13]", AxisAttrs{0}}},
                       .bound = of_magnitudes([](const Run& r) { return terms(r); }),
                       .rows = {"x"}};

// The largest elements stand alone, so that finite differences see one of them.
const OpSuite kMax{.op = "max",
                   .cases = {{"x:[1]", AxisAttrs{0}},
                             {"x:[33]=pages(33)", AxisAttrs{0}},
                             {"x:[7,13]=pages(91)", AxisAttrs{0}},
                             {"x:[7,13]=pages(91)", AxisAttrs{1}},
                             {"x:[3,4,5]@(2,0,1)=pages(60)", AxisAttrs{1}},
                             {"x:[2,3,2,3,2]=pages(72)", AxisAttrs{2}}},
                   .bad = {{"x:[7,13]", "max: axis 2 of 2 dimensions", AxisAttrs{2}},
                           {"x:[]", "max: axis 0 of 0 dimensions", AxisAttrs{0}},
                           {"x:[7,13]", "max: axis -1 of 2 dimensions", AxisAttrs{-1}},
                           {"x:i32[3]=below(2)", "max: x is i32, expected a float type", AxisAttrs{0}}}};
const OpSuite kMaxLarge{.op = "max",
                        .cases = {{"x:[301,67]", AxisAttrs{0}},
                                  {"x:[67,301]", AxisAttrs{1}},
                                  {"x:[9001]", AxisAttrs{0}},
                                  {"x:[3,2500]=range(-2,-1)", AxisAttrs{0}},
                                  {"x:[5,35]=range(-2,-1)", AxisAttrs{1}}},
                        .loss_outputs = {}};
const OpSuite kMaxRows{.op = "max",
                       .cases = {{"x:[9,13]=pages(117)", AxisAttrs{1}}, {"x:[9,13]=pages(117)", AxisAttrs{0}}},
                       .rows = {"x"}};

// exp turns the rounding of x - max into a relative error; D additions, exp's 2u and the quotient.
std::vector<double> softmax_bound(const Run& r, int) {
  const std::vector<double> x = r.in(0), &y = r.out(0);
  const int64_t width = r.shape(0).back();
  std::vector<double> bound(y.size());
  for (size_t row = 0; row < y.size(); row += size_t(width)) {
    const auto [low, top] = std::minmax_element(x.begin() + int64_t(row), x.begin() + int64_t(row) + width);
    for (size_t j = row; j < row + size_t(width); ++j)
      bound[j] = (*top - x[j] + (*top - *low) + double(width) + 12) * y[j];
  }
  return bound;
}

const OpSuite kSoftmax{.op = "softmax",
                       .cases = {{"x:[1]"},
                                 {"x:[3,1]"},
                                 {"x:[2,17]"},
                                 {"x:[2,3,5]@(1,0,2)"},
                                 {"x:[9,6]@(1,0)"},
                                 {"x:[4,33]=range(-30,30)"},
                                 {"x:[37,300]"}},
                       .bad = {{"x:[]", "softmax: x has 0 dimensions [], expected at least 1"}},
                       .bound = softmax_bound,
                       .rows = {"x"}};

const bool kDone = register_suite(kSum) && register_suite(kSumRows) && register_suite(kMax) &&
                   register_suite(kMaxLarge) && register_suite(kMaxRows) && register_suite(kSoftmax);

TEST(Max, TheFirstOfTheLargestTakesTheGradient) {
  for (Device* device : {&cpu_device(1), &reference_device()})
    for (const int axis : {0, 1}) {
      Built b = build_operands(parse_operands("x:[3,3]=list(2,5,5,5,1,5,5,5,0)"));
      const std::vector<Value> wrt{b.leaves[0]};
      b.outputs = {max(b.operands[0], axis), gradients(sum_all(max(b.operands[0], axis)), wrt)[0]};
      const Results y = Program(b, *device).run();
      EXPECT_EQ(y[0], std::vector<double>(3, 5.0)) << device->name();
      EXPECT_EQ(y[1], axis == 0 ? (std::vector<double>{0, 1, 1, 1, 0, 0, 0, 0, 0})
                                : (std::vector<double>{0, 1, 0, 1, 0, 0, 1, 0, 0}))
          << device->name();
    }
}

// NaN wherever it stands, -inf over nothing, and a zero without a sign.
TEST(Max, NaNAndNothing) {
  for (Device* device : {&cpu_device(1), &reference_device()}) {
    for (const int64_t columns : {3, 16, 37})
      for (const int axis : {0, 1})
        for (int64_t at = 0; at < columns; at += 5) {
          const std::string shape =
              axis == 1 ? "[1," + std::to_string(columns) + "]" : "[" + std::to_string(columns) + ",2]";
          Built b = build_op(*find_op("max"), parse_operands("x:" + shape), AxisAttrs{axis});
          b.feed["x"][size_t(axis == 1 ? at : 2 * at)] = NAN;
          const Results y = Program(b, *device).run();
          EXPECT_TRUE(std::isnan(y[0][0])) << device->name() << shape << at;
          EXPECT_FALSE(std::isnan(y[0].back()) && axis == 0) << device->name() << shape << at;
        }
    Built b = build_op(*find_op("max"), parse_operands("x:[9,13]"), AxisAttrs{0}, {"x"});
    Program program(b, *device);
    program.set_rows(0);
    EXPECT_EQ(program.run()[0], std::vector<double>(13, -INFINITY)) << device->name();
  }
  Built b = build_op(*find_op("max"), parse_operands("x:[2]=list(-0,-0)"), AxisAttrs{0});
  expect_same(Program(b, cpu_device(1)).run()[0], {0.0}, "zero");
}

TEST(Sum, OverNoRowsIsZero) {
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    Built b = build_op(*find_op("sum"), parse_operands("x:[9,13]"), AxisAttrs{0}, {"x"});
    Program program(b, *device);
    program.set_rows(0);
    const Results y = program.run();
    EXPECT_EQ(y[0], std::vector<double>(13, 0.0)) << device->name();
  }
}

TEST(Softmax, HugeScoresDoNotOverflow) {
  Built b = build_op(*find_op("softmax"), parse_operands("x:[2,3]=list(3e38,-3e38,0,1000,1000,999)"), {});
  for (Device* device : {&cpu_device(1), &reference_device()}) {
    const Results y = Program(b, *device).run();
    EXPECT_EQ(y[0][0], 1);
    EXPECT_EQ(y[0][1], 0);
    EXPECT_NEAR(y[0][3] + y[0][4] + y[0][5], 1, 4 * unit_roundoff(DType::f32));
    EXPECT_NEAR(y[0][5], std::exp(-1) / (2 + std::exp(-1)), 12 * unit_roundoff(DType::f32));
  }
}

}  // namespace
}  // namespace toy::test::sum_test
