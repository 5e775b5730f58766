#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::l2_norm_test {
namespace {

// The bounds are derived in src/backend/cpu/rows/l2_norm.cpp.
double width(const Run& r) { return double(r.shape(0).back()); }

const OpSuite kL2Norm{
    .op = "l2_norm",
    .cases = {{"x:[1,1]", L2NormAttrs{}},
              {"x:[2,31]", L2NormAttrs{}},
              {"x:[5,3,16]@(1,0,2)", L2NormAttrs{1e-2f}},
              {"x:[9,8]=range(-0.2,0.2)", L2NormAttrs{3e-2f}},
              {"x:[70,2,128]", L2NormAttrs{}}},
    .bad = {{"x:[8]", "l2_norm: eps is -0.5, expected a small number, not below 0", L2NormAttrs{-0.5f}},
            {"x:[]", "l2_norm: x has 0 dimensions [], expected at least 1", L2NormAttrs{}},
            {"x:i32[8]=below(3)", "l2_norm: x is i32, expected a float type", L2NormAttrs{}}},
    .bound = relative([](const Run& r) { return width(r) / 128 + 8; }),
    .rows = {"x"}};

const OpSuite kOneRow{.op = "l2_norm", .cases = {{"x:[13]", L2NormAttrs{}}}, .bound = kL2Norm.bound};

std::vector<double> grad_bound(const Run& r, int) {
  const size_t d = size_t(r.shape(0).back());
  const std::vector<double> x = r.in(0), dy = r.in(1);
  std::vector<double> bound(x.size());
  for (size_t n = 0; n < x.size(); n += d) {
    double squares = double(r.attrs().as<L2NormAttrs>().eps), dot = 0;
    for (size_t i = n; i < n + d; ++i) squares += x[i] * x[i], dot += std::fabs(x[i] * dy[i]);
    for (size_t i = n; i < n + d; ++i)
      bound[i] = (double(d) / 24 + 34) / std::sqrt(squares) * (std::fabs(dy[i]) + std::fabs(x[i]) / squares * dot);
  }
  return bound;
}

const OpSuite kL2NormGrad{.op = "l2_norm_grad",
                          .cases = {{"x:[1,1] dy:[1,1]", L2NormAttrs{1e-2f}},
                                    {"x:[2,31] dy:[2,31]", L2NormAttrs{}},
                                    {"x:[5,3,16]@(1,0,2) dy:[3,5,16]", L2NormAttrs{1e-2f}},
                                    {"x:[9,8]=range(-0.2,0.2) dy:[9,8]", L2NormAttrs{3e-2f}},
                                    {"x:[70,2,128] dy:[70,2,128]", L2NormAttrs{}}},
                          .bad = {{"x:[2,8] dy:[2,7]", "l2_norm_grad: dy has D=7, x has D=8", L2NormAttrs{}}},
                          .bound = grad_bound,
                          .rows = {"x", "dy"}};

const bool kDone = register_suite(kL2Norm) && register_suite(kOneRow) && register_suite(kL2NormGrad);

// A row of zeros stays one, with a gradient that is finite.
TEST(L2Norm, ZeroRows) {
  Built b = build_op(*find_op("l2_norm"), parse_operands("x:[2,5]=const(0)"), L2NormAttrs{1e-6f});
  const double scale = 1 / std::sqrt(double(1e-6f));
  for (Device* device : {&cpu_device(2), &reference_device()})
    EXPECT_EQ(Program(b, *device).run()[0], std::vector<double>(10, 0.0)) << device->name();
  ask_for_gradients(b, {0}, {b.leaves[0]});
  const Results g = Program(b, reference_device()).run();
  for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(g[1][i], scale * b.feed["R0"][i], 1e-9 * scale);
}

}  // namespace
}  // namespace toy::test::l2_norm_test
