// Updates that join the product which makes their gradient: which do, and that no bit depends on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/backend/extend.h"
#include "toy/backend/fused.h"
#include "toy/base/philox.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"

namespace toy::fuse_updates_test {
namespace {

// dw = dy^T x and AdamW with it, of a w [outs,ins] by a batch of `rows`.
struct Updates {
  Graph g;
  int64_t rows, outs, ins;
  Value dy, x, w, m, v, lr, bias1, bias2, gscale, dw;
  AdamWState updated;

  Updates(int64_t rows_in, int64_t outs_in, int64_t ins_in, bool scaled = true)
      : rows(rows_in), outs(outs_in), ins(ins_in) {
    dy = g.input("dy", f32({rows, outs})), x = g.input("x", f32({rows, ins}));
    w = g.param("w", f32({outs, ins})), m = g.param("m", f32({outs, ins})), v = g.param("v", f32({outs, ins}));
    lr = g.input("lr", f32({})), bias1 = g.input("bias1", f32({})), bias2 = g.input("bias2", f32({}));
    if (scaled) gscale = g.input("gscale", f32({}));
    dw = linear_grad_w(dy, x, {});
    updated = adamw({w, m, v}, dw, lr, bias1, bias2, gscale, {});
  }
  std::vector<Value> updates() const { return {updated.w, updated.m, updated.v}; }

  bool joins(Device& device, const PlanOptions& options = {}, std::vector<Value> outputs = {}) const {
    const Plan p = compile(g, outputs, updates(), device, options);
    return std::any_of(p.steps.begin(), p.steps.end(), [](const PlanStep& s) { return s.op == kLinearGradWAdamW; });
  }

  static void set(Session& session, const char* name, float value) { session.set(name, std::vector<float>{value}); }

  // w, m and v one after the other, after two steps.
  std::vector<float> run(Device& device, bool fuse, float scale) const {
    ParamStore store(device);
    uint64_t seed = 0;
    const auto numbers = [&](int64_t count) {
      const Philox random(++seed);
      std::vector<float> list;
      for (int64_t i = 0; i < count; ++i) list.push_back(float(random.normal(uint64_t(i))));
      return list;
    };
    for (const char* name : {"w", "m", "v"}) {
      store.add(name, f32({outs, ins}));
      std::vector<float> values = numbers(outs * ins);
      if (*name == 'v')
        for (float& f : values) f *= f;
      store.write(name, values);
    }
    auto plan = std::make_shared<const Plan>(compile(g, std::vector<Value>{}, updates(), device, {.fuse = fuse}));
    Session session(device, plan, {&store});
    set(session, "lr", 0.01f);
    set(session, "bias1", 0.19f);
    set(session, "bias2", 0.02f);
    if (gscale) set(session, "gscale", scale);
    for (int step = 0; step < 2; ++step) {
      session.set("dy", numbers(rows * outs));
      session.set("x", numbers(rows * ins));
      session.run();
    }
    std::vector<float> all;
    for (const char* name : {"w", "m", "v"})
      for (const float f : store.read(name)) all.push_back(f);
    return all;
  }
};

TEST(FusedUpdates, JoinWhereNobodyElseWantsTheGradient) {
  SKIP_WHERE_STEPS_ARE_NOT_JOINED();
  const auto cpu = make_test_device(2), reference = make_reference_device();
  const Updates u(8, 6, 20);
  EXPECT_TRUE(u.joins(*cpu));
  EXPECT_FALSE(u.joins(*reference));
  EXPECT_FALSE(u.joins(*cpu, {.fuse = false}));
  EXPECT_FALSE(u.joins(*cpu, {}, {u.dw}));          // an output
  EXPECT_FALSE(u.joins(*cpu, {}, {sum(u.dw, 0)}));  // another reader
  EXPECT_TRUE(Updates(512, 6, 20).joins(*cpu));
  EXPECT_FALSE(Updates(513, 6, 20).joins(*cpu));  // sums of several blocks are not finished at once
  if (cpu->has_products(DType::bf16)) {
    EXPECT_FALSE(u.joins(*cpu, {.products = DType::bf16}));
  }
  const Plan one = compile(u.g, {}, u.updates(), *cpu), two = compile(u.g, {}, u.updates(), *cpu, {.fuse = false});
  EXPECT_EQ(one.steps.size(), 1u);
  EXPECT_EQ(one.cost().flops, two.cost().flops);
  EXPECT_EQ(one.cost().bytes, two.cost().bytes - 2 * 4 * 6 * 20);  // the gradient is neither written nor read
}

// Two products that read each other's weight, and one that reads the weight it updates: no order is right for whole
// products.
TEST(FusedUpdates, DoNotReadWhatIsUpdated) {
  const auto cpu = make_test_device(2);
  Graph g;
  const auto square = [&](const char* name) { return g.param(name, f32({4, 4})); };
  const Value dy = g.input("dy", f32({4, 4})), one = g.scalar(1), p = square("p"), q = square("q");
  const AdamWState a = adamw({p, square("pm"), square("pv")}, linear_grad_w(dy, q, {}), one, one, one, {}, {});
  const AdamWState b = adamw({q, square("qm"), square("qv")}, linear_grad_w(dy, p, {}), one, one, one, {}, {});
  const Value w = square("w");
  const AdamWState c = adamw({w, square("wm"), square("wv")}, linear_grad_w(dy, w, {}), one, one, one, {}, {});
  const Plan plan = compile(g, {}, std::vector<Value>{a.w, a.m, a.v, b.w, b.m, b.v, c.w, c.m, c.v}, *cpu);
  EXPECT_EQ(plan.steps.size(), 6u);
}

// A kernel of one's own for one of the two is used.
TEST(FusedUpdates, LeaveKernelsOfOnesOwnAlone) {
  SKIP_WHERE_STEPS_ARE_NOT_JOINED();
  const Updates u(8, 6, 20);
  for (const char* op : {"adamw", "linear_grad_w", "linear"}) {
    const auto cpu = make_test_device(2);
    KernelRecord own;
    for (const KernelRecord& k : cpu->kernels())
      if (k.op == op) own = k;
    const auto device = extend_device(make_test_device(2), {own});
    EXPECT_EQ(u.joins(*device), op == std::string("linear")) << op;
  }
}

// Whole tiles and parts of them, either operand held, blocks of it, fewer tiles than threads.
TEST(FusedUpdates, KeepTheBits) {
  SKIP_WHERE_STEPS_ARE_NOT_JOINED();
  for (const int threads : {1, 2, 3, 8}) {
    const auto cpu = make_test_device(threads);
    for (const auto& [rows, outs, ins] : {std::array<int64_t, 3>{1, 1, 1},
                                          {0, 7, 5},
                                          {3, 7, 5},
                                          {64, 8, 48},
                                          {64, 97, 131},
                                          {300, 40, 900},
                                          {512, 450, 33},
                                          {16, 200, 64}})
      for (const bool scaled : {true, false}) {
        const Updates u(rows, outs, ins, scaled);
        ASSERT_TRUE(u.joins(*cpu));
        EXPECT_EQ(u.run(*cpu, true, 0.5f), u.run(*cpu, false, 0.5f)) << rows << " " << outs << " " << ins;
      }
  }
}

TEST(FusedUpdates, ASkippedStepChangesNothing) {
  const auto cpu = make_test_device(2);
  const Updates u(16, 20, 50);
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> after = u.run(*cpu, true, inf);
  EXPECT_EQ(after, u.run(*cpu, false, inf));
  EXPECT_NE(after, u.run(*cpu, true, 1));
  EXPECT_TRUE(std::ranges::all_of(after, [](float f) { return std::isfinite(f); }));
}

TEST(FusedUpdates, SayThatAGradientIsNotFinite) {
  SKIP_WHERE_STEPS_ARE_NOT_JOINED();
  const auto cpu = make_test_device(2);
  const Updates u(2, 9, 50, false);
  ASSERT_TRUE(u.joins(*cpu));
  ParamStore store(*cpu);
  for (const char* name : {"w", "m", "v"}) store.add(name, f32({9, 50}));
  Session session(*cpu, std::make_shared<const Plan>(compile(u.g, {}, u.updates(), *cpu)), {&store});
  for (const char* name : {"lr", "bias1", "bias2"}) Updates::set(session, name, 0.5f);
  std::vector<float> dy(2 * 9);
  dy[8] = std::numeric_limits<float>::infinity();
  session.set("dy", dy);
  session.set("x", std::vector<float>(2 * 50, 1));
  try {
    session.run();
    ADD_FAILURE() << "nothing was said";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("a gradient is not finite"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace toy::fuse_updates_test
