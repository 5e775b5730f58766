// Ranks that train apart and meet after some steps: DiLoCo against its formula, its bits, and what it learns.
#include "train/local_steps.h"

#include <gtest/gtest.h>

#include <bit>
#include <optional>

#include "ranks_testing.h"
#include "testing/errors.h"
#include "toy/backend/devices.h"
#include "toy/train/recipe.h"
#include "train/run.h"
#include "train/sum_ranks.h"

namespace toy::local_steps_test {
namespace {

using testing::expect_contains;
using testing::kTokens;
using testing::message_of;
using testing::rows;
using O = OptimizerOptions;
using Values = std::map<std::string, std::vector<float>>;

TrainerOptions plain(int64_t batch, int64_t local_steps = 0) {
  return {.batch = batch,
          .tokens = kTokens,
          .shards = local_steps > 0 ? batch : 1,
          .optimizer = {.kind = O::sgd, .momentum = 0.5, .weight_decay = 0, .clip = 0},
          .local_steps = local_steps};
}

Model new_model(const Device& device) { return random_model(testing::odd_spec(true), device, 9); }

Values values_of(const ParamStore& store) {
  Values v;
  for (const std::string& name : store.names()) v[name] = store.read(name);
  return v;
}

// Weights after `steps` in two ranks, of one sequence each.
Values after(int64_t steps, const TrainerOptions& given, std::vector<double>* losses = nullptr) {
  testing::Job job(2);
  const auto device = make_cpu_device(1);
  Model model = new_model(*device);
  TrainerOptions o = given;
  o.ranks = &job.first();
  Trainer trainer(*device, model, o);
  for (int64_t i = 0; i < steps; ++i) {
    const StepResult r = trainer.step(rows(2 * i, 2), 0.05);
    EXPECT_EQ(trainer.apart(), (i + 1) % o.local_steps != 0);
    EXPECT_EQ(*r.exchange > 0, !trainer.apart());
    if (losses) losses->push_back(r.loss);
  }
  return values_of(*model.params);
}

// What a rank does by itself: steps on its row of each pair.
struct Alone {
  explicit Alone(int r) : rank(r), model(new_model(*device)) { trainer.emplace(*device, model, plain(1)); }
  double step(int64_t i) { return trainer->step(rows(2 * i + rank, 1), 0.05).loss; }
  int rank;
  std::unique_ptr<Device> device = make_cpu_device(1);
  Model model;
  std::optional<Trainer> trainer;
};

// Two rounds of three steps, against two trainers that know nothing of each other.
TEST(LocalSteps, AreTheirFormula) {
  constexpr int64_t kSteps = 3;
  constexpr double kLr = 0.7, kMomentum = 0.9;
  std::vector<double> losses;
  const Values got = after(2 * kSteps, plain(2, kSteps), &losses);
  Alone a(0), b(1);
  Values start = values_of(*a.model.params);
  std::map<std::string, std::vector<double>> velocity;
  for (int64_t round = 0; round < 2; ++round) {
    for (int64_t i = round * kSteps; i < (round + 1) * kSteps; ++i)
      EXPECT_NEAR(losses[size_t(i)], (a.step(i) + b.step(i)) / 2, 1e-5);
    for (auto& [name, w] : start) {
      const std::vector<float> wa = a.model.params->read(name), wb = b.model.params->read(name);
      std::vector<double>& v = velocity[name];
      v.resize(w.size());
      for (size_t i = 0; i < w.size(); ++i) {
        const double moved = double(w[i]) - (double(wa[i]) + double(wb[i])) / 2;
        v[i] = kMomentum * v[i] + moved;
        w[i] = float(double(w[i]) - kLr * (moved + kMomentum * v[i]));
      }
      a.model.params->write(name, w), b.model.params->write(name, w);
    }
  }
  for (const auto& [name, w] : start)
    for (size_t i = 0; i < w.size(); ++i) ASSERT_NEAR(got.at(name)[i], w[i], 2e-6) << name << " " << i;
}

// One step of plain SGD each, averaged with rate 1, is a step on the mean of the gradients.
TEST(LocalSteps, OfOneStepAreGradientDescent) {
  TrainerOptions o = plain(2, 1);
  o.optimizer.momentum = 0, o.outer_lr = 1, o.outer_momentum = 0;
  const Values got = after(4, o);
  const auto device = make_cpu_device(1);
  Model model = new_model(*device);
  TrainerOptions together = plain(2);
  together.optimizer.momentum = 0;
  Trainer trainer(*device, model, together);
  for (int64_t i = 0; i < 4; ++i) trainer.step(rows(2 * i, 2), 0.05);
  for (const auto& [name, w] : values_of(*model.params))
    for (size_t i = 0; i < w.size(); ++i) ASSERT_NEAR(got.at(name)[i], w[i], 1e-6) << name << " " << i;
}

// All that a checkpoint keeps, taken in the middle of a round and at its end, into a job of new processes.
TEST(LocalSteps, ResumeToTheSameBits) {
  TrainerOptions o = plain(2, 3);
  o.optimizer = {};  // adamw
  o.dropout = 0.1, o.seed = 5;
  const Values calm = after(9, o);
  EXPECT_EQ(calm, after(9, o));
  for (const int64_t cut : {2, 3, 4}) {
    Values weights, moments;
    int64_t updates = 0;
    const auto device = make_cpu_device(1);
    for (const bool resumed : {false, true}) {
      testing::Job job(2);
      Model model = new_model(*device);
      o.ranks = &job.first();
      Trainer trainer(*device, model, o);
      if (resumed) {
        for (const auto& [name, v] : weights) model.params->write(name, v);
        trainer.resume(cut, updates);
        trainer.each_moment(true,
                            [&](ParamStore& store, const std::string& name) { store.write(name, moments.at(name)); });
      }
      for (int64_t i = resumed ? cut : 0; i < (resumed ? 9 : cut); ++i) trainer.step(rows(2 * i, 2), 0.05);
      weights = values_of(*model.params), updates = trainer.updates();
      moments.clear();
      trainer.each_moment(false, [&](ParamStore& store, const std::string& name) { moments[name] = store.read(name); });
      EXPECT_EQ(moments.count("token_embd.weight.rank1"), 1u);
      EXPECT_EQ(moments.at("token_embd.weight.rank1") == weights.at("token_embd.weight"), cut == 3 || resumed);
    }
    EXPECT_EQ(weights, calm) << cut;
  }
}

// On text that can be learned.
TEST(LocalSteps, LearnAsWellAsSharedSteps) {
  const auto device = make_cpu_device(1);
  constexpr int64_t kSteps = 200, kBatch = 8;
  const auto loss_after = [&](int64_t local_steps, double lr, double outer_lr, double momentum) {
    testing::Job job(2);
    Model model = new_model(*device);
    TrainerOptions o{
        .batch = kBatch, .tokens = kTokens, .shards = 2, .ranks = &job.first(), .local_steps = local_steps};
    o.outer_lr = outer_lr, o.outer_momentum = momentum;
    Trainer trainer(*device, model, o);
    double last = 0;
    for (int64_t i = 0; i < kSteps; ++i) {
      const double loss = trainer.step(rows(kBatch * i, kBatch), lr).loss;
      if (i >= kSteps - 10) last += loss / 10;
      if (i == 0) {
        EXPECT_GT(loss, 4);
      }
    }
    return last;
  };
  const double shared = loss_after(0, 4e-3, 1, 0);
  EXPECT_LT(shared, 1.5);  // the walk has log(3) = 1.1 nats a token
  EXPECT_NEAR(loss_after(20, 2e-3, TrainerOptions().outer_lr, TrainerOptions().outer_momentum), shared, 0.1);
  EXPECT_NEAR(loss_after(5, 4e-3, 1, 0), shared, 0.1);  // a mean
  // Momentum adds up what rounds have moved, seven times here: of short rounds with this rate it is too much.
  EXPECT_GT(loss_after(5, 4e-3, 0.7, 0.9), shared + 0.3);
}

// Of a token whose vector is not finite, which one rank's rows have alone: that rank skips its steps, and it is counted
// with the step after.
TEST(LocalSteps, StepsThatAnotherRankSkipsAreCounted) {
  testing::Job job(2);
  const auto device = make_cpu_device(1);
  ModelSpec spec = testing::odd_spec(false);
  Model model = random_model(spec, *device, 9);
  const int32_t bad = int32_t(spec.vocab) - 1;
  std::vector<float> table = model.params->read("token_embd.weight");
  table[size_t(bad * spec.d_model)] = std::nanf("");
  model.params->write("token_embd.weight", table);
  TrainerOptions o = plain(2, 8);
  o.ranks = &job.first();
  Trainer trainer(*device, model, o);
  std::vector<int64_t> counted;
  for (const bool skips : {true, true, false, true, false}) {
    Windows w = rows(0, 2);
    for (size_t i = 0; i < w.inputs.size(); ++i)
      if (w.inputs[i] == bad) w.inputs[i] = 0;
    if (skips) w.inputs[kTokens] = bad;
    const StepResult r = trainer.step(w, 0.05);
    EXPECT_FALSE(r.skipped);
    ASSERT_EQ(r.skips.size(), 2u);
    EXPECT_EQ(r.skips[0], 0);
    counted.push_back(r.skips[1]);
    EXPECT_EQ(most_skips(r).second, r.skips[1]);
  }
  EXPECT_EQ(counted, (std::vector<int64_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(trainer.updates(), 5);
}

TEST(LocalSteps, ARankThatSkipsTooOftenEndsTheRun) {
  const auto two = local_communicators(2);
  RecipeOptions run;
  run.trainer = plain(2, 5), run.trainer.ranks = two[0].get(), run.max_skipped = 3;
  StepResult r;
  EXPECT_EQ(most_skips(r).second, 0);
  r.skips = {0, 3};
  EXPECT_EQ(most_skips(r), std::pair(1, int64_t(3)));
  const std::string other = testing::error_of([&] { fail_of_skips(run, r, 8, 1, "out/model.gguf"); });
  expect_contains(other, "diverged in rank 1 (host here): the gradient of 3 steps in a row, up to step 7");
  expect_contains(other, "Rank 0's weights are in out/model.gguf");
  const std::string here = testing::error_of([&] { fail_of_skips(run, r, 8, 3, "out/model.gguf"); });
  expect_contains(here, "diverged: the gradient of 3 steps in a row, up to step 8");
}

TEST(LocalSteps, BadInput) {
  TrainerOptions o = plain(2, 3);
  expect_contains(message_of([&] { o.validate(); }), "start 2 ranks (here: ranks 1, shards 2)");
  const auto two = local_communicators(2);
  o.ranks = two[0].get();
  o.validate();
  o.batch = o.shards = 4;
  expect_contains(message_of([&] { o.validate(); }), "start 4 ranks");
  o.batch = o.shards = 2, o.optimizer.ema = 0.9;
  expect_contains(message_of([&] { o.validate(); }), "ema 0.9");
  o.optimizer.ema = 0, o.wire = TrainerOptions::Wire::bf16;
  expect_contains(message_of([&] { o.validate(); }), "wire f32");
  o.wire = TrainerOptions::Wire::f32, o.preference = PreferenceOptions();
  expect_contains(message_of([&] { o.validate(); }), "preferences");
  RecipeOptions run;
  run.trainer = plain(2, 7), run.trainer.ranks = two[0].get();
  run.steps = 20;
  expect_contains(message_of([&] { check_options(run); }), "steps is 20, and ranks meet every 7 steps");
  run.steps = 21, run.eval_every = 8;
  expect_contains(message_of([&] { check_options(run); }), "eval-every is 8");
  expect_contains(message_of([&] { check_options(run); }), "use 14");
  run.eval_every = 7;
  check_options(run);
  run.trainer.local_steps = 1'000'001;
  expect_contains(message_of([&] { check_options(run); }), "local_steps is 1000001; use 0 to 1000000");
  run.trainer.local_steps = 7, run.epochs = 0.5;
  EXPECT_EQ(steps_of_epochs(run, 80, 10), 7);  // 4
  expect_contains(message_of([&] { steps_of_epochs(run, 60, 10); }), "are 3 steps, and ranks meet every 7");
  run.trainer.local_steps = 0, run.trainer.outer_lr = 0.5;
  expect_contains(message_of([&] { check_options(run); }), "outer-lr is 0.5");
  run.trainer.outer_lr = TrainerOptions().outer_lr, run.trainer.outer_momentum = 0.5;
  expect_contains(message_of([&] { check_options(run); }), "add --local-steps, or leave it out");
}

}  // namespace
}  // namespace toy::local_steps_test
