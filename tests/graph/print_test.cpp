#include "toy/graph/print.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/step_graph.h"
#include "toy/graph/op_def.h"
#include "toy/ops/ops.h"

namespace toy::print_test {
namespace {

// A norm, its gradient and a constant: every kind of node.
Value build(Graph& g) {
  const int n = g.declare_rows("N", 4);
  const Value x = g.input("x", g.rows_type(n, DType::f32, {6})), w = g.param("norm.weight", {DType::f32, {6}, 0});
  const auto scope = g.scope("blk.0");
  const Value y = rms_norm(x, w, 1e-5f);
  return y + g.scalar(0.5);
}

TEST(Print, Text) {
  Graph g;
  const Value y = build(g);
  reshape(y, {-1, 2, 3});
  EXPECT_EQ(to_text(g),
            "%0 = input x : f32[<=4,6]\n"
            "%1 = param norm.weight : f32[6]\n"
            "%2 = rms_norm(x, norm.weight) {eps=1e-05} : f32[<=4,6]  # blk.0\n"
            "%3 = constant  : f32[]  # blk.0\n"
            "%4 = add(%2, %3) : f32[<=4,6]  # blk.0\n"
            "%5 = reshape(%4) {shape=[-1,2,3]} : f32[<=4,2,3]\n");
}

TEST(Print, SeveralOutputsAbsentInputsAndBackward) {
  Graph g;
  const Value w = g.param("w", {DType::f32, {2, 3}, 0}), x = g.input("x", {DType::f32, {1, 3}, 0});
  const std::vector<Value> wrt{w};
  {
    const auto scope = g.scope("head");
    gradients(sum_all(linear(x, w)), wrt);
  }
  const std::string text = to_text(g);
  EXPECT_NE(text.find("%2 = linear(x, w, -, -) : f32[1,2]  # head\n"), std::string::npos) << text;
  EXPECT_NE(text.find("linear_grad_w(%"), std::string::npos) << text;
  EXPECT_NE(text.find(" # head (backward)\n"), std::string::npos) << text;
}

// A norm of [4,6], an addition, a loss, its gradient, and an update of the norm's weight.
TEST(Print, CostsByNodeAndPhase) {
  Graph g;
  const Value x = g.input("x", {DType::f32, {4, 6}, 0}), w = g.param("norm.weight", {DType::f32, {6}, 0});
  const Value normed = rms_norm(x, w, 1e-5f), y = normed + g.scalar(0.5);
  const std::vector<Value> wrt{w};
  const Value dw = gradients(sum_all(exp(y)), wrt)[0];
  const AdamWState next =
      adamw({w, g.param("m", w.type()), g.param("v", w.type())}, dw, g.scalar(1), g.scalar(1), g.scalar(1), {}, {});
  neg(y);  // nobody needs it
  const std::vector<Value> roots{next.w};
  const GraphCost cost = cost_of(g, roots);
  const auto find = [&](const std::string& op) -> const Node& {
    for (const Node& n : g.nodes())
      if (n.op && n.op->name() == op) return n;
    ADD_FAILURE() << op;
    return g.node(0);
  };
  const auto node = [&](const std::string& op) { return cost.nodes[size_t(find(op).id)]; };
  EXPECT_EQ(find("add").phase, Phase::forward);
  EXPECT_EQ(node("add").cost.flops, 24);
  EXPECT_EQ(node("add").cost.bytes, 4 * (24 + 1 + 24));
  EXPECT_EQ(node("exp").cost.transcendentals, 24);
  EXPECT_EQ(find("rms_norm_grad").phase, Phase::backward);
  EXPECT_EQ(find("adamw").phase, Phase::update);
  EXPECT_EQ(node("adamw").cost.flops, 14 * 6);
  EXPECT_FALSE(node("neg").used);
  EXPECT_EQ(node("neg").cost.flops, 0);
  double flops = 0;
  for (const GraphCost::OfNode& n : cost.nodes) flops += n.cost.flops;
  EXPECT_EQ(cost.total.flops, flops);
  EXPECT_EQ(cost.phases[0].flops + cost.phases[1].flops + cost.phases[2].flops, flops);
  const std::string text = to_text(g, &cost);
  EXPECT_NE(text.find("%4 = add(%2, %3) : f32[4,6]  [24 FLOP, 196 B]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("neg(%4) : f32[4,6]  [unused]\n"), std::string::npos) << text;
  const auto j = nlohmann::json::parse(to_json(g, &cost).dump());
  EXPECT_EQ(j.at("cost").at("total").at("flops"), flops);
  EXPECT_EQ(j.at("cost").at("update").at("flops"), 84);
  EXPECT_EQ(j.at("nodes")[4].at("cost").at("bytes"), 196);
  EXPECT_EQ(j.at("nodes")[4].at("phase"), "forward");
  EXPECT_FALSE(j.at("nodes")[0].contains("cost"));
  EXPECT_EQ(to_text(Cost{999, 999.4, 999.5}), "999 FLOP, 999 B, 1.00 k transcendentals");
  EXPECT_EQ(to_text(Cost{12345, 99.96e6, 0}), "12.3 kFLOP, 100 MB");
  EXPECT_EQ(to_text(Cost{0, 0, 7}), "7 transcendentals");
}

TEST(Print, JsonParses) {
  Graph g;
  build(g);
  const auto j = nlohmann::json::parse(to_json(g).dump());
  EXPECT_EQ(j.at("rows"), nlohmann::json::parse(R"([{"name": "N", "max": 4}])"));
  ASSERT_EQ(j.at("nodes").size(), 5u);
  const auto& norm = j.at("nodes")[2];
  EXPECT_EQ(norm.at("op"), "rms_norm");
  EXPECT_EQ(norm.at("layer"), "blk.0");
  EXPECT_EQ(norm.at("inputs"), nlohmann::json::parse("[[0, 0], [1, 0]]"));
  EXPECT_EQ(norm.at("outputs"), nlohmann::json::parse(R"([{"dtype": "f32", "shape": [4, 6], "rows": "N"}])"));
  EXPECT_NEAR(norm.at("attrs").at("eps").get<double>(), 1e-5, 1e-12);
  EXPECT_EQ(j.at("nodes")[1].at("name"), "norm.weight");
}

TEST(Print, JsonOfAbsentInputs) {
  Graph g;
  const Value x = g.input("x", {DType::f32, {1, 3}, 0}), w = g.param("w", {DType::f32, {2, 3}, 0});
  linear(x, w);
  const auto j = nlohmann::json::parse(to_json(g).dump());
  EXPECT_EQ(j.at("nodes")[2].at("inputs"), nlohmann::json::parse("[[0, 0], [1, 0], null, null]"));
}

TEST(Print, Mermaid) {
  Graph g;
  const Value w = g.param("w", {DType::f32, {3}, 0});
  const std::vector<Value> wrt{w};
  gradients(sum_all(exp(w)), wrt);
  EXPECT_EQ(to_mermaid(g),
            "flowchart TD\n"
            "  n0([\"w<br/>f32[3]\"])\n"
            "  n1[\"exp<br/>f32[3]\"]\n"
            "  n0 --> n1\n"
            "  n2[\"sum<br/>f32[1]\"]\n"
            "  n1 --> n2\n"
            "  n3[\"reshape<br/>f32[]\"]\n"
            "  n2 --> n3\n"
            "  n4([\"<br/>f32[]\"])\n");
}

TEST(Print, MermaidOfPhases) {
  Graph g;
  std::vector<Value> roots;
  testing::build_step(g, roots);
  const GraphCost cost = cost_of(g, roots);
  const std::string text = to_mermaid(g, &cost);
  const size_t forward = text.find("  subgraph forward\n"), backward = text.find("  subgraph backward\n"),
               update = text.find("  subgraph update\n");
  ASSERT_NE(update, std::string::npos) << text;
  EXPECT_LT(forward, text.find("\"exp<br/>"));
  EXPECT_LT(text.find("\"exp<br/>"), backward);
  EXPECT_LT(backward, update);
  EXPECT_LT(update, text.find("\"sgd<br/>"));
  const auto count = [&](const std::string& word) {
    size_t n = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("  end\n"), 3u);
  EXPECT_NE(to_text(g, &cost).find("# optimizer (update)"), std::string::npos);
}

}  // namespace
}  // namespace toy::print_test
