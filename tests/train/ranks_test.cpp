// Ranks that train together, as threads of this process: the bits of one process that does it alone.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <optional>
#include <thread>

#include "ranks_testing.h"
#include "testing/errors.h"
#include "toy/backend/devices.h"
#include "toy/base/communicator.h"
#include "toy/models/adapter.h"
#include "toy/train/worker.h"
#include "train/calibrate.h"
#include "train/crew.h"
#include "train/early_sums.h"
#include "train/gradient_sums.h"
#include "train/sum_ranks.h"

namespace toy::ranks_test {
namespace {

using testing::expect_contains;
using testing::kTokens;
using testing::message_of;
using testing::rows;
using O = OptimizerOptions;

// With two sequences and some padding in each row, and targets that do not count.
Windows packed_rows(int64_t first, int64_t count) {
  Windows w = rows(first, count);
  for (int64_t i = 0; i < count * kTokens; ++i) {
    const int64_t row = i / kTokens, place = i % kTokens;
    const bool padding = place == kTokens - 1, second = place >= 5;
    w.sequence.push_back(padding ? int32_t(-1 - i) : int32_t(2 * row + second));
    w.position.push_back(padding ? 0 : int32_t(second ? place - 5 : place));
    w.trained.push_back(i % 7 != 0);
  }
  return w;
}

// All that steps leave, as bits.
struct Outcome {
  std::vector<uint64_t> losses, norms;
  std::map<std::string, std::vector<float>> values;
  bool operator==(const Outcome&) const = default;
};

Outcome train(Communicator* ranks, const std::function<Model(const Device&)>& make, TrainerOptions o, int steps = 3,
              bool packed = false) {
  const auto device = make_cpu_device(1);
  Model model = make(*device);
  o.tokens = kTokens, o.ranks = ranks;
  Trainer trainer(*device, model, o);
  Outcome out;
  for (int i = 0; i < steps; ++i) {
    const int64_t n = o.rows();
    const StepResult r = trainer.step(packed ? packed_rows(i * n, n) : rows(i * n, n), 1e-2);
    EXPECT_EQ(r.exchange.has_value(), ranks != nullptr);
    out.losses.push_back(std::bit_cast<uint64_t>(r.loss));
    out.norms.push_back(std::bit_cast<uint64_t>(r.grad_norm.value()));
  }
  trainer.each_moment(false, [&](ParamStore& store, const std::string& name) { out.values[name] = store.read(name); });
  for (const std::string& name : model.params->names()) out.values[name] = model.params->read(name);
  return out;
}

void expect_same_for_any_ranks(const std::function<Model(const Device&)>& make, const TrainerOptions& o,
                               const std::string& what, bool packed = false) {
  const Outcome alone = train(nullptr, make, o, 3, packed);
  for (const int n : {2, 4}) {
    testing::Job job(n);
    const Outcome together = train(&job.first(), make, o, 3, packed);
    EXPECT_TRUE(together == alone) << what << ", " << n << " ranks";
  }
}

std::function<Model(const Device&)> random_of(const ModelSpec& spec) {
  return [spec](const Device& device) { return random_model(spec, device, 9); };
}

TrainerOptions sharded(const OptimizerOptions& optimizer = {}) {
  return {.batch = 4, .shards = 4, .optimizer = optimizer};
}

TEST(Ranks, EveryOptimizer) {
  const ModelSpec spec = testing::odd_spec(true);
  for (const auto& [name, kind] : NamesOf<O::Kind>::list)
    expect_same_for_any_ranks(random_of(spec), sharded(O::of(kind)), name);
  expect_same_for_any_ranks(random_of(spec), sharded({.kind = O::sgd, .momentum = 0}), "sgd without momentum");
}

// Each optimizer with each of what else changes its gradients, or what it keeps.
TEST(Ranks, EveryOptimizerWithWhatElseAStepHas) {
  const auto make = random_of(testing::odd_spec(true));
  for (const auto& [name, kind] : NamesOf<O::Kind>::list) {
    TrainerOptions o = sharded(O::of(kind));
    o.dropout = 0.2, o.seed = 7;
    expect_same_for_any_ranks(make, o, std::string(name) + " with dropout");
    o = sharded(O::of(kind));
    o.optimizer.clip = 1e-3;
    expect_same_for_any_ranks(make, o, std::string(name) + " with clipping");
    o = sharded(O::of(kind));
    expect_same_for_any_ranks(make, o, std::string(name) + " with packed rows", true);
    o.optimizer.ema = 0.9;
    expect_same_for_any_ranks(make, o, std::string(name) + " with averages");
  }
}

TEST(Ranks, WhatElseAStepHas) {
  const ModelSpec spec = testing::odd_spec(false);
  TrainerOptions o = sharded();
  o.accumulate = 3, o.dropout = 0.2, o.seed = 7;
  expect_same_for_any_ranks(random_of(spec), o, "accumulation and dropout");
  o = sharded({.clip = 1e-3, .ema = 0.9});
  expect_same_for_any_ranks(random_of(spec), o, "clipping and averages");
  o.batch = 8, o.recompute = {.whole = 1, .light = 1};
  expect_same_for_any_ranks(random_of(spec), o, "recomputed blocks");
  expect_same_for_any_ranks(random_of(spec), sharded(), "packed rows", true);
}

TEST(Ranks, OtherModels) {
  expect_same_for_any_ranks(random_of(testing::gpt2_spec()), sharded(), "gpt2");
  expect_same_for_any_ranks(random_of(model_spec("hybrid-tiny", 97)), sharded(), "hybrid");
  for (const bool dora : {false, true}) {
    const auto adapted = [dora](const Device& device) {
      Model model = random_model(testing::odd_spec(true), device, 3);
      model.spec.adapters.push_back(lora_adapter(model.spec, {.rank = 4, .dora = dora, .dropout = dora ? 0 : 0.1}));
      model.spec.roles.train = {"*.lora_[abm]"};
      add_adapter_weights(model, 5);
      return model;
    };
    expect_same_for_any_ranks(adapted, sharded(), dora ? "dora" : "lora");
  }
}

// Of 12 shards, 3 ranks have subtrees of 4, and 6 of 2.
TEST(Ranks, NumbersThatAreNoPowerOfTwo) {
  TrainerOptions o = sharded();
  o.batch = o.shards = 12;
  const auto make = random_of(testing::odd_spec(true));
  const Outcome alone = train(nullptr, make, o);
  for (const int n : {3, 6, 12}) {
    testing::Job job(n);
    EXPECT_TRUE(train(&job.first(), make, o) == alone) << n;
  }
  testing::Job two(2);
  const std::string message = message_of([&] { train(&two.first(), make, o); });
  expect_contains(message, "2 ranks");
  expect_contains(message, "1, 3, 6 or 12");
}

// Where gradients are exchanged in several buckets, while backward computes.
TEST(Ranks, ManyBuckets) {
  const ModelSpec spec = testing::small_model("tiny", {.vocab = 97,
                                                       .d_model = 240,
                                                       .context = 64,
                                                       .tied = true,
                                                       .heads = 3,
                                                       .kv_heads = 1,
                                                       .d_head = 80,
                                                       .d_ff = 3000});
  ASSERT_GT(parameter_count(spec) * 4, 14 << 20);  // where they begin at 4 MiB
  const auto make = random_of(spec);
  TrainerOptions o = sharded();
  expect_same_for_any_ranks(make, o, "many buckets");
  o.accumulate = 2, o.check_finite = true, o.wire = TrainerOptions::Wire::bf16;
  expect_same_for_any_ranks(make, o, "many buckets in bf16, with accumulation");
}

// A long step is extrapolated from a small trainer of rank 0, while the others wait with theirs.
TEST(Ranks, ALongStepIsExtrapolated) {
  testing::Job job(2);
  const auto device = make_cpu_device(1);
  Model model = random_model(testing::small_model("tiny", {.vocab = 97,
                                                           .d_model = 120,
                                                           .context = 64,
                                                           .tied = true,
                                                           .heads = 3,
                                                           .kv_heads = 1,
                                                           .d_head = 40,
                                                           .d_ff = 3000}),
                             *device, 9);
  TrainerOptions o{.batch = 36, .tokens = 64, .shards = 2, .ranks = &job.first(), .wire = TrainerOptions::Wire::bf16};
  Trainer trainer(*device, model, o);
  ASSERT_GT(trainer.plan().cost().flops * 2, 2e10);  // from where on it is tried
  const auto ids = testing::walk(4000);
  const WindowSampler sampler(ids, 1, 64, 1);
  const auto windows = [&](int64_t first, int64_t count) { return sampler.windows(first, count); };
  EXPECT_GT(calibrate(*device, model, trainer, o, windows, nullptr, 1e-3, 1).step, 0);
  EXPECT_FALSE(trainer.step(windows(0, 36), 1e-3).skipped);
}

// Each rank says what it will take, of which rank 0's weights are there.
TEST(Ranks, EachSaysWhatItTakes) {
  testing::Job job(4);
  const auto device = make_cpu_device(1);
  Model model = random_model(testing::odd_spec(true), *device, 9);
  TrainerOptions o = sharded();
  o.tokens = kTokens, o.ranks = &job.first();
  const Trainer trainer(*device, model, o);
  const std::span<const RankMemory> all = trainer.rank_memory();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].needed, trainer.planned_bytes() - model.params->bytes());
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(all[size_t(r)].rank, r);
    EXPECT_EQ(all[size_t(r)].host, "here");
    EXPECT_GE(all[size_t(r)].needed, r == 0 ? 1 : model.params->bytes());
    EXPECT_GE(all[size_t(r)].planned, all[size_t(r)].needed);
    EXPECT_GT(all[size_t(r)].free.machine, 0u);
  }
  EXPECT_TRUE(Trainer(*device, model, {.batch = 4, .tokens = kTokens}).rank_memory().empty());
}

// Each tensor is in one bucket, from the step on that is the last to write its accumulator.
TEST(Ranks, BucketsFollowBackward) {
  const auto device = make_cpu_device(1);
  const Model model = random_model(model_spec("tiny", 97), *device, 9);
  TrainerOptions o = sharded();
  o.tokens = kTokens;
  const TrainPlans plans = compile_training(
      *device, model.spec, [](const std::string&) { return DType::f32; }, o);
  const GradientSums sums(*device, plans, model.spec, o,
                          std::make_shared<const DeviceBuffer>(*device, plans.arena_bytes()));
  for (const size_t bytes : {size_t(1), sums.bytes() / 8, 2 * sums.bytes()}) {
    const std::vector<GradientBucket> buckets = gradient_buckets(*plans.step, model.spec, sums, bytes);
    EXPECT_EQ(buckets.size() == 1, bytes > sums.bytes());
    EXPECT_TRUE(buckets.size() >= 4 || bytes != sums.bytes() / 8);
    // Of each 64 bytes, to which tensors are aligned: the steps before they are complete.
    std::vector<size_t> known((sums.bytes() + 63) / 64, 0);
    for (size_t b = 0; b < buckets.size(); ++b) {
      EXPECT_TRUE(b == 0 || buckets[b].end > buckets[b - 1].end);
      size_t held = 0;
      for (const auto& [offset, count] : buckets[b].ranges) {
        EXPECT_EQ(offset % 64, 0u);
        for (size_t i = offset / 64; i < (offset + count + 63) / 64; ++i) {
          EXPECT_EQ(known[i], 0u);
          known[i] = buckets[b].end;
        }
        held += count;
      }
      EXPECT_TRUE(held >= bytes || b + 1 == buckets.size());
    }
    EXPECT_EQ(std::count(known.begin(), known.end(), size_t(0)), 0);
    for (size_t i = 0; i < plans.step->steps.size(); ++i)
      for (const Operand& out : plans.step->steps[i].out) {
        if (out.base != Operand::param) continue;
        const std::string& name = plans.step->params[size_t(out.index)].name;
        const size_t at = sums.offset(name.substr(0, name.size() - std::string(".grad").size()));
        EXPECT_GT(known[at / 64], i) << name;
      }
  }
}

// A trainer is told when its weights were changed, by resume().
TEST(Ranks, ASkippedStepIsSkippedEverywhere) {
  const auto after = [](Communicator* ranks) {
    const auto device = make_cpu_device(1);
    Model model = random_model(testing::odd_spec(true), *device, 9);
    TrainerOptions o = sharded();
    o.tokens = kTokens, o.ranks = ranks;
    Trainer trainer(*device, model, o);
    const std::string name = "blk.0.ffn_up.weight";
    const std::vector<float> before = model.params->read(name);
    std::vector<float> bad = before;
    bad[3] = std::nanf("");
    model.params->write(name, bad);
    EXPECT_TRUE(trainer.step(rows(0, 4), 1e-2).skipped);
    model.params->write(name, before);
    trainer.resume(1, 0);
    EXPECT_FALSE(trainer.step(rows(4, 4), 1e-2).skipped);
    EXPECT_FALSE(trainer.step(rows(8, 4), 1e-2).skipped);
    EXPECT_EQ(trainer.updates(), 2);
    return model.params->read(name);
  };
  testing::Job job(2);
  EXPECT_EQ(after(&job.first()), after(nullptr));
}

// Each rank keeps what the optimizer remembers of the tensors that it updates, their averages, too.
TEST(Ranks, DivideTheMomentsAmongThemselves) {
  testing::Job job(4);
  const auto device = make_cpu_device(1);
  Model model = random_model(testing::odd_spec(true), *device, 9);
  TrainerOptions o = sharded();
  o.tokens = kTokens;
  const auto bytes_of_moments = [&](Communicator* ranks, double ema) {
    o.ranks = ranks, o.optimizer.ema = ema;
    Trainer trainer(*device, model, o);
    EXPECT_EQ(trainer.all_moments().size(), moment_types(model.spec, o.optimizer).size());
    return std::pair(double(trainer.moments().bytes()), double(trainer.planned_bytes()));
  };
  for (const double ema : {0.0, 0.9}) {
    const auto alone = bytes_of_moments(nullptr, ema), shared = bytes_of_moments(&job.first(), ema);
    EXPECT_LE(shared.first, 0.4 * alone.first);  // a quarter, as nearly as whole tensors allow
    EXPECT_LE(shared.second, alone.second - 0.6 * alone.first);
  }
}

// What a rank finds wrong is said by the first one, and ends nothing.
TEST(Ranks, AnErrorOfARank) {
  testing::Job job(4);
  const auto device = make_cpu_device(1);
  Model model = random_model(testing::odd_spec(true), *device, 9);
  TrainerOptions o = sharded();
  o.tokens = kTokens, o.ranks = &job.first();
  std::optional<Trainer> trainer(std::in_place, *device, model, o);
  for (const int bad : {2, 0}) {
    Windows w = rows(0, 4);
    w.inputs[size_t(bad * kTokens)] = 4711;
    const std::string message = message_of([&] { trainer->step(w, 1e-2); });
    expect_contains(message, "4711");
    EXPECT_EQ(message.find("rank 2 (host here): ") == 0, bad == 2) << message;
  }
  EXPECT_FALSE(trainer->step(rows(0, 4), 1e-2).skipped);
  trainer.reset();
  job.leave(7);
  EXPECT_EQ(job.code(1), 7);
  EXPECT_EQ(job.code(3), 7);
}

// A disk that is full while another rank's moments, in several pieces, are written to it: the job can continue.
TEST(Ranks, AFullDiskDoesNotStopTheOthers) {
  testing::Job job(2);
  const auto device = make_cpu_device(1);
  ModelSpec spec = testing::small_model("tiny", {.vocab = 30000,
                                                 .d_model = 36,
                                                 .context = 64,
                                                 .tied = false,
                                                 .heads = 3,
                                                 .kv_heads = 1,
                                                 .d_head = 14,
                                                 .d_ff = 50});
  Model model = random_model(spec, *device, 9);
  TrainerOptions o{.batch = 2, .tokens = kTokens, .shards = 2, .ranks = &job.first()};
  Trainer trainer(*device, model, o);
  trainer.step(rows(0, 2), 1e-2);
  int tried = 0;
  for (const auto& [name, type] : trainer.all_moments()) {
    if (trainer.moments().has(name) || type.bytes() <= size_t(4) << 20) continue;
    for (const int last : {1, 2}) {  // the piece with which it is full
      int pieces = 0;
      const auto sink = [&](std::span<const std::byte>) {
        if (++pieces == last) throw std::runtime_error("no space left");
      };
      EXPECT_THROW(trainer.read_moment(name, sink), std::runtime_error);
      EXPECT_EQ(pieces, last);
    }
    std::vector<std::byte> all;
    trainer.read_moment(name, [&](auto piece) { all.insert(all.end(), piece.begin(), piece.end()); });
    EXPECT_EQ(all.size(), type.bytes());
    ++tried;
  }
  ASSERT_GT(tried, 0);
  EXPECT_FALSE(trainer.step(rows(2, 2), 1e-2).skipped);
}

// A rank that runs out of memory in backward still takes part in the sums that the others wait for.
TEST(Ranks, AFailureOfAnyKindEndsAStepEverywhere) {
  testing::Job job(4);
  const auto device = make_cpu_device(1);
  Model model = random_model(testing::odd_spec(true), *device, 9);
  TrainerOptions o = sharded();
  o.tokens = kTokens, o.ranks = &job.first(), o.hidden = true, o.rank_timeout = 20;
  Trainer trainer(*device, model, o);
  const auto fails = [](int64_t, const std::vector<float>&) { throw std::bad_alloc(); };
  EXPECT_THROW(trainer.step(rows(0, 4), 1e-2, {}, fails), std::bad_alloc);
  EXPECT_FALSE(trainer.step(rows(0, 4), 1e-2).skipped);
  EXPECT_EQ(trainer.updates(), 1);
}

TEST(Ranks, OtherVersionsAndProcessorsAreRefused) {
  // What a trainer sends first, and what it makes of an answer.
  const auto ranks = local_communicators(2);
  std::string told;
  std::thread first(
      [&] { told = message_of([&] { train(ranks[0].get(), random_of(testing::odd_spec(true)), sharded()); }); });
  std::vector<std::byte> message = ranks[1]->receive(0);
  TrainerRecipe recipe = trainer_recipe(message);
  message[sizeof(Order) + sizeof(uint64_t)] ^= std::byte(1);  // the first letter of the version
  PartResult other_version;
  other_version.error = message_of([&] { trainer_recipe(message); });
  other_version.code = ErrorCode::bad_input;
  ranks[1]->send(0, packed(other_version));
  first.join();
  expect_contains(told, "rank 1 (host here): it is toy ");
  expect_contains(told, "install one version everywhere");

  const auto others = local_communicators(2);
  std::thread worker([&] { run_worker(*others[1]); });
  recipe.arithmetic = "another";
  others[0]->send(1, packed(recipe));
  const PartResult result = part_result(others[0]->receive(1));
  expect_contains(result.error, "rounds differently");
  expect_contains(result.error, "another");
  EXPECT_EQ(result.code, ErrorCode::bad_input);
  dismiss_workers(*others[0], 0);
  worker.join();
}

// Every sum of shards is rounded, wherever it is computed.
TEST(Ranks, SumsInBf16) {
  const auto make = random_of(testing::odd_spec(true));
  TrainerOptions o = sharded();
  const Outcome exact = train(nullptr, make, o, 3);
  o.wire = TrainerOptions::Wire::bf16, o.accumulate = 2;
  expect_same_for_any_ranks(make, o, "bf16");
  o.accumulate = 1;
  const Outcome rounded = train(nullptr, make, o, 3);
  EXPECT_EQ(rounded.losses[0], exact.losses[0]);  // before the first update
  EXPECT_NE(rounded.norms[0], exact.norms[0]);
  // Four values rounded, and three sums of them: 2^-9 each, of numbers that are no larger than the largest sum.
  const double norm = std::bit_cast<double>(exact.norms[0]);
  EXPECT_NEAR(std::bit_cast<double>(rounded.norms[0]), norm, 0.02 * norm);
  o.batch = o.shards = 12;
  const Outcome alone = train(nullptr, make, o);
  for (const int n : {3, 6}) {
    testing::Job job(n);
    EXPECT_TRUE(train(&job.first(), make, o) == alone) << n;
  }
  o.batch = o.shards = 1;
  expect_contains(message_of([&] { train(nullptr, make, o); }), "--shards 2");
}

TEST(Ranks, TheSumIsTheTreeOfTheRanks) {
  for (const auto& [n, in_bf16] : {std::pair(1, false),
                                   {2, false},
                                   {3, false},
                                   {4, false},
                                   {5, false},
                                   {6, false},
                                   {8, false},
                                   {2, true},
                                   {3, true},
                                   {4, true},
                                   {6, true}}) {
    const auto rounded = [in_bf16 = in_bf16](float v) { return in_bf16 ? to_float(to_bf16(v)) : v; };
    for (const size_t count : {size_t(1), size_t(4097), size_t(7 << 20)}) {
      if (count > 5000 && n > 3) continue;
      const auto value = [&](int rank, size_t i) {
        return rounded(float(double((i * 2654435761u + size_t(rank) * 97) % 10007) - 5e3) * 1e-3f);
      };
      auto ranks = local_communicators(n);
      std::vector<std::vector<float>> sums(static_cast<size_t>(n));
      std::vector<std::thread> threads;
      for (int r = 0; r < n; ++r)
        threads.emplace_back([&, r, count, in_bf16 = in_bf16] {
          std::vector<float>& mine = sums[size_t(r)];
          for (size_t i = 0; i < count; ++i) mine.push_back(value(r, i));
          ThreadPool pool(r == 0 ? 2 : 1);
          SumBuffers buffers;
          reserve_sums(buffers, int(ranks.size()), DType::f32, count, in_bf16);
          const void* const reserved[] = {buffers.packed.data(), buffers.received.data()};
          sum_ranks(*ranks[size_t(r)], pool, buffers, DType::f32, std::as_writable_bytes(std::span(mine)), in_bf16);
          EXPECT_EQ(buffers.packed.data(), reserved[0]);
          EXPECT_EQ(buffers.received.data(), reserved[1]);
        });
      for (std::thread& t : threads) t.join();
      int power = 1;
      while (n % (2 * power) == 0) power *= 2;
      for (size_t i = 0; i<count; i += count> 5000 ? 1013 : 1) {
        const std::function<float(int, int)> tree = [&](int first, int leaves) {
          return leaves == 1 ? value(first, i)
                             : rounded(tree(first, leaves / 2) + tree(first + leaves / 2, leaves / 2));
        };
        float sum = tree(0, power);
        for (int at = power; at < n; at += power) sum = rounded(sum + tree(at, power));
        for (const auto& s : sums) ASSERT_EQ(s[i], sum) << n << " ranks, element " << i << " of " << count;
      }
    }
  }
}

TEST(Ranks, WhoCanShare) {
  EXPECT_EQ(sharing_ranks(4), "1, 2 or 4");
  EXPECT_EQ(sharing_ranks(12), "1, 3, 6 or 12");
  EXPECT_EQ(sharing_ranks(1), "1");
  EXPECT_EQ(sharing_ranks(7), "1 or 7");
}

// A trainer whose worker hangs: its option says how long that may take.
TEST(Ranks, OneThatDoesNotAnswerIsNamed) {
  const auto two = local_communicators(2);
  TrainerOptions o = sharded();
  o.rank_timeout = 0.2;
  std::string told;
  std::thread first(
      [&] { told = testing::error_of([&] { train(two[0].get(), random_of(testing::odd_spec(true)), o); }); });
  two[1]->receive(0);
  first.join();
  expect_contains(told, "rank 1 (host here) has not answered for 0.2 s");
}

}  // namespace
}  // namespace toy::ranks_test
