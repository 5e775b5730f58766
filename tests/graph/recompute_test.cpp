// Which results backward computes again, and what it then reads.
#include "toy/graph/recompute.h"

#include <gtest/gtest.h>

#include <map>

#include "toy/graph/cost.h"
#include "toy/ops/ops.h"

namespace toy::recompute_test {
namespace {

// Two blocks, x + down(silu(up(norm(x)))), and a loss outside of them.
struct Net {
  Graph g;
  Value loss;
  std::vector<Value> weights;
  std::vector<Value> gradients;

  explicit Net(const std::vector<bool>& again = {}) {
    const int64_t d = 48;
    Value x = g.input("x", {DType::f32, {4, d}, 0});
    for (int i = 0; i < 2; ++i) {
      const auto block = g.block(i);
      const Value gain = g.param(g.layer().path + ".gain", {DType::f32, {d}, 0}),
                  up = g.param(g.layer().path + ".up", {DType::f32, {d, d}, 0}),
                  down = g.param(g.layer().path + ".down", {DType::f32, {d, d}, 0});
      x = x + linear(silu(linear(rms_norm(x, gain, 1e-5f), up)), down);
      weights.insert(weights.end(), {gain, up, down});
    }
    loss = sum_all(x * x);
    gradients = toy::gradients(loss, weights, again);
  }
  // "blk.0 linear": the forward ops that are not kept.
  std::vector<std::string> again(const Recompute& r) const {
    std::vector<std::string> names;
    const std::vector<bool> nodes = recomputed_nodes(g, loss, gradients, r);
    for (size_t id = 0; id < nodes.size(); ++id)
      if (nodes[id]) names.push_back(g.node(int(id)).layer.path + " " + g.node(int(id)).op->name());
    return names;
  }
};

TEST(Recompute, NothingUnlessAsked) {
  EXPECT_TRUE(Recompute{}.none());
  EXPECT_TRUE(Net().again({}).empty());
}

TEST(Recompute, AWholeBlockKeepsWhatComesIn) {
  const std::vector<std::string> first{"blk.0 rms_norm", "blk.0 linear", "blk.0 silu", "blk.0 linear"};
  EXPECT_EQ(Net().again({.whole = 1}), first);  // its end is what the next block begins with
  EXPECT_EQ(Net().again({.whole = 2}).size(), 8u);
}

TEST(Recompute, ALightBlockKeepsItsProducts) {
  const std::vector<std::string> both{"blk.0 rms_norm", "blk.0 linear",   "blk.0 silu",
                                      "blk.0 linear",   "blk.1 rms_norm", "blk.1 silu"};
  EXPECT_EQ(Net().again({.whole = 1, .light = 1}), both);
  const std::vector<std::string> light{"blk.0 rms_norm", "blk.0 silu"};
  EXPECT_EQ(Net().again({.light = 1}), light);
}

// No node of backward reads what is not kept, each op is repeated once, and under its own layer.
TEST(Recompute, BackwardReadsTheRepetition) {
  const Recompute all{.whole = 1, .light = 1};
  const Net plain;
  const std::vector<bool> again = recomputed_nodes(plain.g, plain.loss, plain.gradients, all);
  const Net net(again);
  const GraphCost cost = cost_of(net.g, net.gradients);
  std::map<std::string, int> repeated;
  for (const Node& n : net.g.nodes()) {
    if (n.phase != Phase::backward || !cost.nodes[size_t(n.id)].used) continue;
    for (const Value& v : n.inputs) {
      const bool forgotten = v && size_t(v.node) < again.size() && again[size_t(v.node)];
      EXPECT_FALSE(forgotten) << n.id;
    }
    if (n.op && (n.op->name() == "rms_norm" || n.op->name() == "linear")) ++repeated[n.layer.path + " " + n.op->name()];
  }
  const std::map<std::string, int> wanted{{"blk.0 rms_norm", 1}, {"blk.0 linear", 1}, {"blk.1 rms_norm", 1}};
  EXPECT_EQ(repeated, wanted);  // nobody needs a block's last product
}

}  // namespace
}  // namespace toy::recompute_test
