// Rows mapped by the experts that they were routed to.
#include <gtest/gtest.h>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::expert_linear_test {
namespace {

std::string shape(int a, int b, int c) {
  return "[" + std::to_string(a) + "," + std::to_string(b) + "," + std::to_string(c) + "]";
}
std::string ids(int n, int used, int experts) {
  return " ids:i32[" + std::to_string(n) + "," + std::to_string(used) + "]=below(" + std::to_string(experts) + ")";
}
std::string rows(int n, int s, int in, int experts, int out, int used, const std::string& type = "") {
  return "x:" + shape(n, s, in) + " w:" + type + shape(experts, out, in) + ids(n, used, experts);
}
std::string grad_x(int n, int in, int experts, int out, int used) {
  return "dy:" + shape(n, used, out) + " w:" + shape(experts, out, in) + ids(n, used, experts);
}
std::string grad_w(int n, int s, int in, int experts, int out, int used) {
  return "dy:" + shape(n, used, out) + " x:" + shape(n, s, in) + ids(n, used, experts);
}

// Any order of n products and sums, each a rounding: n of the magnitudes, and one for the last.
Bound sums(int operand, int dim) {
  return of_magnitudes([=](const Run& r) { return double(r.shape(operand)[dim]) + 1; });
}

const OpSuite kForward{
    .op = "expert_linear",
    .cases = {{rows(1, 1, 1, 1, 1, 1)},
              {rows(1, 1, 40, 5, 9, 2)},      // one row: decoding
              {rows(7, 1, 5, 3, 4, 2)},       // the row is the same for both of its experts
              {rows(7, 2, 5, 3, 4, 2)},       // and another for each
              {rows(6, 1, 5, 64, 3, 4)},      // most experts have no rows
              {rows(301, 1, 33, 2, 131, 1)},  // many rows of one: several blocks, several pieces
              {rows(20, 2, 48, 3, 20, 2, "f16")},
              {rows(20, 1, 48, 3, 20, 2, "bf16")},
              {"x:[5,7,1]@(1,2,0) w:[3,4,5] ids:i32[7,2]=below(3)"}},
    .bad = {{"x:[4,3,5] w:[3,4,5] ids:i32[4,2]=below(3)", "expert_linear: x has S=3, expected 1 or U=2"},
            {"x:[4,1,5] w:[3,4,6] ids:i32[4,2]=below(3)", "expert_linear: w has I=6, x has I=5"},
            {"x:[4,1,5] w:[3,4,5] ids:i32[5,2]=below(3)", "expert_linear: ids has N=5, x has N=4"}},
    .bound = sums(0, 2),
    .rows = {"x", "ids"}};

const OpSuite kGradX{
    .op = "expert_linear_grad_x",
    .cases = {{grad_x(1, 1, 1, 1, 1)}, {grad_x(1, 40, 5, 9, 2)}, {grad_x(7, 5, 3, 4, 2)}, {grad_x(301, 131, 2, 33, 1)}},
    .bad = {{"dy:[4,2,5] w:[3,4,5] ids:i32[4,2]=below(3)", "expert_linear_grad_x: w has O=4, dy has O=5"}},
    .bound = sums(0, 2),
    .loss_outputs = {},
    .rows = {"dy", "ids"}};

const OpSuite kGradW{.op = "expert_linear_grad_w",
                     .cases = {{grad_w(1, 1, 1, 1, 1, 1), ExpertAttrs{1}},
                               {grad_w(7, 1, 5, 3, 4, 2), ExpertAttrs{3}},
                               {grad_w(7, 2, 5, 3, 4, 2), ExpertAttrs{9}},
                               {grad_w(301, 1, 33, 2, 131, 1), ExpertAttrs{2}}},
                     .bad = {{"dy:[4,2,5] x:[4,3,5] ids:i32[4,2]=below(3)",
                              "expert_linear_grad_w: x has S=3, expected 1 or U=2", ExpertAttrs{3}}},
                     .bound = of_magnitudes([](const Run& r) { return double(r.shape(2)[0] * r.shape(2)[1]) + 1; }),
                     .loss_outputs = {},
                     .rows = {"dy", "x", "ids"},
                     .fixed_rows = true,
                     .row_wise = false};

const bool kDone = register_suite(kForward) && register_suite(kGradX) && register_suite(kGradW);

TEST(ExpertLinear, IsTheLinearMapOfThatExpert) {
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
    const Built b =
        build_op(*find_op("expert_linear"),
                 parse_operands("x:[2,1,2]=list(1,2,3,4) w:[3,1,2]=list(1,0,0,1,1,1) ids:i32[2,2]=list(2,0,1,1)"), {});
    EXPECT_EQ(Program(b, *device).run()[0], (std::vector<double>{3, 1, 4, 4})) << device->name();
  }
}

TEST(ExpertLinear, ExpertsThatAreNotThereAreNamed) {
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
    const Built b =
        build_op(*find_op("expert_linear"), parse_operands("x:[2,1,3] w:[4,2,3] ids:i32[2,2]=list(0,1,3,4)"), {});
    Program program(b, *device);
    try {
      program.run();
      FAIL() << device->name();
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "expert_linear: row 1 has expert 4");
    }
  }
}

}  // namespace
}  // namespace toy::test::expert_linear_test
