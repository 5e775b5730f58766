// Fusion of elementwise chains: what joins, and that no bit depends on it.
#include "runtime/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/backend/fused.h"
#include "toy/backend/host_kernel.h"
#include "toy/base/philox.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"

namespace toy::fuse_test {
namespace {

std::vector<std::string> steps_of(const Plan& plan) {
  std::vector<std::string> list;
  for (const PlanStep& s : plan.steps) list.push_back(s.op);
  return list;
}

using Steps = std::vector<std::string>;

struct Fusion : ::testing::Test {
  std::unique_ptr<Device> cpu = make_test_device(2), reference = make_reference_device();
  Graph g;
  Value x = g.input("x", f32({4, 6})), y = g.input("y", f32({4, 6})), row = g.input("row", f32({6}));

  void SetUp() override { SKIP_WHERE_STEPS_ARE_NOT_JOINED(); }
  Steps plan(std::vector<Value> outputs, std::vector<Value> updates = {}) {
    return steps_of(compile(g, outputs, updates, *cpu));
  }
};

TEST_F(Fusion, AChainIsOneStep) {
  const Value z = sigmoid(scale(x * y, 0.5) + row);
  EXPECT_EQ(plan({z}), (Steps{"fused(mul, scale, add, sigmoid)"}));
  EXPECT_EQ(steps_of(compile(g, std::vector<Value>{z}, {}, *cpu, {.fuse = false})),
            (Steps{"mul", "scale", "add", "sigmoid"}));
  EXPECT_EQ(steps_of(compile(g, std::vector<Value>{z}, {}, *reference)), (Steps{"mul", "scale", "add", "sigmoid"}));
  const Plan p = compile(g, std::vector<Value>{z}, {}, *cpu),
             single = compile(g, std::vector<Value>{z}, {}, *cpu, {.fuse = false});
  EXPECT_EQ(p.cost().flops, single.cost().flops);
  EXPECT_EQ(p.cost().transcendentals, single.cost().transcendentals);
  EXPECT_EQ(p.cost().bytes, 4 * (24 + 24 + 6 + 24));  // what lies between is not written
  EXPECT_NE(to_text(p).find("= fused(mul, scale, add, sigmoid)(x, y, row) workspace"), std::string::npos) << to_text(p);
}

TEST_F(Fusion, ValuesUsedTwiceInsideJoin) {
  const Value s = sigmoid(x), y1 = x * s, rest = g.scalar(1) - s;
  EXPECT_EQ(plan({s + y1 * rest}), (Steps{"fused(sigmoid, mul, sub, mul, add)"}));
}

TEST_F(Fusion, WhatIsNeededElsewhereStays) {
  const Value t = x * y, z = exp(t);
  EXPECT_EQ(plan({z, t}), (Steps{"mul", "exp"}));                            // an output
  EXPECT_EQ(plan({z, softmax(t)}), (Steps{"mul", "exp", "softmax"}));        // another reader
  EXPECT_EQ(plan({exp(row * row) + x}), (Steps{"fused(mul, exp)", "add"}));  // another shape
  EXPECT_EQ(plan({exp(reshape(x * y, {6, 4}))}), (Steps{"mul", "exp"}));
  EXPECT_EQ(plan({x * y}), (Steps{"mul"}));  // nothing to join
}

TEST_F(Fusion, LongChainsAreCut) {
  Value z = x;
  for (int i = 0; i < 40; ++i) z = scale(z, 1.01);
  const Steps steps = plan({z});
  ASSERT_EQ(steps.size(), 3u);  // 16 + 16 + 8
  EXPECT_EQ(std::count(steps[2].begin(), steps[2].end(), ','), 7);
  z = x;  // ten inputs do not fit into one
  for (int i = 0; i < 9; ++i) z = z + g.input("i" + std::to_string(i), f32({4, 6}));
  for (const PlanStep& s : compile(g, std::vector<Value>{z}, {}, *cpu).steps)
    EXPECT_LE(s.in.size(), FusedAttrs::kMaxInputs);
}

TEST_F(Fusion, ForwardAndBackwardStayApart) {
  const std::vector<Value> wrt{x};
  const Value e = exp(x * y), loss = sum_all(neg(neg(e))), dx = gradients(loss, wrt)[0];
  const Plan p = compile(g, std::vector<Value>{loss, dx}, {}, *cpu);
  Steps forward, backward;
  for (const PlanStep& s : p.steps) (s.phase == Phase::backward ? backward : forward).push_back(s.op);
  EXPECT_EQ(forward, (Steps{"fused(mul, exp)", "fused(neg, neg)", "sum", "sum"}));  // e is needed by its gradient
  EXPECT_EQ(backward, (Steps{"fused(neg, neg, mul, mul)"}));
}

// u reads w before its update, and the sum both u and what was made of the update: fused they would wait for each
// other.
TEST_F(Fusion, AnOldAndANewParameterDoNotMeetInOneStep) {
  const Value w = g.param("w", f32({4, 6}));
  const Value u = scale(w, 2);
  const AdamWState next =
      adamw({w, g.param("m", w.type()), g.param("v", w.type())}, x, g.scalar(1), g.scalar(1), g.scalar(1), {}, {});
  EXPECT_EQ(plan({u + neg(next.w)}, {next.m}), (Steps{"scale", "adamw", "fused(neg, add)"}));
  EXPECT_EQ(plan({neg(u)}, {next.w}), (Steps{"fused(scale, neg)", "adamw"}));
}

// ---- bits

// A random graph of elementwise ops on values of a few shapes that broadcast, and what lies strided.
struct RandomProgram {
  Graph g;
  std::vector<Value> outputs;
  int64_t rows, columns;

  explicit RandomProgram(uint64_t seed) : random_(seed, "program") {
    constexpr int64_t kRows[] = {1, 3, 7, 40, 2}, kColumns[] = {1, 5, 16, 67, 300, 2100};
    rows = kRows[below(5)], columns = kColumns[below(6)];
    const int n = g.declare_rows("N", rows);
    const TensorType full = g.rows_type(n, DType::f32, {columns});
    std::vector<Value> values;
    for (const char* name : {"a", "b", "c"}) values.push_back(g.input(name, full));
    const std::vector<Value> small{g.input("row", f32({columns})), g.input("column", g.rows_type(n, DType::f32, {1})),
                                   g.input("one", f32({1, 1})), g.scalar(0.75),
                                   slice(g.input("wide", f32({columns, 2})), 1, 0, 1)};
    values.push_back(permute(g.input("turned", f32({columns, 1})), {1, 0}));  // [1,columns], strided or not
    values.push_back(slice(g.input("broad", g.rows_type(n, DType::f32, {columns + 3})), 1, 2, columns));
    const int count = 3 + below(20);
    for (int i = 0; i < count; ++i) {
      const Value u = values[size_t(below(int(values.size())))];
      Value v = below(3) == 0 ? small[size_t(below(4))] : values[size_t(below(int(values.size())))];
      if (below(8) == 0) v = permute(small[4], {1, 0});
      values.push_back(apply(u, v));
    }
    outputs = {values.back()};
    if (below(2)) outputs.push_back(values[values.size() - 2]);
  }
  int below(int n) { return int(random_.below(next_++, uint64_t(n))); }

 private:
  Value apply(Value u, Value v) {
    switch (below(16)) {
      case 0:
        return u + v;
      case 1:
        return v - u;
      case 2:
        return u * v;
      case 3:
        return u / v;
      case 4:
        return exp(scale(u, 0.125));
      case 5:
        return sigmoid(u);
      case 6:
        return silu(u);
      case 7:
        return log(u * u);
      case 8:
        return sqrt(u);
      case 9:
        return neg(u);
      case 10:
        return where(greater(u, v), tanh(u), v);
      case 11:
        return clamp(u, -0.5f, 2.0f);
      case 12:
        return maximum(u, v);
      case 13:
        return gelu_erf(sqr(u));
      case 14:
        return softplus(v);
      default:
        return scale(u, -0.3);
    }
  }
  Philox random_;
  uint64_t next_ = 0;
};

std::vector<std::vector<float>> results(const RandomProgram& p, int threads, bool fused, int64_t rows) {
  const auto device = make_test_device(threads);
  const ParamStore none(*device);
  Session s(*device, std::make_shared<const Plan>(compile(p.g, p.outputs, {}, *device, {.fuse = fused})), {&none});
  s.set_rows("N", rows);
  for (const PlanLeaf& leaf : s.plan().inputs) {
    std::vector<float> values(size_t(leaf.type.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(Philox(5, leaf.name).normal(i));
    s.set(leaf.name, values);
  }
  s.run();
  std::vector<std::vector<float>> all;
  for (size_t i = 0; i < p.outputs.size(); ++i) all.push_back(s.values(i));
  return all;
}

bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& u, const auto& v) {
    return u.size() == v.size() && (u.empty() || std::memcmp(u.data(), v.data(), u.size() * sizeof(float)) == 0);
  });
}

TEST(FusionBits, RandomProgramsForAnyTeamAndRows) {
  SKIP_WHERE_STEPS_ARE_NOT_JOINED();
  int fused = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    RandomProgram p(seed);
    const auto device = make_test_device(1);
    for (const std::string& op : steps_of(compile(p.g, p.outputs, {}, *device))) fused += op.starts_with("fused");
    for (const int64_t rows : {p.rows, p.rows / 2, int64_t(0)}) {
      const auto expected = results(p, 1, false, rows);
      for (const int threads : {1, 3}) EXPECT_TRUE(same_bits(results(p, threads, true, rows), expected)) << seed;
    }
  }
  EXPECT_GT(fused, 150);  // the programs are not too simple
}

// The kernel called directly: it writes its output and its workspace and nothing else, and may overwrite an input.
TEST(FusionBits, NothingIsWrittenBesideTheOutput) {
  SKIP_WHERE_STEPS_ARE_NOT_JOINED();
  const auto device = make_test_device(1);
  Graph g;
  for (const int64_t columns : {1, 31, 2049, 5000}) {
    const std::string name = "x" + std::to_string(columns), other = "y" + std::to_string(columns);
    const Value z = sigmoid(g.input(name, f32({3, columns})) * g.input(other, f32({columns})));
    const Plan plan = compile(g, std::vector<Value>{z}, {}, *device);
    ASSERT_EQ(plan.steps.size(), 1u);
    const PlanStep& step = plan.steps[0];
    const size_t n = size_t(3 * columns), guard = 64;
    std::vector<float> x(n), y(size_t(columns), 0.5f), out(n + 2 * guard, 7.0f),
        work(step.workspace_bytes / 4 + guard, 7.0f);
    for (size_t i = 0; i < n; ++i) x[i] = float(Philox(1, "x").normal(i));
    const auto call = [&](float* to) {
      const View in[] = {View(x.data(), DType::f32, {3, columns}), View(y.data(), DType::f32, {columns})};
      const View result(to, DType::f32, {3, columns});
      step.kernel->code.as<HostKernel>()(
          {}, {in, std::span(&result, 1), step.attrs, reinterpret_cast<std::byte*>(work.data())});
    };
    call(out.data() + guard);
    for (size_t i = 0; i < guard; ++i) {
      EXPECT_EQ(out[i], 7.0f);
      EXPECT_EQ(out[guard + n + i], 7.0f);
      EXPECT_EQ(work[work.size() - 1 - i], 7.0f);
    }
    call(x.data());  // in place
    EXPECT_EQ(std::memcmp(x.data(), out.data() + guard, n * sizeof(float)), 0) << columns;
  }
}

}  // namespace
}  // namespace toy::fuse_test
