// Memory over time and costs by layer, derived from a plan.
#include "toy/runtime/plan_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/graph/autodiff.h"
#include "toy/ops/ops.h"

namespace toy::plan_profile_test {
namespace {

// A step of gradient descent on two layers of linear and exp.
Plan step_plan(Device& device) {
  Graph g;
  Value x = g.input("x", {DType::f32, {32, 16}, 0});
  const Value lr = g.input("lr", {DType::f32, {}, 0});
  std::vector<Value> weights;
  for (int i = 0; i < 2; ++i) {
    const auto block = g.block(i);
    const auto mixer = g.scope("mixer");
    weights.push_back(g.param("w" + std::to_string(i), {DType::f32, {16, 16}, 0}));
    x = exp(linear(x, weights.back()));
  }
  const Value loss = sum_all(x);
  const std::vector<Value> gradient = gradients(loss, weights), outputs{loss};
  const auto layer = g.scope("optimizer");
  std::vector<Value> updates;
  for (size_t i = 0; i < 2; ++i)
    updates.push_back(sgd({weights[i], {}}, gradient[i], lr, g.scalar(1), {0, 0, false}).w);
  return compile(g, outputs, updates, device);
}

TEST(PlanProfile, StepsHaveThePhasesOfTheirNodes) {
  const auto device = make_test_device(1);
  std::vector<Phase> phases;
  for (const PlanStep& s : step_plan(*device).steps)
    if (phases.empty() || phases.back() != s.phase) phases.push_back(s.phase);
  EXPECT_EQ(phases, std::vector({Phase::forward, Phase::backward, Phase::update, Phase::backward, Phase::update}));
}

// Two blocks alive together do not overlap, so that lifetimes which were too long would show; each operand lies inside
// its block while that is alive, so that lifetimes which were too short would show.
TEST(PlanProfile, BlocksAreThoseOfTheArena) {
  const auto device = make_test_device(1);
  const Plan plan = step_plan(*device);
  const MemoryProfile p = memory_profile(plan);
  EXPECT_EQ(p.arena_bytes, plan.arena_bytes);
  EXPECT_LE(p.peak_bytes(), p.arena_bytes);
  EXPECT_EQ(*std::max_element(p.live.begin(), p.live.end()), p.peak_bytes());
  for (size_t i = 0; i < p.blocks.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const LiveBlock &a = p.blocks[i], &b = p.blocks[j];
      if (a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << a.what << ", " << b.what;
    }
  for (size_t i = 0; i < plan.steps.size(); ++i)
    for (const auto* list : {&plan.steps[i].in, &plan.steps[i].out})
      for (const Operand& o : *list) {
        if (o.base != Operand::arena) continue;
        const auto holds = [&](const LiveBlock& b) {
          return b.first <= int(i) && int(i) <= b.last && b.offset <= o.offset && o.offset < b.offset + b.bytes;
        };
        EXPECT_EQ(std::count_if(p.blocks.begin(), p.blocks.end(), holds), 1) << "step " << i;
      }
  const std::vector<LiveBlock> alive = p.at(p.peak_step);
  size_t sum = 0;
  for (const LiveBlock& b : alive) sum += b.bytes;
  EXPECT_EQ(sum, p.peak_bytes());
  EXPECT_TRUE(std::is_sorted(alive.begin(), alive.end(),
                             [](const LiveBlock& a, const LiveBlock& b) { return a.bytes > b.bytes; }));
}

TEST(PlanProfile, TextAndJsonAgree) {
  const auto device = make_test_device(1);
  const MemoryProfile p = memory_profile(step_plan(*device));
  const std::string peak = std::to_string(p.peak_step), text = to_text(p, 1);
  EXPECT_NE(text.find("in use: step " + peak + "\n"), std::string::npos) << text;
  EXPECT_NE(text.find(p.at(p.peak_step).front().what), std::string::npos);
  EXPECT_NE(text.find(" more\n"), std::string::npos);
  EXPECT_EQ(to_json(p).at("live").size(), p.live.size());
  EXPECT_EQ(to_text(MemoryProfile{}), "nothing is computed\n");
}

// Does a step touch this parameter or input?
bool touches(const PlanStep& s, const Operand& leaf) {
  const auto same = [&](const Operand& o) { return o.base == leaf.base && o.index == leaf.index; };
  return std::any_of(s.in.begin(), s.in.end(), same) || std::any_of(s.out.begin(), s.out.end(), same);
}

// Bytes add up to the cost's. What the step before has made is near; a leaf is as far as its definition says, counted
// back from the step, into the run before where need be.
TEST(PlanProfile, ReuseCountsWhatWasTouchedSince) {
  const auto device = make_test_device(1);
  const Plan plan = step_plan(*device);
  const std::vector<std::vector<Reuse>> reuse = reuse_of(plan);
  const size_t n = plan.steps.size();
  ASSERT_EQ(reuse.size(), n);
  int near = 0, leaves = 0;
  for (size_t i = 0; i < n; ++i) {
    const PlanStep& s = plan.steps[i];
    double bytes = 0;
    size_t at = 0;
    for (const auto* operands : {&s.in, &s.out})
      for (const Operand& o : *operands) {
        if (o.base == Operand::absent) continue;
        const Reuse& r = reuse[i][at++];
        bytes += r.bytes;
        if (o.base == Operand::arena) {
          if (i == 0 || operands != &s.in || plan.steps[i - 1].out[0].index != o.index) continue;
          EXPECT_EQ(r.since, 0) << s.op;
          ++near;
        } else {
          double since = 0;
          size_t back = (i + n - 1) % n;
          for (; !touches(plan.steps[back], o); back = (back + n - 1) % n) since += plan.steps[back].cost.bytes;
          EXPECT_EQ(r.since, since) << s.op;  // whole numbers
          ++leaves;
        }
      }
    EXPECT_NEAR(bytes, s.cost.bytes, s.cost.bytes * 1e-12);
  }
  EXPECT_GT(near, 0);
  EXPECT_GT(leaves, 0);
}

TEST(PlanProfile, CostsByLayerAddUp) {
  const auto device = make_test_device(1);
  const Plan plan = step_plan(*device);
  const std::vector<double> seconds(plan.steps.size(), 1.0);
  const std::vector<LayerCost> layers = costs_by_layer(plan, seconds);
  Cost sum;
  double steps = 0;
  for (const LayerCost& l : layers)
    for (const Phase phase : kPhases) {
      sum.flops += l.count * l.phases[size_t(phase)].flops;
      sum.bytes += l.count * l.phases[size_t(phase)].bytes;
      steps += l.count * l.seconds[size_t(phase)];
    }
  EXPECT_EQ(sum.flops, plan.cost().flops);  // whole numbers below 2^53: exact
  EXPECT_EQ(sum.bytes, plan.cost().bytes);
  EXPECT_EQ(steps, double(plan.steps.size()));
  EXPECT_EQ(layers.front().layer, "blk.0");
  EXPECT_TRUE(std::any_of(layers.begin(), layers.end(), [](const LayerCost& l) {
    return l.layer == "optimizer" && l.phases[size_t(Phase::update)].bytes > 0;
  }));
}

}  // namespace
}  // namespace toy::plan_profile_test
