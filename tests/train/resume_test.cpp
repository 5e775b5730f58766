// A run that is stopped and resumed writes the bytes of one that never was, for every optimizer and number of threads.
#include "backend/cpu/simd_targets.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "testing/files.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/data/stories.h"
#include "toy/train/from_scratch.h"
#include "train_testing.h"

namespace toy {
namespace {

using testing::Listener;
using testing::slurp;

struct Case {
  std::string name;
  TrainerOptions trainer;
};

// Every optimizer there is, and what else has state between steps. A new optimizer is a line here.
std::vector<Case> cases() {
  using O = OptimizerOptions;
  const auto with = [](O optimizer) { return TrainerOptions{.optimizer = optimizer}; };
  std::vector<Case> list{
      {"sgd_plain", with({.kind = O::sgd, .momentum = 0})},
      {"sgd_momentum", with({.kind = O::sgd, .momentum = 0.9})},
      {"sgd_nesterov", with({.kind = O::sgd, .momentum = 0.9, .nesterov = true})},
  };
  for (const OptimizerInfo& info : optimizers()) list.push_back({std::string(info.name), with(O::of(info.kind))});
  Case average{"average", with({})};
  average.trainer.optimizer.ema = 0.9;
  list.push_back(average);
  Case accumulate{"accumulate", with({})}, dropout{"dropout", with({})}, streaming{"streaming", with({.clip = 0})};
  accumulate.trainer.accumulate = 3;
  dropout.trainer.dropout = 0.2;
  dropout.trainer.accumulate = 2;
  streaming.trainer.updates = TrainerOptions::streaming;
  for (const Case& c : {accumulate, dropout, streaming}) list.push_back(c);
  return list;
}

class Resume : public ::testing::Test, protected testing::Folder {
 protected:
  Resume() {
    write("text.txt", write_stories({.bytes = 2500}));
    // 16 x 256: AdamW keeps its moments in 8 bits.
    write("size.json", R"({"d_model": 16, "n_layers": 2, "n_heads": 2, "n_kv": 1, "d_head": 8, "d_ff": 256})");
  }

  // About 60 windows an epoch, of which 9 steps take 18 to 54: a run is stopped in the middle of one.
  FromScratchOptions options(const std::string& out, const TrainerOptions& trainer) const {
    FromScratchOptions o;
    o.data.corpus = {path("text.txt")};
    o.size = path("size.json");
    o.out = path(out);
    o.trainer = trainer;
    o.trainer.batch = 2;
    o.trainer.tokens = 32;
    o.steps = 9;
    o.warmup = 3;
    o.lr = 1e-2;
    o.seed = 7;
    o.data.validation_fraction = 0.2;
    o.eval_every = 3;
    o.eval_tokens = 40;
    o.sample_tokens = 6;
    o.resume = true;
    return o;
  }
};

TEST_F(Resume, EveryOptimizerAndThreads) {
  for (const Case& c : cases())
    for (const int threads : {1, 2, 3}) {
      const std::string what = c.name + "_" + std::to_string(threads);
      const auto device = make_cpu_device(threads);
      Listener whole;
      const TrainResult end = train_from_scratch(options("whole_" + what, c.trainer), *device, whole);
      Listener parts;
      TrainResult r;
      for (const int64_t stop : {1, 4, 6, -1}) {  // stopped three times
        Listener part(stop);
        r = train_from_scratch(options(what, c.trainer), *device, part);
        parts.append(part);
        EXPECT_EQ(r.model_path.empty(), stop > 0) << what;
        EXPECT_EQ(r.step, stop > 0 ? stop : 9) << what;
        EXPECT_EQ(part.resumed_at, stop == 1 ? -1 : stop == 4 ? 1 : stop == 6 ? 4 : 6) << what;
        EXPECT_EQ(part.checkpoints.size(), stop > 0 ? 1u : 0u) << what;
      }
      EXPECT_EQ(whole.evals.size(), 3u) << what;
      EXPECT_EQ(parts.losses, whole.losses) << what;
      EXPECT_EQ(parts.evals, whole.evals) << what;
      EXPECT_EQ(parts.samples, whole.samples) << what;
      EXPECT_EQ(r.final_loss, end.final_loss) << what;
      EXPECT_TRUE(slurp(r.model_path) == slurp(end.model_path)) << what;
    }
}

// Of a run that is over, the last checkpoint has everything that the result says.
TEST_F(Resume, AfterTheEnd) {
  const auto device = make_cpu_device(1);
  FromScratchOptions o = options("run", {});
  o.checkpoint_every = 9;
  Listener first, second;
  const TrainResult a = train_from_scratch(o, *device, first), b = train_from_scratch(o, *device, second);
  EXPECT_TRUE(second.losses.empty());
  EXPECT_EQ(b.final_loss, a.final_loss);
  EXPECT_EQ(b.step, 9);
  ASSERT_TRUE(a.eval && b.eval);
  EXPECT_EQ(b.eval->nats_per_byte, a.eval->nats_per_byte);
  EXPECT_EQ(b.checkpoint, a.checkpoint);
}

// The reference device keeps weights in f64: a checkpoint has them too.
TEST_F(Resume, OnTheReference) {
  const auto device = make_reference_device();
  Listener whole, begin(4), rest;
  const auto a = train_from_scratch(options("whole", {}), *device, whole);
  train_from_scratch(options("run", {}), *device, begin);
  const auto b = train_from_scratch(options("run", {}), *device, rest);
  begin.append(rest);
  EXPECT_EQ(begin.losses, whole.losses);
  EXPECT_TRUE(slurp(a.model_path) == slurp(b.model_path));
}

TEST_F(Resume, ComputeThatWasMeasuredIsKept) {
  const auto device = make_cpu_device(1);
  EXPECT_FALSE(checkpoint_compute(path("run")));
  FromScratchOptions o = options("run", {});
  if (device->has_products(DType::bf16)) o.trainer.compute = DType::bf16;
  Listener stopped(2);
  train_from_scratch(o, *device, stopped);
  EXPECT_EQ(checkpoint_compute(path("run")), o.trainer.compute);
}

// Another instruction set sums in another order.
TEST_F(Resume, OnAnotherInstructionSetIsRefusedUnlessTold) {
  const std::vector<int64_t> sets = hwy::SupportedAndGeneratedTargets();
  if (sets.size() < 2) GTEST_SKIP() << "this machine has one instruction set only";
  const auto only = [](int64_t set) {
    hwy::SetSupportedTargetsForTest(set);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  const auto device = make_cpu_device(1);
  Listener begin(4), rest;
  FromScratchOptions o = options("run", {});
  train_from_scratch(o, *device, begin);
  only(sets[1]);
  try {
    train_from_scratch(o, *device, rest);
    ADD_FAILURE() << "resumed with " << hwy::TargetName(sets[1]);
  } catch (const Error& e) {
    const std::string difference = fmt::format("instruction_set is \"{}\" there and \"{}\" here",
                                               hwy::TargetName(sets[0]), hwy::TargetName(sets[1]));
    EXPECT_NE(std::string(e.what()).find(difference), std::string::npos) << e.what();
  }
  o.allow_changes = true;
  EXPECT_EQ(train_from_scratch(o, *device, rest).step, 9);
  EXPECT_NE(rest.notes.find("instruction_set is "), std::string::npos) << rest.notes;
  only(0);
}

}  // namespace
}  // namespace toy
