// y = x w^T + bias + acc and its two gradients as ops. Sums of products: n + 1 roundings, one for each
// operand added.
#include <gtest/gtest.h>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::linear_test {
namespace {

const OpSuite kLinear{
    .op = "linear",
    .cases = {{"x:[1,1] w:[1,1] bias:none acc:none"},
              {"x:[3,5] w:[7,5] bias:none acc:none"},
              {"x:[3,5] w:[7,5] bias:[7] acc:none"},
              {"x:[3,5] w:[7,5] bias:none acc:[3,7]"},
              {"x:[3,5] w:[7,5] bias:[7] acc:[3,7]"},
              {"x:[5,4]@(1,0) w:[5,6]@(1,0) bias:[6] acc:[6,4]@(1,0)"},
              {"x:[3,40] w:f16[9,40] bias:[9] acc:none"},
              {"x:[17,40] w:bf16[9,40] bias:none acc:[17,9]"},
              {"x:[1,645] w:[33,645] bias:none acc:none"},
              {"x:[67,130] w:[71,130] bias:[71] acc:[67,71]"},
              {"x:[9,1300] w:bf16[67,1300] bias:[67] acc:none"}},
    .bad = {{"x:[3,5] w:[7,4] bias:none acc:none", "linear: w has I=4, x has I=5"},
            {"x:[3,5] w:[7,5] bias:[5] acc:none", "linear: bias has O=5, w has O=7"},
            {"x:[3,5] w:[7,5] bias:none acc:[2,7]", "linear: acc has N=2, x has N=3"},
            {"x:[3,5] w:i32[7,5]=below(3) bias:none acc:none", "linear: w is i32, expected a float type"},
            {"x:[3,5] w:[7,5] bias:f16[7] acc:none", "linear: bias is f16, x is f32; cast one of them"}},
    .bound = of_magnitudes([](const Run& r) { return double(r.shape(0)[1]) + 3; }),
    .rows = {"x", "acc"}};

const OpSuite kGradX{.op = "linear_grad_x",
                     .cases = {{"dy:[1,1] w:[1,1] acc:none"},
                               {"dy:[3,7] w:[7,5] acc:none"},
                               {"dy:[3,7] w:[7,5] acc:[3,5]"},
                               {"dy:[7,4]@(1,0) w:[5,7]@(1,0) acc:[5,4]@(1,0)"},
                               {"dy:[17,9] w:f16[9,40] acc:none"},
                               {"dy:[17,9] w:bf16[9,40] acc:[17,40]"},
                               {"dy:[67,131] w:[131,70] acc:[67,70]"}},
                     .bad = {{"dy:[3,7] w:[6,5] acc:none", "linear_grad_x: w has O=6, dy has O=7"},
                             {"dy:[3,7] w:[7,5] acc:[3,6]", "linear_grad_x: acc has I=6, w has I=5"}},
                     .bound = of_magnitudes([](const Run& r) { return double(r.shape(0)[1]) + 2; }),
                     .rows = {"dy", "acc"},
                     .row_wise = false};

const OpSuite kGradW{.op = "linear_grad_w",
                     .cases = {{"dy:[1,1] x:[1,1] acc:none"},
                               {"dy:[3,7] x:[3,5] acc:none"},
                               {"dy:[3,7] x:[3,5] acc:[7,5]"},
                               {"dy:[7,4]@(1,0) x:[5,4]@(1,0) acc:[5,7]@(1,0)"},
                               {"dy:[131,67] x:[131,70] acc:[67,70]"}},
                     .bad = {{"dy:[3,7] x:[4,5] acc:none", "linear_grad_w: x has N=4, dy has N=3"},
                             {"dy:[3,7] x:[3,5] acc:[5,7]", "linear_grad_w: acc has O=5, dy has O=7"}},
                     .bound = of_magnitudes([](const Run& r) { return double(r.shape(0)[0]) + 2; }),
                     .rows = {"dy", "x"}};

// Rows with a factor lie together, apart, or in several blocks of the kernel.
const OpSuite kLowRank{
    .op = "low_rank",
    .cases = {{"x:[1,1] a:[1,1] b:[1,1] acc:[1,1] factor:[1]", ScaleAttrs{2}},
              {"x:[3,5] a:[2,5] b:[7,2] acc:[3,7] factor:[3]=list(0,0,0)", ScaleAttrs{1}},
              {"x:[5,40] a:f16[3,40] b:bf16[9,3] acc:[5,9] factor:[5]=list(0,1,-2,1,0)", ScaleAttrs{0.5}},
              {"x:[5,645] a:[16,645] b:[33,16] acc:[33,5]@(1,0) factor:[5]=list(1,0,0,3,0)", ScaleAttrs{2}},
              {"x:[300,9] a:[4,9] b:[11,4] acc:[300,11] factor:[300]=below(2)", ScaleAttrs{1}},
              {"x:[300,9] a:[4,9] b:[11,4] acc:[300,11] factor:[300]", ScaleAttrs{0.25}}},
    .bad = {{"x:[3,5] a:[2,4] b:[7,2] acc:[3,7] factor:[3]", "low_rank: a has I=4, x has I=5", ScaleAttrs{1}},
            {"x:[3,5] a:[2,5] b:[7,3] acc:[3,7] factor:[3]", "low_rank: b has R=3, a has R=2", ScaleAttrs{1}},
            {"x:[3,5] a:[2,5] b:[7,2] acc:[3,7] factor:[2]", "low_rank: factor has N=2, x has N=3", ScaleAttrs{1}}},
    .bound = of_magnitudes([](const Run& r) { return double(r.shape(0)[1] + r.shape(1)[0]) + 6; }),
    .loss_outputs = {},
    .rows = {"x", "acc", "factor"}};

const bool kDone =
    register_suite(kLinear) && register_suite(kGradX) && register_suite(kGradW) && register_suite(kLowRank);

// Without rows the gradient of a weight is what was there before, or zero.
TEST(LinearGradW, OfNoRows) {
  for (Device* device : {&cpu_device(2), &reference_device()})
    for (const char* acc : {"acc:none", "acc:[7,5]"}) {
      const Built b =
          build_op(*find_op("linear_grad_w"), parse_operands(std::string("dy:[3,7] x:[3,5] ") + acc), {}, {"dy", "x"});
      Program program(b, *device);
      program.set_rows(0);
      const auto it = b.feed.find("acc");
      EXPECT_EQ(program.run()[0], it == b.feed.end() ? std::vector<double>(35, 0.0) : it->second)
          << device->name() << acc;
    }
}

TEST(Linear, OnlyWeightsOfTheComputeTypeCanBeTrained) {
  Graph g;
  const auto scope = g.scope("blk.3");
  const Value x = g.param("x", {DType::f32, {2, 3}, 0}), w = g.param("blk.3.w", {DType::f16, {4, 3}, 0});
  const Value loss = sum_all(linear(x, w));
  const std::vector<Value> wrt{w};
  try {
    gradients(loss, wrt);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "linear: the weight 'blk.3.w' is f16; only f32 weights can be trained");
  }
}

}  // namespace
}  // namespace toy::test::linear_test
