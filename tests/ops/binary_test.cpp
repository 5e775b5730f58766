// Functions of two operands, each one IEEE operation an element or exact; where.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::binary_test {
namespace {

// The values of a and b are written as in operands.h.
std::vector<Case> cases(const std::string& a_values, const std::string& b_values) {
  const std::pair<const char*, const char*> shapes[] = {{"[1]", "[1]"},
                                                        {"[7,13]", "[7,13]"},
                                                        {"[7,13]", "[13]"},
                                                        {"[7,13]", "[]"},
                                                        {"[]", "[3]"},
                                                        {"[3,1,5]", "[4,1]"},
                                                        {"[1,6]", "[5,1]"},
                                                        {"[2,3,2,3,2]", "[3,1,3,1]"},
                                                        {"[9,5]@(1,0)", "[5,9]"},
                                                        {"[70,131]", "[131]"},
                                                        {"[4,6,8]@(2,0,1)", "[6,4]@(1,0)"},
                                                        {"[33,300]@(1,0)", "[300,33]"}};
  std::vector<Case> list;
  for (const auto& [a, b] : shapes) list.push_back({"a:" + (a + a_values) + " b:" + (b + b_values)});
  return list;
}

std::vector<BadCase> bad_cases(const std::string& op) {
  return {{"a:[2,3] b:[2]", op + ": shapes [2,3] and [2] do not broadcast"},
          {"a:[2,3] b:[4,3]", op + ": shapes [2,3] and [4,3] do not broadcast"}};
}

OpSuite suite(const std::string& op, const std::string& b_values, const std::string& a_values = "") {
  auto bad = bad_cases(op);
  bad.push_back({"a:[2] b:bf16[2]", op + ": b is bf16, a is f32; cast one of them"});
  bad.push_back({"a:[2] b:i32[2]=below(3)", op + ": b is i32, expected a float type"});
  bad.push_back({"a:[2]", op + ": 1 inputs given, expected " + op + "(a:[...], b:[...]) -> y:[...]"});
  return {.op = op, .cases = cases(a_values, b_values), .bad = bad, .bound = relative(1)};
}

const OpSuite kAdd = suite("add", ""), kSub = suite("sub", ""), kMul = suite("mul", ""),
              kDiv = suite("div", "=range(0.5,2)");
const bool kDone = register_suite(kAdd) && register_suite(kSub) && register_suite(kMul) && register_suite(kDiv);

// Operands that differ by 1/32 or more: finite differences stay on one side of the kink.
OpSuite exact_suite(const std::string& op) {
  OpSuite s = suite(op, "=steps(-1.5,1.5,0.0625)", "=steps(-1.46875,1.5,0.0625)");
  s.bound = exact();
  return s;
}
OpSuite comparison(const std::string& op) {
  OpSuite s = exact_suite(op);
  s.bad.back().message = op + ": 1 inputs given, expected " + op + "(a:[...], b:[...]) -> y:i32[...]";
  s.cases.push_back({"a:[6]=list(1,2,3,0,-1,5) b:[6]=list(2,2,2,-0,-1,4)"});
  s.loss_outputs = {};
  return s;
}
const OpSuite kMaximum = exact_suite("maximum"), kMinimum = exact_suite("minimum"), kGreater = comparison("greater"),
              kEqual = comparison("equal");

const OpSuite kWhere{.op = "where",
                     .cases = {{"cond:i32[1]=below(2) a:[1] b:[1]"},
                               {"cond:i32[7,13]=below(2) a:[7,13] b:[7,13]"},
                               {"cond:i32[6]=list(0,1,-1,7,0,-2147483648) a:[6] b:[6]"},
                               {"cond:i32[7,1]=below(2) a:[13] b:[]"},
                               {"cond:i32[3,1,5]=below(2) a:[4,1] b:[1,1,5]"},
                               {"cond:i32[]=list(1) a:[3] b:[2,3]"},
                               {"cond:i32[5,9]@(1,0)=below(2) a:[9,5] b:[5,9]@(1,0)"},
                               {"cond:i32[70,131]=below(3) a:[131] b:[70,131]"},
                               {"cond:i32[3,700]=below(2) a:[3,1] b:[700]"}},
                     .bad = {{"cond:[3] a:[3] b:[3]", "where: cond is f32, expected i32"},
                             {"cond:i32[3]=below(2) a:[3] b:bf16[3]", "where: b is bf16, a is f32; cast one of them"},
                             {"cond:i32[2]=below(2) a:[3] b:[3]", "where: shapes [2] and [3] do not broadcast"},
                             {"cond:i32[2]=below(2) a:[] b:[3]", "where: shapes [2] and [3] do not broadcast"}}};
const OpSuite kWhereRows{.op = "where", .cases = {{"cond:i32[9,6]=below(2) a:[9,1] b:[6]"}}, .rows = {"cond", "a"}};
const bool kMoreDone = register_suite(kMaximum) && register_suite(kMinimum) && register_suite(kGreater) &&
                       register_suite(kEqual) && register_suite(kWhere) && register_suite(kWhereRows);

// Equal operands: a's; NaN is passed on and compares as neither greater nor equal.
TEST(Binary, TiesAndNaN) {
  const std::vector<double> a{1, 1, NAN, 1, NAN, 0}, b{1, 2, 1, NAN, NAN, -0.0};
  struct {
    const char* op;
    std::vector<double> y, da, db;
  } const cases[] = {
      {"maximum", {1, 2, NAN, NAN, NAN, 0}, {1, 0, 1, 1, 1, 1}, {0, 1, 0, 0, 0, 0}},
      {"minimum", {1, 1, NAN, NAN, NAN, 0}, {1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0}},
      {"greater", {0, 0, 0, 0, 0, 0}, {}, {}},
      {"equal", {1, 0, 0, 0, 0, 1}, {}, {}},
  };
  for (const auto& c : cases)
    for (Device* device : {&cpu_device(1), &reference_device()}) {
      Built built = build_op(*find_op(c.op), parse_operands("a:[6] b:[6]"), {});
      if (!c.da.empty()) {
        const std::vector<Value> of = gradients(sum_all(built.outputs[0]), built.leaves);
        built.outputs.insert(built.outputs.end(), of.begin(), of.end());
      }
      built.feed["a"] = a, built.feed["b"] = b;
      const Results r = Program(built, *device).run();
      const std::string what = std::string(c.op) + " on " + std::string(device->name());
      expect_same(r[0], c.y, what);
      if (c.da.empty()) continue;
      EXPECT_EQ(r[1], c.da) << what;
      EXPECT_EQ(r[2], c.db) << what;
    }
}

// What is not taken does not matter, not even when it is not a number; conditions have no gradient.
TEST(Binary, WhereKeepsOutWhatIsNotTaken) {
  Built b;
  const Value x = b.graph->param("x", {DType::f32, {4}, 0});
  const Value zero = b.graph->scalar(0);
  b.outputs = {where(greater(x, zero), log(x), zero)};
  const std::vector<Value> wrt{x};
  b.outputs.push_back(gradients(sum_all(b.outputs[0]), wrt)[0]);
  b.feed["x"] = {-1, 1, 2, 0.5};
  for (Device* device : {&cpu_device(1), &reference_device()}) {
    const Results r = Program(b, *device).run();
    EXPECT_EQ(r[0][0], 0);
    EXPECT_EQ(r[1], (std::vector<double>{-0.0, 1, 0.5, 2}));
  }
}

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
  EXPECT_EQ(message([&] { a + b; }), "add: different run-time row counts");
  EXPECT_EQ(message([&] { a + fixed; }), "add: f32[<=8,3] and f32[8,3]: fixed and run-time rows");
  EXPECT_EQ(message([&] { fixed + a; }), "add: f32[8,3] and f32[<=8,3]: fixed and run-time rows");
  // Aligned at the end, the rows would be columns.
  const Value row = g.input("d", g.rows_type(n, DType::f32)), wide = g.input("e", {DType::f32, {3, 8}, 0});
  EXPECT_EQ(message([&] { row + wide; }), "add: f32[<=8] and f32[3,8]: run-time rows must stay the first dimension");
  EXPECT_EQ(message([&] { wide* row; }), "mul: f32[3,8] and f32[<=8]: run-time rows must stay the first dimension");
  EXPECT_EQ(message([&] { where(greater(wide, g.scalar(0)), wide, row); }),
            "where: i32[3,8] and f32[<=8]: run-time rows must stay the first dimension");
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
}  // namespace toy::test::binary_test
