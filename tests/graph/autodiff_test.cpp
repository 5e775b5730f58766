// The structure of what autodiff builds; its values are tested with the ops.
#include "toy/graph/autodiff.h"

#include <gtest/gtest.h>

#include "toy/graph/op_def.h"
#include "toy/ops/ops.h"

namespace toy::autodiff_test {
namespace {

const TensorType kTable{DType::f32, {5, 3}, 0};

std::string op_of(Value v) { return v.graph->node(v).kind == NodeKind::op ? v.graph->node(v).op->name() : "leaf"; }

TEST(Autodiff, TheLossMustBeAScalar) {
  Graph g;
  const Value w = g.param("w", kTable);
  const std::vector<Value> wrt{w};
  try {
    gradients(exp(w), wrt);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "gradient: the loss must be a scalar, it is f32[5,3]");
  }
  EXPECT_THROW(gradients({}, wrt), Error);
  Graph other;
  EXPECT_THROW(gradients(sum_all(other.param("w", kTable)), wrt), Error);
}

TEST(Autodiff, UnrelatedParametersGetZeros) {
  Graph g;
  const Value w = g.param("w", kTable), unrelated = g.param("u", {DType::f32, {2, 2}, 0});
  const Value loss = sum_all(exp(w));
  const Value later = g.param("later", {DType::f32, {4}, 0});
  const std::vector<Value> wrt{unrelated, w, later};
  const auto grads = gradients(loss, wrt);
  EXPECT_EQ(grads[0].type(), unrelated.type());
  EXPECT_EQ(op_of(grads[0]), "broadcast_to");
  const Value source = g.node(grads[0]).inputs[0];
  EXPECT_EQ(g.node(source).constant->at(0), 0);
  EXPECT_EQ(grads[1].type(), w.type());
  EXPECT_EQ(grads[2].type(), later.type());
}

TEST(Autodiff, PartialSumsFollowTheConsumers) {
  Graph g;
  const Value w = g.param("w", {DType::f32, {}, 0});
  const Value a = scale(w, 2), b = scale(w, 3), c = scale(w, 5);
  const Value loss = c + (b + a);  // whatever the order of use
  const std::vector<Value> wrt{w};
  const Value grad = gradients(loss, wrt)[0];  // (2 + 3) + 5
  ASSERT_EQ(op_of(grad), "add");
  const Value inner = g.node(grad).inputs[0], last = g.node(grad).inputs[1];
  ASSERT_EQ(op_of(inner), "add");
  const auto factor = [&](Value v) { return g.node(v).attrs.as<ScaleAttrs>().factor; };
  EXPECT_EQ(factor(g.node(inner).inputs[0]), 2);
  EXPECT_EQ(factor(g.node(inner).inputs[1]), 3);
  EXPECT_EQ(factor(last), 5);
}

TEST(Autodiff, TiedEmbeddingsAddTheDenseGradientFirst) {
  Graph g;
  const Value w = g.param("w", kTable), ids = g.input("ids", {DType::i32, {4}, 0}, 5);
  const Value targets = g.input("targets", {DType::i32, {4}, 0}), weight = g.input("weight", {DType::f32, {4}, 0});
  const Value x = embedding(w, ids);
  const Value loss = linear_xent(exp(x), w, targets, weight).loss;
  const std::vector<Value> wrt{w};
  const Value grad = gradients(loss, wrt)[0];
  ASSERT_EQ(op_of(grad), "embedding_grad");
  const Value dense = g.node(grad).inputs[2];
  EXPECT_EQ(op_of(dense), "linear_xent");
  EXPECT_EQ(dense.out, 3);
}

TEST(Autodiff, LinearAccumulatesIntoWhatIsThere) {
  Graph g;
  const Value w = g.param("w", {DType::f32, {3, 3}, 0}), x = g.input("x", {DType::f32, {2, 3}, 0});
  const Value loss = sum_all(linear(linear(x, w), w));
  const std::vector<Value> wrt{w};
  const Value grad = gradients(loss, wrt)[0];
  ASSERT_EQ(op_of(grad), "linear_grad_w");
  EXPECT_EQ(op_of(g.node(grad).inputs[2]), "linear_grad_w");
}

TEST(Autodiff, OpsWithoutAGradientAreNamed) {
  Graph g;
  const Value w = g.param("w", {DType::f32, {2, 3}, 0}), u = g.param("u", {DType::f32, {2, 4}, 0});
  Value y;
  {
    const auto scope = g.scope("blk.3");
    y = linear_grad_w(w, u);
  }
  const std::vector<Value> wrt{w};
  try {
    gradients(sum_all(y), wrt);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "blk.3: linear_grad_w: this op has no gradient");
  }
}

// With respect to a value in the middle, what made it does not matter.
TEST(Autodiff, StopsAtTheValueAskedFor) {
  Graph g;
  const Value w = g.param("w", {DType::f32, {2, 3}, 0}), u = g.param("u", {DType::f32, {2, 4}, 0});
  const Value middle = linear_grad_w(w, u);  // has no gradient of its own
  const std::vector<Value> wrt{middle};
  const size_t before = g.nodes().size();
  const auto grads = gradients(sum_all(exp(middle)), wrt);
  EXPECT_EQ(grads[0].type(), middle.type());
  for (size_t id = before; id < g.nodes().size(); ++id) EXPECT_NE(op_of({&g, int(id), 0}), "linear_grad_w");
}

TEST(Autodiff, BackwardNodesBelongToTheirLayer) {
  Graph g;
  const Value w = g.param("w", kTable);
  Value y;
  {
    const auto scope = g.scope("blk.3");
    y = exp(w);
  }
  const Value loss = sum_all(y);
  EXPECT_EQ(g.node(loss).phase, Phase::forward);
  const std::vector<Value> wrt{w};
  const Value grad = gradients(loss, wrt)[0];
  EXPECT_EQ(g.node(grad).phase, Phase::backward);
  EXPECT_EQ(g.node(grad).layer.path, "blk.3");
  EXPECT_EQ(g.node(exp(w)).phase, Phase::forward);
}

TEST(Autodiff, TheLossItselfHasGradientOne) {
  Graph g;
  const Value loss = sum_all(exp(g.param("w", kTable)));
  const std::vector<Value> wrt{loss};
  const Value grad = gradients(loss, wrt)[0];
  EXPECT_TRUE(is_one(grad));
  EXPECT_FALSE(is_one(loss));
}

}  // namespace
}  // namespace toy::autodiff_test
