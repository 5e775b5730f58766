// Products that read the same rows round them once: which steps share a workspace, and that no bit changes.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/forwarding_device.h"
#include "toy/backend/devices.h"
#include "toy/base/philox.h"
#include "toy/ops/ops.h"
#include "toy/runtime/plan_profile.h"
#include "toy/runtime/session.h"
#include "toy/tensor/quantize.h"

namespace toy::prepared_test {
namespace {

constexpr int64_t kK = 256, kMostRows = 300;

struct Weight {
  const char* name;
  DType type;
  int64_t outs;
};
// Types with minima, with runs of 16, and with neither.
constexpr Weight kWeights[] = {{"a", DType::q8_0, 64}, {"b", DType::q8_0, 96},  {"d", DType::q4_k, 64},
                               {"e", DType::q6_k, 48}, {"c", DType::q8_0, 40},  {"few", DType::q8_0, 8},
                               {"f", DType::q4_k, 33}, {"g", DType::q6_k, 160}, {"next", DType::q8_0, 64}};

// Products of the same rows by all weights, the last in a layer of its own; steps stand between them.
struct Products {
  Graph graph;
  std::vector<Value> outputs;
  Products() {
    const int n = graph.declare_rows("N", kMostRows);
    const Value x = graph.input("x", {DType::f32, {kMostRows, kK}, n});
    for (const Weight& w : kWeights) {
      const auto layer = graph.block(&w == std::end(kWeights) - 1);
      outputs.push_back(exp(between(linear(x, graph.param(w.name, {w.type, {w.outs, kK}, 0})))));
    }
  }
  // A step of each product: the next one does not follow at once.
  static Value between(Value y) { return l2_norm(y, 1e-5); }

  Plan plan(Device& device, std::span<const Value> wanted, bool repack = false, DType products = DType::q8_0) const {
    return compile(graph, wanted, {}, device, {.products = products, .repack = repack});
  }
};

ParamStore filled_store(Device& device) {
  ParamStore store(device);
  for (const Weight& w : kWeights) {
    std::vector<float> values(size_t(w.outs * kK));
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(Philox(1, w.name).uniform(i)) - 0.5f;
    std::vector<std::byte> blocks(size_t(w.outs) * bytes_of(w.type, kK));
    for (int64_t o = 0; o < w.outs; ++o)
      quantize(w.type, std::span(values).subspan(size_t(o * kK), size_t(kK)), {},
               blocks.data() + size_t(o) * bytes_of(w.type, kK));
    store.add(w.name, {w.type, {w.outs, kK}, 0});
    store.write(w.name, View(blocks.data(), w.type, {w.outs, kK}));
  }
  return store;
}

// The step of each weight's product.
std::vector<int> products_of(const Plan& plan) {
  std::vector<int> steps;
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (plan.steps[i].op == "linear") steps.push_back(int(i));
  return steps;
}

TEST(PlanPrepares, RoundsOnceForTheSameTypeInALayer) {
  const auto device = make_cpu_device(2);
  const Products p;
  for (const bool repack : {false, true}) {
    const Plan plan = p.plan(*device, p.outputs, repack);
    const std::vector<int> steps = products_of(plan);
    ASSERT_EQ(steps.size(), std::size(kWeights));
    std::vector<int> by;
    for (const int i : steps) by.push_back(plan.steps[size_t(i)].prepared_by);
    EXPECT_EQ(by, (std::vector{-1, steps[0], -1, -1, steps[0], -1, steps[2], steps[3], -1}));
    for (const int i : steps) {
      const PlanStep& s = plan.steps[size_t(i)];
      if (s.prepared_by >= 0) {
        EXPECT_EQ(s.workspace_offset, plan.steps[size_t(s.prepared_by)].workspace_offset);
      }
    }
    EXPECT_NE(to_text(plan).find(", prepared by " + std::to_string(steps[0])), std::string::npos) << to_text(plan);
  }
  for (const PlanStep& s : p.plan(*device, p.outputs, false, DType::f32).steps) EXPECT_EQ(s.prepared_by, -1) << s.op;
}

// From the first product of a type to the last nothing else lies where the rows wait.
TEST(PlanPrepares, TheWorkspaceIsKept) {
  const auto device = make_cpu_device(2);
  const Products p;
  const Plan plan = p.plan(*device, p.outputs);
  const std::vector<int> steps = products_of(plan);
  const MemoryProfile profile = memory_profile(plan);
  EXPECT_LE(profile.peak_bytes(), plan.arena_bytes);
  for (const auto& [first, last] : {std::pair<size_t, size_t>{0, 4}, {2, 6}, {3, 7}}) {
    const PlanStep& preparing = plan.steps[size_t(steps[first])];
    const auto shared = std::ranges::find_if(profile.blocks, [&, first = first](const LiveBlock& b) {
      return b.use == LiveBlock::workspace && b.first == steps[first] && b.offset == preparing.workspace_offset;
    });
    ASSERT_NE(shared, profile.blocks.end());
    EXPECT_EQ(shared->last, steps[last]);
    for (const LiveBlock& b : profile.blocks) {
      if (&b == &*shared || b.last < shared->first || shared->last < b.first) continue;
      EXPECT_TRUE(b.offset + b.bytes <= shared->offset || shared->offset + shared->bytes <= b.offset) << b.what;
    }
  }
}

// Says which calls of each program are prepared.
class Recorder final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<Program> prepare(std::span<const KernelCall> calls) override {
    std::vector<size_t> prepared;
    for (size_t i = 0; i < calls.size(); ++i)
      if (calls[i].prepared) prepared.push_back(i);
    programs.push_back(prepared);
    return ForwardingDevice::prepare(calls);
  }
  std::vector<std::vector<size_t>> programs;
};

// Programs may run on different numbers of threads, which decide where rounded rows lie.
TEST(PlanPrepares, NothingForAnotherProgram) {
  const auto cpu = make_cpu_device(2);
  Recorder device(*cpu);
  const Products p;
  const ParamStore store = filled_store(device);
  const auto plan = std::make_shared<const Plan>(p.plan(device, p.outputs));
  const std::vector<int> steps = products_of(*plan);
  Session session(device, plan, {&store});
  session.set("x", std::vector<float>(size_t(kK), 0.5f));
  const auto programs_of = [&](const std::vector<size_t>& ends) {
    device.programs.clear();
    session.run(ends, [](size_t) {});
    return device.programs;
  };
  const auto at = [&](size_t product, size_t begin) { return size_t(steps[product]) - begin; };
  EXPECT_EQ(programs_of({}), (std::vector<std::vector<size_t>>{{at(1, 0), at(4, 0), at(6, 0), at(7, 0)}}));
  const size_t cut = size_t(steps[3]);  // behind a, b and d
  EXPECT_EQ(programs_of({cut}), (std::vector<std::vector<size_t>>{{at(1, 0)}, {at(7, cut)}}));
}

// Each output has the bits that it has alone; with few rows, which every thread rounds for itself, or many; in pieces,
// which may run on other numbers of threads; and step by step.
TEST(PlanPrepares, ChangesNoBit) {
  const Products p;
  for (const int threads : {1, 2, 3}) {
    const auto device = make_cpu_device(threads);
    const ParamStore store = filled_store(*device);
    for (const bool repack : {false, true}) {
      const auto all = std::make_shared<const Plan>(p.plan(*device, p.outputs, repack));
      Session together(*device, all, {&store}), in_pieces(*device, all, {&store}), checked(*device, all, {&store});
      checked.check_finite(true);
      std::vector<size_t> ends;
      for (size_t i = 1; i < all->steps.size(); i += 2) ends.push_back(i);
      for (const int64_t rows : {int64_t(1), int64_t(3), int64_t(20), kMostRows}) {
        std::vector<float> x(size_t(rows * kK));
        for (size_t i = 0; i < x.size(); ++i) x[i] = float(Philox(uint64_t(rows), "x").uniform(i)) - 0.5f;
        for (Session* s : {&together, &in_pieces, &checked}) s->set("x", x);
        together.run(), checked.run(), in_pieces.run(ends, [](size_t) {});
        for (size_t o = 0; o < p.outputs.size(); ++o) {
          Session alone(*device, std::make_shared<const Plan>(p.plan(*device, {&p.outputs[o], 1}, repack)), {&store});
          alone.set("x", x), alone.run();
          for (Session* s : {&together, &in_pieces, &checked})
            EXPECT_EQ(s->values(o), alone.values(0)) << kWeights[o].name << ", " << rows << " rows, " << threads;
        }
      }
    }
  }
}

}  // namespace
}  // namespace toy::prepared_test
