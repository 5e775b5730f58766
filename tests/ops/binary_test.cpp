// add, sub, mul, div: one IEEE operation an element.
#include <gtest/gtest.h>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test {
namespace {

std::vector<Case> cases(const std::string& b) {
  return {{"a:[1] b:[1]" + b},
          {"a:[7,13] b:[7,13]" + b},
          {"a:[7,13] b:[13]" + b},
          {"a:[7,13] b:[]" + b},
          {"a:[] b:[3]" + b},
          {"a:[3,1,5] b:[4,1]" + b},
          {"a:[1,6] b:[5,1]" + b},
          {"a:[2,3,2,3,2] b:[3,1,3,1]" + b},
          {"a:[9,5]@(1,0) b:[5,9]" + b},
          {"a:[4,6,8]@(2,0,1) b:[6,4]@(1,0)" + b},
          {"a:[70,131] b:[131]" + b},
          {"a:[33,300]@(1,0) b:[300,33]" + b}};
}

std::vector<BadCase> bad_cases() {
  return {{"a:[2,3] b:[2]", "elementwise: shapes [2,3] and [2] do not broadcast"},
          {"a:[2,3] b:[4,3]", "elementwise: shapes [2,3] and [4,3] do not broadcast"}};
}

OpSuite suite(const std::string& op, const std::string& b_values) {
  auto bad = bad_cases();
  bad.push_back({"a:[2] b:bf16[2]", op + ": b is bf16, a is f32; cast one of them"});
  bad.push_back({"a:[2] b:i32[2]=below(3)", op + ": b is i32, expected a float type"});
  bad.push_back({"a:[2]", op + ": 1 inputs given, expected " + op + "(a:[...], b:[...]) -> y:[...]"});
  return {.op = op, .cases = cases(b_values), .bad = bad, .bound = relative(1)};
}

const OpSuite kAdd = suite("add", ""), kSub = suite("sub", ""), kMul = suite("mul", ""),
              kDiv = suite("div", "=range(0.5,2)");
const bool kDone = register_suite(kAdd) && register_suite(kSub) && register_suite(kMul) && register_suite(kDiv);

// Rows that a run-time count covers, against everything that broadcasts to them.
const OpSuite kRows{
    .op = "mul", .cases = {{"a:[9,6] b:[9,6]"}, {"a:[9,6] b:[9,1]"}}, .bound = relative(1), .rows = {"a", "b"}};
const OpSuite kVector{.op = "add",
                      .cases = {{"a:[9,6] b:[6]"}, {"a:[9,6] b:[1,6]"}, {"a:[9,6] b:[]"}},
                      .bound = relative(1),
                      .rows = {"a"}};
const bool kRowsDone = register_suite(kRows) && register_suite(kVector);

TEST(Binary, RunTimeRowsDoNotMix) {
  Graph g;
  const int n = g.declare_rows("N", 8), m = g.declare_rows("M", 8);
  const Value a = g.input("a", g.rows_type(n, DType::f32, {3})), b = g.input("b", g.rows_type(m, DType::f32, {3}));
  const Value fixed = g.input("c", {DType::f32, {8, 3}, 0});
  const auto message = [](auto f) {
    try {
      f();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message([&] { a + b; }), "elementwise: different run-time row counts");
  EXPECT_EQ(message([&] { a + fixed; }), "elementwise: f32[<=8,3] and f32[8,3]: fixed and run-time rows");
  EXPECT_EQ(message([&] { fixed + a; }), "elementwise: f32[8,3] and f32[<=8,3]: fixed and run-time rows");
}

// The gradient of a broadcast row must be summed even where a plan allows one row only.
TEST(Binary, GradientOfABiasOverAtMostOneRow) {
  Graph g;
  const int n = g.declare_rows("N", 1);
  const Value x = g.param("x", g.rows_type(n, DType::f32, {3})), bias = g.param("bias", {DType::f32, {3}, 0});
  const Value w = g.param("w", {DType::f32, {5, 3}, 0});
  const Value targets = g.input("targets", g.rows_type(n, DType::i32)),
              weight = g.input("weight", g.rows_type(n, DType::f32));
  const Value loss = linear_xent(x + bias, w, targets, weight).loss;
  const std::vector<Value> wrt{bias};
  const auto grads = gradients(loss, wrt);
  EXPECT_EQ(grads[0].type(), bias.type());
}

}  // namespace
}  // namespace toy::test
