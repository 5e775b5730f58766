// Ops that move elements or look at them differently: exact.
#include <gtest/gtest.h>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::views_test {
namespace {

Attrs shape(const Shape& s) { return ShapeAttrs{s}; }
Attrs order(const Shape& s) { return PermuteAttrs{s}; }
Attrs part(int axis, int64_t begin, int64_t count) { return SliceAttrs{axis, begin, count}; }

const OpSuite kReshape{
    .op = "reshape",
    .cases = {{"x:[2,6]", shape({3, 4})},
              {"x:[2,6]", shape({-1, 2, 3})},
              {"x:[1]", shape({})},
              {"x:[]", shape({1, 1})},
              {"x:[5,4]@(1,0)", shape({2, 10})},
              {"x:[2,3,4]@(1,2,0)", shape({-1, 8})}},
    .bad = {{"x:[2,6]", "reshape: [2,6] has 12 elements, [5,2] has 10", shape({5, 2})},
            {"x:[]", "reshape: shape [-1]: x is a scalar and has no first dimension to keep", shape({-1})},
            {"x:[4]", "reshape: shape [2,-2] has a negative dimension", shape({2, -2})}}};

const OpSuite kReshapeRows{.op = "reshape", .cases = {{"x:[6,4]", shape({-1, 2, 2})}}, .rows = {"x"}};

const OpSuite kStopGradient{.op = "stop_gradient", .cases = {{"x:[2,6]"}, {"x:[5,4]@(1,0)"}}, .no_gradient = {"x"}};

const OpSuite kPermute{.op = "permute",
                       .cases = {{"x:[3]", order({0})},
                                 {"x:[3,5]", order({1, 0})},
                                 {"x:[2,3,4]", order({2, 0, 1})},
                                 {"x:[2,3,4]@(1,0,2)", order({1, 0, 2})},
                                 {"x:[2,1,3,2,2]", order({4, 2, 0, 1, 3})}},
                       .bad = {{"x:[3,5]", "permute: order [0] for 2 dimensions", order({0})},
                               {"x:[3,5]", "permute: [0,0] is not an order of 2 dimensions", order({0, 0})},
                               {"x:[3,5]", "permute: [0,2] is not an order of 2 dimensions", order({0, 2})}}};
const OpSuite kPermuteRows{.op = "permute", .cases = {{"x:[5,2,3]", order({0, 2, 1})}}, .rows = {"x"}};

const OpSuite kSlice{.op = "slice",
                     .cases = {{"x:[7]", part(0, 2, 3)},
                               {"x:[4,6]", part(1, 0, 6)},
                               {"x:[4,6]", part(0, 1, 2)},
                               {"x:[4,6]", part(1, 5, 1)},
                               {"x:[4,6,3]@(1,0,2)", part(1, 1, 2)},
                               {"x:[4,6]", part(1, 3, 0)}},
                     .bad = {{"x:[4,6]", "slice: axis 2 of 2 dimensions", part(2, 0, 1)},
                             {"x:[4,6]", "slice: axis -1 of 2 dimensions", part(-1, 0, 1)},
                             {"x:[4,6]", "slice: 3 elements from 5 on of axis 1 with 6", part(1, 5, 3)},
                             {"x:[4,6]", "slice: 2 elements from -1 on of axis 1 with 6", part(1, -1, 2)}}};
const OpSuite kSliceRows{.op = "slice", .cases = {{"x:[5,6]", part(1, 2, 3)}}, .rows = {"x"}};

const OpSuite kConcat{
    .op = "concat",
    .cases = {{"a:[3]", AxisAttrs{0}},
              {"a:[3] b:[4]", AxisAttrs{0}},
              {"a:[2,3] b:[2,1] c:[2,5]", AxisAttrs{1}},
              {"a:[2,3,4] b:[2,2,4]", AxisAttrs{1}},
              {"a:[3,2]@(1,0) b:[2,5]", AxisAttrs{1}},
              {"a:[130,70] b:[130,3]", AxisAttrs{1}},
              {"a:[130,70] b:[7,70]", AxisAttrs{0}}},
    .bad = {{"a:[2,3] b:[3,3]", "concat: xs[1] is f32[3,3], xs[0] is f32[2,3]; only axis 1 may differ", AxisAttrs{1}},
            {"a:[2,3] b:[2]", "concat: xs[1] has 1 dimensions, xs[0] has 2", AxisAttrs{1}},
            {"a:[2,3] b:[2,3]", "concat: axis 2 of 2 dimensions", AxisAttrs{2}},
            {"a:[2] b:f16[2]", "concat: xs[1] is f16, xs[0] is f32; cast one of them", AxisAttrs{0}}}};
const OpSuite kConcatRows{.op = "concat", .cases = {{"a:[7,3] b:[7,2]", AxisAttrs{1}}}, .rows = {"a", "b"}};

const OpSuite kBroadcast{
    .op = "broadcast_to",
    .cases = {{"x:[]", shape({2, 3})},
              {"x:[3]", shape({2, 3})},
              {"x:[2,1]", shape({2, 5})},
              {"x:[2,1]", shape({-1, 5})},
              {"x:[2,1,3]@(2,1,0)", shape({4, 3, 5, 2})}},
    .bad = {{"x:[3]", "broadcast_to: [3] does not repeat to [3,2]", shape({3, 2})},
            {"x:[1,3]", "broadcast_to: [1,3] does not repeat to [3]", shape({3})},
            {"x:[]", "broadcast_to: shape [-1,3]: x is a scalar and has no first dimension to keep", shape({-1, 3})}}};

const bool kDone = register_suite(kReshape) && register_suite(kReshapeRows) && register_suite(kStopGradient) &&
                   register_suite(kPermute) && register_suite(kPermuteRows) && register_suite(kSlice) &&
                   register_suite(kSliceRows) && register_suite(kConcat) && register_suite(kConcatRows) &&
                   register_suite(kBroadcast);

TEST(Views, BroadcastToKeepsRunTimeRowsOrSaysHow) {
  const Built b = build_operands(parse_operands("x:[4,3]"), {"x"});
  const Value x = b.operands[0];
  EXPECT_EQ(broadcast_to(x, {-1, 3}).type(), x.type());
  for (const Shape& s : {Shape{4, 3}, Shape{2, 4, 3}, Shape{-1, 4, 3}}) {
    try {
      broadcast_to(x, s);
      ADD_FAILURE() << s.str();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("keep them with a first dimension of -1"), std::string::npos) << e.what();
    }
  }
}

// Gradients of run-time rows have run-time rows. Only a loss over rows leads to them: sums over rows have no gradient.
TEST(Views, GradientsKeepRunTimeRows) {
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    Built b = build_operands(parse_operands("x:[5,4] w:[7,6] targets:i32[5]=below(7) weight:[5]"),
                             {"x", "targets", "weight"});
    const Value x = b.operands[0], heads = permute(reshape(x, {-1, 2, 2}), {0, 2, 1});
    const std::vector<Value> parts{reshape(heads, {-1, 4}), slice(x, 1, 1, 2)};
    const Value loss = linear_xent(concat(parts, 1), b.operands[1], b.operands[2], b.operands[3]).loss;
    const std::vector<Value> wrt{x};
    b.outputs = gradients(loss, wrt);
    ASSERT_EQ(b.outputs[0].type(), x.type());
    Program program(b, *device);
    const std::vector<double> all = program.run()[0];
    program.set_rows(3);
    expect_same(program.run()[0], {all.begin(), all.begin() + 12}, "three rows of five");
  }
}

}  // namespace
}  // namespace toy::test::views_test
