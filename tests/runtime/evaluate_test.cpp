#include "toy/runtime/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/errors.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/ops/ops.h"

namespace toy::evaluate_test {
namespace {

using testing::error_of;

TEST(Evaluate, ConstantsNeedNothing) {
  Graph g;
  const Value x = g.constant(f32({2, 2}), {1, 2, 3, 4});
  const Evaluated e = evaluate(x * x + g.scalar(0.5));
  EXPECT_EQ(e.what, "add");
  EXPECT_EQ(e.type, f32({2, 2}));
  EXPECT_EQ(e.values, (std::vector<double>{1.5, 4.5, 9.5, 16.5}));
  EXPECT_EQ(evaluate(x).values, (std::vector<double>{1, 2, 3, 4}));  // a leaf is a value, too
  EXPECT_EQ(evaluate(permute(x, {1, 0})).values, (std::vector<double>{1, 3, 2, 4}));
}

TEST(Evaluate, OnTheReferenceInF64UnlessToldOtherwise) {
  Graph g;
  const Value third = g.scalar(1) / g.scalar(3);
  EXPECT_EQ(evaluate(third).values[0], 1.0 / 3);
  const auto cpu = make_test_device(1);
  EXPECT_EQ(evaluate(third, {.device = cpu.get()}).values[0], double(1.0f / 3));
}

TEST(Evaluate, InputsAndParametersByName) {
  Graph g;
  const int n = g.declare_rows("rows", 4);
  const Value ids = g.input("ids", g.rows_type(n, DType::i32), 3), table = g.param("table", f32({3, 2}));
  const Value bias = g.input("bias", f32({2})), scales = g.input("scales", g.rows_type(n, DType::f32, {1}));
  const Value y = (embedding(table, ids) + bias) * scales;
  const auto cpu = make_test_device(2);
  ParamStore store(*cpu);
  store.add("table", f32({3, 2}));
  store.write("table", std::vector<float>{0, 1, 10, 11, 20, 21});
  const std::vector<int32_t> two{2, 0};
  const std::vector<float> half{0.5f, 0.25f}, factors{1, 2};
  const Evaluated e = evaluate(y, {.feeds = {{"ids", two}, {"bias", half}, {"scales", factors}}, .stores = {&store}});
  EXPECT_EQ(e.type, f32({2, 2}));  // as many rows as were fed
  EXPECT_EQ(e.values, (std::vector<double>{20.5, 21.25, 1, 2.5}));
  const std::vector<float> ones{1, 1, 1, 1, 1, 1};  // a parameter may be fed
  EXPECT_EQ(evaluate(embedding(table, ids), {.feeds = {{"ids", two}, {"table", ones}}}).values,
            (std::vector<double>{1, 1, 1, 1}));

  EXPECT_EQ(error_of([&] {
              evaluate(y, {.feeds = {{"ids", two}, {"scales", factors}}, .stores = {&store}});
            }),
            "evaluate: input 'bias' of type f32[2] is not fed");
  EXPECT_EQ(error_of([&] { evaluate(table); }),
            "evaluate: parameter 'table' of type f32[3,2] has no values; give a store that holds it, or feed it");
  EXPECT_EQ(error_of([&] {
              evaluate(bias, {.feeds = {{"bia", half}}});
            }),
            "evaluate: the graph has no input or parameter 'bia', which was fed");
  const Value fixed = g.constant(f32({2}), {1, 2}, "fixed");
  EXPECT_EQ(error_of([&] {
              evaluate(fixed, {.feeds = {{"fixed", half}}});
            }),
            "evaluate: the graph has no input or parameter 'fixed', which was fed");
  EXPECT_EQ(error_of([&] {
              evaluate(bias, {.feeds = {{"bias", ones}}});
            }),
            "evaluate: input 'bias' of type f32[2] was fed 6 values");
  EXPECT_EQ(error_of([&] {
              evaluate(bias, {.feeds = {{"bias", two}}});
            }),
            "session: input 'bias' is f32, got i32 values");
  EXPECT_EQ(error_of([&] {
              evaluate(table, {.feeds = {{"table", two}}});
            }),
            "evaluate: parameter 'table' is f32[3,2], it was fed i32 values");
  EXPECT_EQ(error_of([&] {
              evaluate(y, {.feeds = {{"ids", two}, {"bias", half}, {"scales", ones}}, .stores = {&store}});
            }),
            "evaluate: input 'scales' of type f32[<=4,1] was fed 6 values");
  EXPECT_EQ(
      error_of([&] {
        evaluate(y, {.feeds = {{"ids", two}, {"bias", half}, {"scales", std::vector<float>{1}}}, .stores = {&store}});
      }),
      "evaluate: input 'scales' was fed 1 rows and 'ids' 2; both are 'rows'");
  EXPECT_EQ(error_of([] { evaluate(Value{}); }), "evaluate: the value is empty");
}

TEST(Evaluate, ChangesNothing) {
  const auto cpu = make_test_device(1);
  Graph g;
  const Value w = g.param("w", f32({2}));
  const AdamWState next = adamw({w, g.param("m", f32({2})), g.param("v", f32({2}))}, w, g.scalar(0.1), g.scalar(0.1),
                                g.scalar(0.05), {}, {});
  ParamStore store(*cpu);
  for (const char* name : {"w", "m", "v"}) store.add(name, f32({2}));
  store.write("w", std::vector<float>{1, -1});
  const Evaluated e = evaluate(next.w, {.stores = {&store}});
  EXPECT_EQ(e.what, "adamw.w");
  EXPECT_NE(e.values[0], 1.0);
  EXPECT_EQ(store.read("w"), (std::vector<float>{1, -1}));
  EXPECT_EQ(store.read("m"), (std::vector<float>{0, 0}));
}

TEST(Print, ShowsWhatItIsAndItsElements) {
  Graph g;
  const auto layer = g.scope("blk.0");
  const Value y = softmax(g.constant(f32({2, 3}), {1, 2, 3, 0, 0, 0}));
  EXPECT_EQ(to_text(evaluate(y)),
            "blk.0: softmax f32[2,3]\n"
            "[[0.090031   0.24473   0.66524]\n"
            " [ 0.33333   0.33333   0.33333]]\n");
  EXPECT_EQ(to_text(evaluate(sum_all(y)), {.digits = 3}), "blk.0: reshape f32[]\n2\n");
  ::testing::internal::CaptureStdout();
  print(g.constant({DType::i32, {2}, 0}, {7, -100}, "ids"));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "blk.0: constant 'ids' i32[2]\n[   7  -100]\n");
}

TEST(Print, OddValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const Evaluated e{"x", f32({4}), {1, std::nan(""), inf, -inf}};
  EXPECT_EQ(to_text(e), "x f32[4]\n[   1   nan   inf  -inf]\n");
  EXPECT_EQ(to_text({"x", f32({0}), {}}), "x f32[0]\n[]\n");
  EXPECT_EQ(to_text({"x", f32({2, 0}), {}}), "x f32[2,0]\n[[]\n []]\n");
  EXPECT_EQ(error_of([&] { to_text(e, {.digits = 0}); }),
            "print: digits 0 (expected 1 to 17), edge 3 and width 100 (expected at least 1)");
}

TEST(Print, CutsTheMiddleAndLongRows) {
  Evaluated e{"x", f32({9, 2, 12}), {}};
  for (int i = 0; i < 9 * 2 * 12; ++i) e.values.push_back(i);
  EXPECT_EQ(to_text(e, {.edge = 1}),
            "x f32[9,2,12]\n"
            "[[[  0  ...   11]\n"
            "  [ 12  ...   23]]\n"
            "\n"
            " ...\n"
            "\n"
            " [[192  ...  203]\n"
            "  [204  ...  215]]]\n");
  const Evaluated row{"x", f32({1, 5}), {1, 2, 3, 4, 5}};
  EXPECT_EQ(to_text(row, {.width = 9}), "x f32[1,5]\n[[1  2  3\n  4  5]]\n");
}

}  // namespace
}  // namespace toy::evaluate_test
