// What a program can get wrong with the public interface: every mistake is an Error that tells of it, never a crash.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/graph/autodiff.h"
#include "toy/ops/ops.h"
#include "toy/runtime/evaluate.h"
#include "toy/runtime/session.h"

namespace toy::misuse_test {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

void expect_error(const std::string& part, const std::function<void()>& f) {
  try {
    f();
    ADD_FAILURE() << "no error; expected: " << part;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\n  expected: " << part;
  }
}

struct Misuse : ::testing::Test {
  Graph g;
  Value a = g.input("a", {DType::f32, {2, 3}, 0}), ids = g.input("ids", {DType::i32, {4}, 0}, 5);
  std::unique_ptr<Device> device = make_test_device(1);
};

TEST_F(Misuse, OperandsThatAreNotThere) {
  expect_error("add: no operand is there", [] { add({}, {}); });
  expect_error("softmax: no operand is there", [] { softmax({}); });
  expect_error("add: input b is missing", [&] { add(a, {}); });
  expect_error("an empty value has no type", [] { sum_all({}); });
  expect_error("an empty value has no type", [] { (void)Value{}.type(); });
  expect_error("node 999 of 2", [&] { softmax({&g, 999, 0}); });
  expect_error("node -1 of 2", [&] { softmax({&g, -1, 0}); });
  expect_error("output 7 of node 0, which has 1", [&] { softmax({&g, 0, 7}); });
  expect_error("node 99 of 2", [&] { (void)g.node(99); });
  expect_error("not of this graph", [&] { g.set_name({}, "x"); });
  // Ops with several outputs.
  expect_error("linear_xent: no operand is there", [] { linear_xent({}, {}, {}, {}); });
  expect_error("linear_xent: input x is missing", [&] { linear_xent({}, a, ids, {}); });
  expect_error("kv_append: no operand is there", [] { kv_append({}, {}, {}, {}, {}, {}); });
  expect_error("adamw: input g is missing", [&] { adamw({a, a, a}, {}, a, a, a, {}, {}); });
  expect_error("adamw8: input g is missing", [&] { adamw8({a, a, a, a, a}, {}, a, a, a, {}, {}); });
  expect_error("sgd: input g is missing", [&] { sgd({a, {}}, {}, a, {}, {}); });
  expect_error("sgd_momentum: input g is missing", [&] { sgd({a, a}, {}, a, {}, {}); });
  expect_error("lion: input g is missing", [&] { lion({a, a}, {}, a, {}, {}); });
  expect_error("adafactor: input g is missing", [&] { adafactor({a, a, a}, {}, a, a, {}, {}); });
  expect_error("adafactor_vector: input g is missing", [&] { adafactor({a, a, {}}, {}, a, a, {}, {}); });
  expect_error("momentum: input g is missing", [&] { momentum(a, {}, {}, {}); });
  expect_error("null pointer", [&] {
    const Value p = g.param("p", {DType::f32, {2}, 0});
    evaluate(p + p, {.feeds = {}, .stores = {nullptr}});
  });
}

TEST_F(Misuse, ShapesThatCannotBe) {
  expect_error("slice: 9223372036854775807 elements from 1 on", [&] { slice(a, 1, 1, kHuge); });
  expect_error("larger than any memory", [&] { pad(a, 0, kHuge, kHuge); });
  expect_error("larger than any memory", [&] { pad(a, 0, int64_t(1) << 61, 1); });
  expect_error("larger than any memory", [&] { repeat(a, 0, int64_t(1) << 62); });
  expect_error("fill: a tensor of f32[-1,3] has a negative dimension", [&] { fill(g, {-1, 3}, 0); });
  expect_error("larger than any memory", [&] { fill(g, {int64_t(1) << 32, int64_t(1) << 32}, 0); });
  expect_error("one_hot", [&] { one_hot(ids, -4); });
  expect_error("larger than any memory", [&] { one_hot(ids, kHuge); });
  expect_error("negative dimension", [&] { g.input("b", {DType::f32, {-2}, 0}); });
  expect_error("negative dimension", [&] { g.constant({DType::f32, {-2, -3}, 0}, std::vector<double>(6)); });
  expect_error("no row count number 99", [&] { g.input("b", {DType::f32, {2}, 99}); });
  expect_error("no row count number 99", [&] { g.rows_type(99, DType::f32); });
  expect_error("declared twice", [&] { g.declare_rows("n", 3), g.declare_rows("n", 4); });
  expect_error("no dtype number 99", [&] { cast(a, DType(99)); });
  const Value tall = broadcast_to(g.scalar(1), {int64_t(1) << 40, 1}),
              wide = broadcast_to(g.scalar(1), {1, int64_t(1) << 40});
  expect_error("matmul: a tensor of f32[1099511627776,1099511627776] is larger", [&] { matmul(tall, wide); });
}

TEST_F(Misuse, Compiling) {
  Graph other;
  const std::vector<Value> empty{Value{}}, foreign{other.input("x", a.type())}, no_update{neg(a)};
  expect_error("output 0 is an empty value", [&] { compile(g, empty, {}, *device); });
  expect_error("output 0 is a value of another graph", [&] { compile(g, foreign, {}, *device); });
  expect_error("update 0 (neg) updates no parameter", [&] { compile(g, {}, no_update, *device); });
}

TEST_F(Misuse, Sessions) {
  const Value row_ids = g.input("rows", g.rows_type(g.declare_rows("n", 4), DType::i32), 5);
  g.input("unused", {DType::f32, {2}, 0});
  const Value p = g.param("p", {DType::f32, {3}, 0}), table = g.param("table", {DType::f32, {5, 2}, 0});
  const std::vector<Value> outputs{a * p, embedding(table, ids), embedding(table, row_ids)};
  const auto plan = std::make_shared<const Plan>(compile(g, outputs, {}, *device));
  ParamStore store(*device);
  store.add("p", p.type());
  store.add("table", table.type());
  Session s(*device, plan, {&store});
  const std::vector<float> two(2), six(6);
  const std::vector<int32_t> four(4), out_of_range{0, 1, 5, 0};
  s.set("unused", two);
  s.set("a", six);
  s.set("ids", four);
  s.set("rows", std::span(four).first(1));
  s.run();
  expect_error("the graph has no input 'A'", [&] { s.set("A", six); });
  expect_error("2 values for input 'a' of type f32[2,3]", [&] { s.set("a", two); });
  expect_error("input 'ids' is i32, got f32 values", [&] { s.set("ids", six); });
  expect_error("value 5 at index 2 is outside 0 to 4", [&] { s.set("ids", out_of_range); });
  expect_error("output 9 of 3", [&] { (void)s.output(9); });
  expect_error("output 9 of 3", [&] { (void)s.values(9); });
  expect_error("output 0 of shape [2,3] is not a scalar", [&] { (void)s.scalar(0); });
  expect_error("there is no plan", [&] { Session(*device, nullptr, {&store}); });
  expect_error("null pointer", [&] { Session(*device, plan, {nullptr}); });
  expect_error("'x' has no data", [&] { store.bind("x", View(nullptr, DType::f32, {4}), nullptr); });
}

}  // namespace
}  // namespace toy::misuse_test
