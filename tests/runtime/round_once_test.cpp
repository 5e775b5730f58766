// Rounding as a step of a plan: how often, where copies live, and what else reads a value.
#include <gtest/gtest.h>

#include <algorithm>

#include "toy/backend/devices.h"
#include "toy/graph/autodiff.h"
#include "toy/ops/ops.h"
#include "toy/runtime/plan.h"

namespace toy::round_once_test {
namespace {

// Two maps of the same rows and a third of their product, and all gradients.
struct Maps {
  Graph g;
  Value x, loss;
  std::vector<Value> outputs;
  Maps() {
    x = g.input("x", f32({40, 24}));
    const auto weight = [&](const char* name, int64_t rows, int64_t columns) {
      return g.param(name, f32({rows, columns}));
    };
    const Value a = weight("a", 32, 24), b = weight("b", 32, 24), c = weight("c", 24, 32);
    loss = sum_all(linear(exp(linear(x, a)) * linear(x, b), c));
    outputs = gradients(loss, std::vector<Value>{a, b, c});
    outputs.push_back(loss);
  }
};

Plan plan_of(const Maps& m, Device& device, DType products = DType::bf16) {
  return compile(m.g, m.outputs, {}, device, {.products = products});
}

TEST(PlanRounds, RoundsAValueOnceForAllThatReadIt) {
  const auto device = make_emulated_device();
  const Maps m;
  const Plan plan = plan_of(m, *device);
  std::vector<std::pair<Operand::Base, int>> rounded;
  for (const PlanStep& s : plan.steps) {
    if (s.op == "cast") rounded.emplace_back(s.in[0].base, s.in[0].base == Operand::arena ? -1 : s.in[0].index);
    if (!s.op.starts_with("linear")) continue;
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(s.in[i].view.dtype, DType::bf16) << s.op;
    EXPECT_EQ(s.out[0].view.dtype, DType::f32);
  }
  // x, which is read by two maps and two of their gradients, and each weight; all others are made here.
  std::ranges::sort(rounded);
  EXPECT_EQ(std::ranges::adjacent_find(rounded, [](auto& a, auto& b) { return a == b && a.second >= 0; }),
            rounded.end());
  EXPECT_EQ(std::ranges::count_if(rounded, [](auto& r) { return r.second >= 0; }), 1 + 3);
  for (const PlanStep& s : plan_of(m, *device, DType::f32).steps) EXPECT_NE(s.op, "cast");
}

TEST(PlanRounds, LeavesDevicesAloneWhoseProductsRoundByThemselves) {
  const Maps m;
  for (const auto& device : {make_cpu_device(2), make_reference_device()}) {
    const Plan rounded = plan_of(m, *device), plain = plan_of(m, *device, DType::f32);
    for (const PlanStep& s : rounded.steps) EXPECT_NE(s.op, "cast") << device->name();
    if (!device->has_products(DType::bf16)) EXPECT_EQ(to_text(rounded), to_text(plain));
  }
}

// What also an output or an op in backward reads in f32 is kept so anyway: no second copy is kept beside it.
TEST(PlanRounds, KeepsOneCopyForBackward) {
  const auto device = make_emulated_device();
  const auto casts = [&](bool read_in_backward) {
    Graph g;
    const Value x = g.input("x", f32({40, 24})), w = g.param("w", f32({24, 24})), gain = g.param("gain", f32({24}));
    const Value z = exp(x * gain);  // whose gradient reads z
    const Value y = linear(read_in_backward ? z : x * gain, w);
    const std::vector<Value> outputs = gradients(sum_all(y * y), std::vector<Value>{gain, w});
    int phases[3] = {};
    for (const PlanStep& s : compile(g, outputs, {}, *device, {.products = DType::bf16}).steps)
      if (s.op == "cast" && s.in[0].base == Operand::arena && s.in[0].view.shape == Shape{40, 24})
        ++phases[size_t(s.phase)];
    return std::pair(phases[size_t(Phase::forward)], phases[size_t(Phase::backward)]);
  };
  EXPECT_EQ(casts(true), std::pair(1, 1));
  EXPECT_EQ(casts(false), std::pair(0, 0)) << "mul writes bf16 at once, which is kept";
}

}  // namespace
}  // namespace toy::round_once_test
