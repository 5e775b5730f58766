// cast rounds once, to nearest and even; integers saturate. fill writes one value.
#include <gtest/gtest.h>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::cast_test {
namespace {

// Both devices round: no tolerance. (What rounds has no derivative to compare with; its gradient is tested
// below.)
const OpSuite kCast{
    .op = "cast",
    .cases = {{"x:[1]", CastAttrs{DType::f32}},
              {"x:[3,67]", CastAttrs{DType::f16}},
              {"x:[3,67]", CastAttrs{DType::bf16}},
              {"x:[5,9]@(1,0)", CastAttrs{DType::bf16}},
              {"x:[40]=range(-70000,70000)", CastAttrs{DType::f16}},
              {"x:[40]=range(-0.0001,0.0001)", CastAttrs{DType::f16}},
              {"x:[7]=list(1.00048828125,1.001,1.00390625,1.01171875,65519,65520,65504)", CastAttrs{DType::f16}},
              {"x:[40]=range(-9,9)", CastAttrs{DType::i32}},
              {"x:[4]=list(3e9,-3e9,2147483520,-0.5)", CastAttrs{DType::i32}},
              {"x:f16[3,67]", CastAttrs{DType::f32}},
              {"x:bf16[3,67]", CastAttrs{DType::f16}},
              {"x:i32[50]=below(100000)", CastAttrs{DType::f32}},
              {"x:i32[50]=below(2000000000)", CastAttrs{DType::bf16}},
              {"x:[71,99]", CastAttrs{DType::bf16}}},
    .bad = {{"", "cast: 0 inputs given, expected cast(x:any[*]) -> y:[*]", CastAttrs{}}},
    .loss_outputs = {}};

const OpSuite kFill{.op = "fill",
                    .cases = {{"", FillAttrs{{}, 2.5}},
                              {"", FillAttrs{{1}, -1}},
                              {"", FillAttrs{{3, 5}, 0}},
                              {"", FillAttrs{{71, 99}, 0.1}}},
                    .bound = relative(1)};

const bool kDone = register_suite(kCast) && register_suite(kFill);

TEST(Cast, GradientComesBackInTheInputsType) {
  Graph g;
  const Value x = g.param("x", {DType::f16, {4}, 0});
  const std::vector<Value> wrt{x};
  const auto grads = gradients(sum_all(cast(x, DType::f32)), wrt);
  EXPECT_EQ(grads[0].type(), x.type());
  const Value ids = g.param("ids", {DType::i32, {4}, 0});
  const std::vector<Value> integers{ids};
  EXPECT_THROW(gradients(sum_all(cast(ids, DType::f32)), integers), Error);
}

}  // namespace
}  // namespace toy::test::cast_test
