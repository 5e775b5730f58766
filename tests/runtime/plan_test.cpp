// Plans: what shares memory, when things happen, and what a plan says about itself.
#include "toy/runtime/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/forwarding_device.h"
#include "runtime/arena.h"
#include "testing/errors.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/backend/fused.h"
#include "toy/base/philox.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"

namespace toy::plan_test {
namespace {

using testing::error_of;

// ---- the arena

TEST(Arena, BlocksAliveTogetherDoNotOverlap) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Philox random(seed, "blocks");
    std::vector<Block> blocks(1 + random.below(0, 60));
    size_t total = 0, largest_step = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const int first = int(random.below(3 * i + 1, 40)), last = first + int(random.below(3 * i + 2, 12));
      blocks[i] = {size_t(random.below(3 * i + 3, 5000)), first, last, 0};
      total += (blocks[i].bytes + 63) / 64 * 64;
    }
    const size_t size = pack_blocks(blocks);
    for (int step = 0; step < 60; ++step) {
      size_t alive = 0;
      for (const Block& b : blocks) alive += b.first <= step && step <= b.last ? b.bytes : 0;
      largest_step = std::max(largest_step, alive);
    }
    EXPECT_LE(largest_step, size);
    EXPECT_LE(size, total);
    for (size_t i = 0; i < blocks.size(); ++i) {
      EXPECT_EQ(blocks[i].offset % 64, 0u);
      EXPECT_LE(blocks[i].offset + blocks[i].bytes, size);
      for (size_t j = 0; j < i; ++j) {
        const Block &a = blocks[i], &b = blocks[j];
        if (a.last < b.first || b.last < a.first || !a.bytes || !b.bytes) continue;
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << "seed " << seed;
      }
    }
  }
}

// "Largest first, each at the lowest free offset", without anything that makes it fast.
TEST(Arena, OffsetsAreTheLowestFreeOnes) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Philox random(seed, "blocks");
    std::vector<Block> blocks(1 + random.below(0, 80));
    for (size_t i = 0; i < blocks.size(); ++i) {
      // Some live as activations do, from their forward to their backward; sizes repeat, and some are empty.
      const int first = int(random.below(4 * i + 1, 40));
      const int last = random.below(4 * i, 2) == 0 ? 79 - first : first + int(random.below(4 * i + 2, 12));
      blocks[i] = {size_t(random.below(4 * i + 3, 6)) * (seed % 3 == 0 ? 100 : 64), first, last, 0};
    }
    std::vector<size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
    std::vector<Block> expected = blocks;
    for (size_t n = 0; n < order.size(); ++n) {
      Block& b = expected[order[n]];
      const auto in_the_way = [&](size_t other) {
        const Block& p = expected[other];
        return p.first <= b.last && b.first <= p.last && p.bytes > 0 && b.offset < p.offset + p.bytes &&
               p.offset < b.offset + b.bytes;
      };
      while (std::any_of(order.begin(), order.begin() + int64_t(n), in_the_way)) b.offset += 64;
    }
    pack_blocks(blocks);
    for (size_t i = 0; i < blocks.size(); ++i)
      if (blocks[i].bytes > 0) {
        EXPECT_EQ(blocks[i].offset, expected[i].offset) << "seed " << seed << " block " << i;
      }
  }
}

TEST(Arena, BlocksThatNeverMeetShare) {
  std::vector<Block> blocks{{1000, 0, 1, 0}, {1000, 2, 3, 0}, {500, 4, 5, 0}};
  EXPECT_EQ(pack_blocks(blocks), 1024u);
  EXPECT_EQ(blocks[0].offset, blocks[1].offset);
}

// ---- whole plans

struct Devices {
  std::unique_ptr<Device> reference = make_reference_device(), cpu = make_test_device(2);
};

std::vector<std::vector<float>> run(const Graph& g, const std::vector<Value>& outputs, size_t wanted, Device& device) {
  const auto plan = std::make_shared<const Plan>(compile(g, outputs, {}, device));
  ParamStore store(device);
  for (const PlanLeaf& p : plan->params) {
    store.add(p.name, p.type);
    std::vector<float> values(size_t(p.type.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(Philox(3, p.name).uniform(i) - 0.5);
    store.write(p.name, values);
  }
  Session session(device, plan, {&store});
  session.run();
  std::vector<std::vector<float>> results;
  for (size_t i = 0; i < wanted; ++i) results.push_back(session.values(i));
  return results;
}

// A random graph of ops that may work in place, views, and updates of temporaries.
std::vector<Value> random_values(Graph& g, uint64_t seed) {
  const Philox random(seed, "graph");
  const TensorType type{DType::f32, {4, 6}, 0};
  std::vector<Value> values{g.param("a", type), g.param("b", type), g.param("c", type)};
  const Value ids = g.constant({DType::i32, {2}, 0}, {3, 1});
  const Value row = g.param("row", {DType::f32, {6}, 0});
  for (uint64_t i = 0; i < 25; ++i) {
    const auto pick = [&](uint64_t k) { return values[random.below(8 * i + k, values.size())]; };
    const Value x = pick(0), y = pick(1);
    switch (random.below(8 * i + 2, 11)) {
      case 0:
        values.push_back(x + y);
        break;
      case 1:
        values.push_back(x * y);
        break;
      case 2:
        values.push_back(scale(x, 0.75));
        break;
      case 3:
        values.push_back(sigmoid(x));
        break;
      case 4:
        values.push_back(swiglu(x, y));
        break;
      case 5:
        values.push_back(rms_norm(x, row, 1e-2f));
        break;
      case 6:
        values.push_back(permute(reshape(x, {6, 4}), {1, 0}));
        break;
      case 7:
        values.push_back(reshape(permute(x, {1, 0}), {4, 6}));
        break;
      case 8: {
        const std::vector<Value> parts{slice(x, 1, 3, 3), slice(y, 1, 0, 3)};
        values.push_back(concat(parts, 1));
        break;
      }
      case 9:
        values.push_back(x + slice(y, 0, 2, 1));
        break;
      case 10:
        if (g.node(x).kind == NodeKind::op) values.push_back(embedding_grad(slice(y, 0, 1, 2), ids, scale(x, 1)));
        break;
    }
  }
  return {values.begin() + 4, values.end()};
}

// What nobody may overwrite is right: every intermediate asked for, against the last ones alone.
TEST(Plan, InPlaceDecisionsDoNotChangeResults) {
  const Devices devices;
  for (Device* device : {devices.cpu.get(), devices.reference.get()})
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Graph g;
      const std::vector<Value> all = random_values(g, seed);
      std::vector<Value> few(all.end() - 3, all.end()), everything = few;
      everything.insert(everything.end(), all.begin(), all.end());
      EXPECT_EQ(run(g, few, 3, *device), run(g, everything, 3, *device)) << device->name() << " seed " << seed;
    }
}

TEST(Plan, ChainsOfElementwiseOpsNeedOneBuffer) {
  const Devices devices;
  Graph g;
  Value x = exp(g.param("x", {DType::f32, {1024}, 0}));
  for (int i = 0; i < 5; ++i) x = sigmoid(x);
  const std::vector<Value> outputs{x};
  const Plan plan = compile(g, outputs, {}, *devices.cpu, {.fuse = false});
  EXPECT_EQ(plan.arena_bytes, 4096u);
  EXPECT_EQ(compile(g, outputs, {}, *devices.reference).arena_bytes, 8192u);
  EXPECT_EQ(plan.param_bytes(*devices.cpu), 4096u);
  EXPECT_EQ(plan.param_bytes(*devices.reference), 8192u);
  EXPECT_EQ(plan.steps.size(), 6u);
}

TEST(Plan, TheArenaHoldsEveryOperand) {
  const Devices devices;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Graph g;
    const std::vector<Value> all = random_values(g, seed), few(all.end() - 1, all.end());
    const Plan plan = compile(g, few, {}, *devices.cpu);
    const auto inside = [&](const Operand& o) {
      EXPECT_TRUE(o.base != Operand::arena || o.offset + o.view.bytes() <= plan.arena_bytes) << to_text(plan);
    };
    for (const PlanStep& s : plan.steps) {
      std::for_each(s.in.begin(), s.in.end(), inside);
      std::for_each(s.out.begin(), s.out.end(), inside);
      EXPECT_LE(s.workspace_offset + s.workspace_bytes, plan.arena_bytes);
    }
  }
}

TEST(Plan, WhatNobodyNeedsIsNotRun) {
  const Devices devices;
  Graph g;
  const Value x = g.param("x", {DType::f32, {8}, 0}), y = exp(x);
  log(g.param("unused", {DType::f32, {8}, 0}));
  const std::vector<Value> outputs{y};
  const Plan plan = compile(g, outputs, {}, *devices.cpu);
  EXPECT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.params.size(), 1u);
}

// The gradient of the last layer is used up before backward goes on: updates come as early as they can.
TEST(Plan, UpdatesRunAsSoonAsOthersHaveRead) {
  SKIP_WHERE_STEPS_ARE_NOT_JOINED();
  const Devices devices;
  Graph g;
  const TensorType matrix{DType::f32, {8, 8}, 0};
  Value x = g.input("x", matrix);
  std::vector<Value> weights, updates;
  for (int i = 0; i < 3; ++i) {
    weights.push_back(g.param("w" + std::to_string(i), matrix));
    x = silu(linear(x, weights.back()));
  }
  const auto grads = gradients(sum_all(x), weights);
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    const AdamWState next = adamw({weights[size_t(i)], g.param("m" + n, matrix), g.param("v" + n, matrix)},
                                  grads[size_t(i)], g.scalar(0.1), g.scalar(1), g.scalar(1), {}, {});
    updates.insert(updates.end(), {next.w, next.m, next.v});
  }
  for (const bool fuse : {false, true}) {
    const Plan plan = compile(g, {}, updates, *devices.cpu, {.fuse = fuse});
    std::vector<std::string> order;
    for (const PlanStep& s : plan.steps) {
      if (s.op.find("adamw") != std::string::npos || s.op == "linear_grad_w") order.push_back(s.op);
      if (s.op.find("adamw") == std::string::npos) continue;
      for (size_t o = 0; o < 3; ++o) EXPECT_EQ(s.out[o].base, Operand::param);
    }
    const std::string product(kLinearGradWAdamW);
    EXPECT_EQ(order, fuse ? std::vector<std::string>(3, product)
                          : (std::vector<std::string>{"linear_grad_w", "adamw", "linear_grad_w", "adamw",
                                                      "linear_grad_w", "adamw"}));
  }
}

TEST(Plan, ReadersOfAParameterPrecedeItsUpdate) {
  const Devices devices;
  Graph g;
  const TensorType table{DType::f32, {4, 6}, 0};
  const Value w = g.param("w", table), ids = g.constant({DType::i32, {1}, 0}, {2});
  const Value updated = embedding_grad(g.constant({DType::f32, {1, 6}, 0}, std::vector<double>(6, 1.0)), ids, w);
  const Value before = exp(permute(w, {1, 0}));  // later in the graph, through a view
  const std::vector<Value> outputs{before}, updates{updated};
  const Plan plan = compile(g, outputs, updates, *devices.cpu);
  ASSERT_EQ(plan.steps.back().op, "embedding_grad") << to_text(plan);
}

// A temporary that others still need is copied before it is updated.
TEST(Plan, DonatedTemporariesOfOthersAreCopied) {
  const Devices devices;
  for (Device* device : {devices.cpu.get(), devices.reference.get()}) {
    Graph g;
    const Value table = g.param("table", {DType::f32, {4, 2}, 0}), ids = g.constant({DType::i32, {2}, 0}, {1, 1});
    const Value loss = sum_all(table) + sum_all(embedding(table, ids));  // the dense gradient is a broadcast constant
    const std::vector<Value> wrt{table};
    const auto grads = gradients(loss, wrt);
    EXPECT_EQ(run(g, grads, 1, *device)[0], (std::vector<float>{1, 1, 3, 3, 1, 1, 1, 1}));

    Graph h;
    const Value x = exp(h.param("x", {DType::f32, {4, 2}, 0})), dy = h.constant({DType::f32, {1, 2}, 0}, {100, 100});
    const Value added = embedding_grad(dy, h.constant({DType::i32, {1}, 0}, {0}), x);
    const std::vector<Value> both{x, added};
    const auto y = run(h, both, 2, *device);
    EXPECT_LT(y[0][0], 2);
    EXPECT_GT(y[1][0], 100);
  }
}

// An update that a copy would receive: refused, whether the copy is made for the kernel's layout or for a view.
TEST(Plan, UpdatesArriveInTheirParameter) {
  const Devices devices;
  for (Device* device : {devices.cpu.get(), devices.reference.get()}) {
    const auto message = [&](const auto& seen) {
      Graph g;
      const auto layer = g.scope("blk.0");
      const Value w = g.param("w", {DType::f32, {4, 4}, 0}), ids = g.constant({DType::i32, {1}, 0}, {2});
      const Value to = seen(g, w), dy = g.constant({DType::f32, {1, to.dim(1)}, 0}, std::vector<double>(4, 1.0));
      const std::vector<Value> updates{embedding_grad(dy, ids, to)};
      return error_of([&] { compile(g, {}, updates, *device); });
    };
    const std::string refused =
        "blk.0: embedding_grad: the update would go to a copy of 'w', which is seen here through a strided view; "
        "update 'w' itself, or a view of it that is contiguous";
    EXPECT_EQ(message([](Graph&, Value w) { return permute(w, {1, 0}); }), refused);
    EXPECT_EQ(message([](Graph&, Value w) { return reshape(permute(w, {1, 0}), {4, 4}); }), refused);
    EXPECT_EQ(message([](Graph& g, Value) {
                return fill(g, {4, 4}, 0);
              }),
              "blk.0: embedding_grad: it updates a temporary and no parameter; give it as an output");
    EXPECT_EQ(message([](Graph&, Value w) { return w; }), "no error");
    EXPECT_EQ(message([](Graph&, Value w) { return slice(w, 0, 1, 3); }), "no error");
    EXPECT_EQ(message([](Graph& g, Value w) {  // an update of an updated parameter
                const Value dy = g.constant({DType::f32, {1, 4}, 0}, std::vector<double>(4, 2.0));
                return embedding_grad(dy, g.constant({DType::i32, {1}, 0}, {0}), w);
              }),
              "no error");
  }
}

// What lies in a parameter is read behind the run, when the update has been there.
TEST(Plan, OutputsDoNotShowWhatTheirUpdateLeaves) {
  const Devices devices;
  Graph g;
  const Value w = g.param("w", {DType::f32, {4, 2}, 0}), other = g.param("other", {DType::f32, {4, 2}, 0});
  const Value ids = g.constant({DType::i32, {1}, 0}, {2}), dy = g.constant({DType::f32, {1, 2}, 0}, {1, 1});
  const Value once = embedding_grad(dy, ids, w), twice = embedding_grad(dy, ids, once);
  const auto message = [&](Value output, Value update) {
    const std::vector<Value> outputs{other, output}, updates{update};
    return error_of([&] { compile(g, outputs, updates, *devices.cpu); });
  };
  const std::string text =
      "which the plan updates, so it would show the new value; ask for the updated value, or read it with a plan that "
      "does not update";
  EXPECT_EQ(message(w, once), "compile: output 1 lies in the memory of 'w', " + text);
  EXPECT_EQ(message(permute(w, {1, 0}), once), "compile: output 1 lies in the memory of 'w', " + text);
  EXPECT_EQ(message(once, twice), "compile: output 1 lies in the memory of 'embedding_grad', " + text);
  EXPECT_EQ(message(once, once), "no error");
  EXPECT_EQ(message(reshape(twice, {8}), twice), "no error");
  EXPECT_EQ(message(exp(w), twice), "no error");  // computed before the update
  const std::vector<Value> outputs{w};
  EXPECT_EQ(error_of([&] { compile(g, outputs, {}, *devices.cpu); }), "no error");
  // What is donated is a copy: the parameter stays as it is.
  const Value v = g.param("v", {DType::f32, {2, 4}, 0});
  const std::vector<Value> copied{v, embedding_grad(dy, ids, permute(v, {1, 0}))};
  EXPECT_EQ(error_of([&] { compile(g, copied, {}, *devices.cpu); }), "no error");
}

TEST(Plan, StridedValuesCanBeRead) {
  const Devices devices;
  Graph g;
  const Value x = exp(g.param("x", {DType::f32, {3, 2}, 0}));
  const std::vector<Value> outputs{x, permute(x, {1, 0}), broadcast_to(g.scalar(2), {3})};
  const auto y = run(g, outputs, 3, *devices.cpu);
  EXPECT_EQ(y[1], (std::vector<float>{y[0][0], y[0][2], y[0][4], y[0][1], y[0][3], y[0][5]}));
  EXPECT_EQ(y[2], (std::vector<float>{2, 2, 2}));
}

// A copy for the layout of one operand has that operand's rows, not the batch's.
TEST(Plan, CopiesOfFixedOperandsAreWholeInAnyBatch) {
  const Devices devices;
  for (Device* device : {devices.cpu.get(), devices.reference.get()}) {
    Graph g;
    const int n = g.declare_rows("N", 8);
    const Value x = g.input("x", g.rows_type(n, DType::f32, {2})), w = g.param("w", {DType::f32, {2, 3}, 0});
    const std::vector<Value> outputs{linear(x, permute(w, {1, 0}))};
    const auto plan = std::make_shared<const Plan>(compile(g, outputs, {}, *device));
    ParamStore store(*device);
    store.add("w", {DType::f32, {2, 3}, 0});
    store.write("w", std::vector<float>{1, 2, 3, 10, 20, 30});
    Session session(*device, plan, {&store});
    session.set_rows("N", 1);
    session.set("x", std::vector<float>{1, 1});
    session.run();
    EXPECT_EQ(session.values(0), (std::vector<float>{11, 22, 33})) << device->name();
  }
}

TEST(Plan, CopiesAreNoted) {
  const Devices devices;
  Graph g;
  const Value x = g.param("x", {DType::f32, {3, 2}, 0});
  const auto scope = g.scope("blk.0");
  const std::vector<Value> outputs{softmax(permute(x, {1, 0}))};
  const Plan plan = compile(g, outputs, {}, *devices.cpu);
  EXPECT_EQ(plan.notes, std::vector<std::string>{"blk.0: softmax: a copy of 6 values for their layout"});
}

// ---- devices that lack kernels

class Without final : public ForwardingDevice {
 public:
  Without(Device& whole, const std::vector<std::string>& missing) : ForwardingDevice(whole) {
    for (const KernelRecord& k : whole.kernels())
      if (std::find(missing.begin(), missing.end(), k.op) == missing.end()) kernels_.push_back(k);
  }
  std::string_view name() const override { return "partial"; }
  std::span<const KernelRecord> kernels() const override { return kernels_; }

 private:
  std::vector<KernelRecord> kernels_;
};

TEST(Plan, MissingKernelsRunAsTheirDecomposition) {
  const Devices devices;
  Without partial(*devices.reference, {"swiglu", "silu", "log"});
  Graph g;
  const Value a = g.param("a", {DType::f32, {5}, 0}), b = g.param("b", {DType::f32, {5}, 0});
  Value y;
  {
    const auto scope = g.scope("blk.2");
    y = swiglu(a, b);
  }
  const std::vector<Value> outputs{y};
  const Plan plan = compile(g, outputs, {}, partial);
  EXPECT_EQ(plan.notes, (std::vector<std::string>{"silu: no kernel on 'partial', running its decomposition",
                                                  "swiglu: no kernel on 'partial', running its decomposition"}));
  for (const PlanStep& s : plan.steps) {
    EXPECT_EQ(s.layer.path, "blk.2") << s.op;
    EXPECT_EQ(s.phase, Phase::forward) << s.op;
  }
  const auto whole = run(g, outputs, 1, *devices.reference), parts = run(g, outputs, 1, partial);
  for (size_t i = 0; i < 5; ++i) EXPECT_FLOAT_EQ(whole[0][i], parts[0][i]);

  EXPECT_EQ(error_of([&] { compile(g, outputs, {}, partial, {.strict = true}); }),
            "blk.2: swiglu: device 'partial' has no kernel for it, and --strict forbids its decomposition");
  const std::vector<Value> impossible{log(a)};
  EXPECT_EQ(error_of([&] { compile(g, impossible, {}, partial); }),
            "log: device 'partial' has no kernel for these operands: x f32");
}

// A whole training step on primitive kernels alone.
TEST(Plan, TrainingRunsOnPrimitives) {
  const Devices devices;
  Without primitive(*devices.reference,
                    {"linear", "linear_grad_x", "linear_grad_w", "linear_xent", "rms_norm", "rms_norm_grad", "swiglu",
                     "swiglu_grad", "attention", "attention_grad", "rope", "silu"});
  Graph g;
  const Value w = g.param("w", {DType::f32, {8, 8}, 0}), norm = g.param("norm", {DType::f32, {8}, 0});
  const Value table = g.param("table", {DType::f32, {9, 8}, 0}),
              ids = g.constant({DType::i32, {5}, 0}, {1, 4, 4, 8, 0});
  const Value seq = g.constant({DType::i32, {5}, 0}, {0, 0, 0, 1, 1}),
              pos = g.constant({DType::i32, {5}, 0}, {0, 1, 2, 0, 1});
  const Value turns = g.constant({DType::f32, {3, 2, 2}, 0}, {1, 0, 1, 0, 0.8, 0.6, 0.6, 0.8, 0.28, 0.96, 0, 1});
  Value x = embedding(table, ids);
  const Value h = rms_norm(x, norm, 1e-5f), q = reshape(linear(h, w), {5, 2, 4});
  const Value turned = rope(q, pos, turns);
  x = x + reshape(attention(turned, turned, q, seq, pos, {0.5, 0}), {5, 8});
  x = x + swiglu(linear(x, w), x);
  const Value loss = linear_xent(x, table, ids, g.constant({DType::f32, {5}, 0}, std::vector<double>(5, 0.2))).loss;
  const std::vector<Value> wrt{w, norm, table};
  std::vector<Value> outputs = gradients(loss, wrt);
  outputs.push_back(loss);
  const auto fused = run(g, outputs, 4, *devices.reference), parts = run(g, outputs, 4, primitive);
  for (size_t o = 0; o < 4; ++o)
    for (size_t i = 0; i < fused[o].size(); ++i)
      EXPECT_NEAR(fused[o][i], parts[o][i], 2 * 0x1p-24 * std::max(1.f, std::abs(fused[o][i])));
}

TEST(Plan, SaysWhatItDoes) {
  const Devices devices;
  Graph g;
  const Value x = g.input("x", {DType::f32, {2, 3}, 0}), w = g.param("w", {DType::f32, {4, 3}, 0});
  const auto scope = g.scope("head");
  const std::vector<Value> outputs{silu(linear(x, w))};
  const Plan plan = compile(g, outputs, {}, *devices.reference);
  EXPECT_EQ(to_text(plan),
            "   0 @0[2,4] = linear(x, w, -, -)  # head\n"
            "   1 @0[2,4] = silu(@0)  # head\n");
  EXPECT_EQ(plan.cost().flops, 2 * 6 * 4 + 8);
  EXPECT_EQ(plan.cost().transcendentals, 8);
}

}  // namespace
}  // namespace toy::plan_test
