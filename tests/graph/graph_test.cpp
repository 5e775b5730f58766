#include "toy/graph/graph.h"

#include <gtest/gtest.h>

#include "testing/errors.h"
#include "toy/graph/autodiff.h"
#include "toy/graph/op_def.h"
#include "toy/ops/ops.h"

namespace toy::graph_test {
namespace {

using testing::error_of;

const TensorType kVector{DType::f32, {3}, 0};

TEST(Graph, LeavesAreFoundByName) {
  Graph g;
  const Value x = g.input("x", kVector), w = g.param("w", kVector);
  EXPECT_EQ(g.find("x"), x);
  EXPECT_EQ(g.param("w", kVector), w);
  EXPECT_EQ(g.find("v"), std::nullopt);
  EXPECT_EQ(error_of([&] { g.input("w", kVector); }), "graph: the name 'w' is taken");
  EXPECT_EQ(error_of([&] { g.param("w", {DType::f32, {4}, 0}); }), "graph: parameter 'w' is f32[3], asked for f32[4]");
  EXPECT_EQ(error_of([&] { g.param("x", kVector); }), "graph: parameter 'x' is f32[3], asked for f32[3]");
  const Value y = x + w;
  g.set_name(y, "sum");
  EXPECT_EQ(g.find("sum"), y);
  EXPECT_EQ(error_of([&] { g.set_name(x * w, "sum"); }), "graph: the name 'sum' is taken");
}

// A leaf's name is how it is fed and where its tensor is looked for.
TEST(Graph, LeavesKeepTheirNames) {
  Graph g;
  const Value x = g.input("x", kVector), w = g.param("w", kVector);
  EXPECT_EQ(error_of([&] { g.set_name(x, "y"); }),
            "graph: 'x' is an input, which is found by its name and cannot become 'y'; name what is computed from it");
  EXPECT_EQ(
      error_of([&] { g.set_name(w, "y"); }),
      "graph: 'w' is a parameter, which is found by its name and cannot become 'y'; name what is computed from it");
  EXPECT_EQ(g.node(w).name, "w");
  EXPECT_EQ(g.find("y"), std::nullopt);
  EXPECT_EQ(error_of([&] { g.set_name({&g, 999, 0}, "y"); }), "graph: node 999 of 2");
  EXPECT_EQ(error_of([&] { g.set_name({&g, 0, 7}, "y"); }), "graph: output 7 of node 0, which has 1");
}

TEST(Graph, ConstantsHaveTheirCount) {
  Graph g;
  EXPECT_EQ(g.scalar(2).type(), (TensorType{DType::f32, {}, 0}));
  EXPECT_EQ(error_of([&] { g.constant(kVector, {1, 2}); }), "graph: a constant of type f32[3] was given 2 values");
}

TEST(Graph, LayersNestAndNameErrors) {
  Graph g;
  const Value x = g.input("x", kVector), y = g.input("y", {DType::f32, {4}, 0});
  {
    const auto block = g.block(3);
    EXPECT_EQ(g.layer().block, 3);
    const Value a = x + x;
    EXPECT_EQ(g.node(a).layer.path, "blk.3");
    {
      const auto inner = g.scope("attn");
      EXPECT_EQ(g.node(x + x).layer.path, "blk.3.attn");
      EXPECT_EQ(g.layer().outer(), "blk.3");
      EXPECT_EQ(g.layer().block, 3);
      EXPECT_EQ(error_of([&] { x + y; }), "blk.3.attn: add: shapes [3] and [4] do not broadcast");
      const auto nothing = g.scope("");
      EXPECT_EQ(g.node(x + x).layer.path, "blk.3.attn");
    }
    EXPECT_EQ(g.node(x + x).layer.path, "blk.3");
  }
  EXPECT_EQ(g.node(x + x).layer.path, "");
  EXPECT_EQ(g.layer().outer(), "");
  EXPECT_EQ(g.layer().block, -1);
}

TEST(Graph, PhasesFollowGradientsAndScopes) {
  Graph g;
  const Value w = g.param("w", kVector), loss = sum_all(exp(w));
  const std::vector<Value> wrt{w}, gradient = gradients(loss, wrt);
  EXPECT_EQ(g.node(loss).phase, Phase::forward);
  EXPECT_EQ(g.node(gradient[0]).phase, Phase::backward);
  EXPECT_EQ(g.node(gradient[0] + w).phase, Phase::update);  // it needs a gradient
  EXPECT_EQ(g.node(w + w).phase, Phase::forward);
  const auto scope = g.update_scope("optimizer");
  EXPECT_EQ(g.node(w + w).phase, Phase::update);
}

TEST(Graph, AFailedOpLeavesTheGraphAsItWas) {
  Graph g;
  const Value x = g.input("x", kVector), y = g.input("y", {DType::f32, {4}, 0});
  const size_t before = g.nodes().size();
  EXPECT_THROW(x + y, Error);
  EXPECT_EQ(g.nodes().size(), before);
}

TEST(Graph, GraphsDoNotMix) {
  Graph g, h;
  const Value x = g.input("x", kVector), y = h.input("y", kVector);
  EXPECT_EQ(error_of([&] { x + y; }), "add: an input belongs to another graph");
}

TEST(Graph, RowCountsAreDeclared) {
  Graph g;
  const int n = g.declare_rows("N", 7);
  EXPECT_EQ(g.rows_type(n, DType::i32), (TensorType{DType::i32, {7}, n}));
  EXPECT_EQ(g.rows_type(n, DType::f32, {2, 3}).str(), "f32[<=7,2,3]");
  EXPECT_EQ(error_of([&] { g.declare_rows("M", 0); }), "graph: row count 'M' has maximum 0, expected at least 1");
}

TEST(Graph, RunTimeRowsStayInFront) {
  Graph g;
  const int n = g.declare_rows("N", 7);
  const Value x = g.input("x", g.rows_type(n, DType::f32, {2, 3}));
  EXPECT_EQ(reshape(x, {-1, 6}).type(), g.rows_type(n, DType::f32, {6}));
  EXPECT_EQ(permute(x, {0, 2, 1}).type(), g.rows_type(n, DType::f32, {3, 2}));
  EXPECT_EQ(sum(x, 0).type(), (TensorType{DType::f32, {1, 2, 3}, 0}));
  EXPECT_EQ(error_of([&] { reshape(x, {42}); }),
            "reshape: f32[<=7,2,3] has run-time rows; keep them with a first dimension of -1");
  EXPECT_EQ(error_of([&] { permute(x, {1, 0, 2}); }), "permute: run-time rows must stay the first dimension");
  EXPECT_EQ(error_of([&] { slice(x, 0, 0, 2); }), "slice: run-time rows cannot be sliced; pick rows with embedding()");
  const std::vector<Value> two{x, x};
  EXPECT_EQ(error_of([&] { concat(two, 0); }), "concat: run-time rows cannot be joined");
  EXPECT_EQ(error_of([&] { matmul(x, x, {false, true}); }), "matmul: run-time rows are not supported; use linear()");
}

TEST(Graph, CostCountsOperandsByDefault) {
  Graph g;
  const Value x = g.input("x", {DType::f32, {4, 3}, 0}), y = x + x;
  const Node& n = g.node(y);
  const std::vector<const TensorType*> in{&x.type(), &x.type()};
  const Cost c = n.op->cost_of({in, n.outputs, n.attrs});
  EXPECT_EQ(c.flops, 12);
  EXPECT_EQ(c.bytes, 3 * 48);
}

}  // namespace
}  // namespace toy::graph_test
