// A run that is stopped and resumed writes the bytes of one that never was, for every optimizer and number of threads.
#include "backend/cpu/simd_targets.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "backend/forwarding_device.h"
#include "ranks_testing.h"
#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/formats/checkpoint.h"
#include "toy/synth/stories.h"
#include "toy/train/from_scratch.h"
#include "train_testing.h"

namespace toy::resume_test {
namespace {

using testing::expect_contains;

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
  for (const auto& [name, kind] : NamesOf<O::Kind>::list) list.push_back({name, with(O::of(kind))});
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

// A device that is gone after some runs of a program, as one whose driver has lost it.
class LosingDevice : public ForwardingDevice {
 public:
  LosingDevice(Device& to, int runs) : ForwardingDevice(to), runs_(runs) {}
  void run(Program& program, std::span<double> seconds = {}) override {
    if (runs_-- == 0) fail_internal("device '{}': it is gone", name());
    ForwardingDevice::run(program, seconds);
  }

 private:
  int runs_;
};

TEST_F(Resume, ADeviceThatIsLostLeavesSomethingToGoOnFrom) {
  const auto device = make_test_device(1);
  FromScratchOptions o = options("lost", {});
  o.checkpoint_every = 2;
  Listener whole, lost, rest;
  FromScratchOptions undisturbed = o;
  undisturbed.out = path("undisturbed");
  train_from_scratch(undisturbed, *device, whole);
  const std::string message = testing::error_of([&] {
    LosingDevice losing(*device, 12);  // during some step, or validation after one
    train_from_scratch(o, losing, lost);
  });
  expect_contains(message, "it is gone");
  expect_contains(message, "is complete: --resume continues from it");
  o.resume = true;
  train_from_scratch(o, *device, rest);
  EXPECT_EQ(slurp(path("lost/model.gguf")), slurp(path("undisturbed/model.gguf")));
}

TEST_F(Resume, EveryOptimizerAndThreads) {
  for (const Case& c : cases())
    for (const int threads : {1, 2, 3}) {
      const std::string what = c.name + "_" + std::to_string(threads);
      const auto device = make_test_device(threads);
      Listener whole;
      const TrainResult end = train_from_scratch(options("whole_" + what, c.trainer), *device, whole);
      Listener parts;
      TrainResult r;
      int64_t before = -1;
      for (const int64_t stop : {1, 4, 6, 9, -1}) {  // stopped four times, in validations too: the last one at step 9
        Listener part(stop);
        r = train_from_scratch(options(what, c.trainer), *device, part);
        parts.append(part);
        EXPECT_EQ(r.model_path.empty(), stop > 0) << what;
        EXPECT_EQ(r.step, stop > 0 ? stop : 9) << what;
        EXPECT_EQ(part.resumed_at, before) << what;
        before = stop;
        EXPECT_EQ(part.checkpoints.size(), stop > 0 ? 1u : 0u) << what;
      }
      EXPECT_EQ(whole.evals.size(), 4u) << what;  // behind the last step of the part, and of the whole text
      EXPECT_EQ(parts.losses, whole.losses) << what;
      EXPECT_EQ(parts.evals, whole.evals) << what;
      EXPECT_EQ(parts.samples, whole.samples) << what;
      EXPECT_EQ(r.final_loss, end.final_loss) << what;
      EXPECT_TRUE(slurp(r.model_path) == slurp(end.model_path)) << what;
    }
}

// Stopped within the validation that ends the run, by patience or at the last step: the end is the same, and so is the
// best checkpoint.
TEST_F(Resume, InTheValidationThatEndsTheRun) {
  const auto device = make_test_device(1);
  for (const bool patience : {true, false}) {
    const auto run = [&](const std::string& name, int64_t stop) {
      FromScratchOptions o = options(name + std::to_string(patience), {});
      o.checkpoint_every = 3;
      o.keep = 5;
      if (patience) o.patience = 1, o.min_delta = 100;  // the second validation is no better
      Listener heard(stop);
      return std::pair(train_from_scratch(o, *device, heard), heard.evals);
    };
    const int64_t last = patience ? 6 : 9;
    const auto [whole, evals] = run("whole", -1);
    EXPECT_EQ(whole.step, last);
    EXPECT_EQ(whole.reason, patience ? TrainResult::patience : TrainResult::done);
    EXPECT_EQ(run("run", last).first.reason, TrainResult::stopped);
    const auto [rest, later] = run("run", -1);
    EXPECT_EQ(rest.step, last);
    EXPECT_EQ(rest.reason, whole.reason);
    EXPECT_EQ(later, std::vector(evals.end() - 2, evals.end()));  // of the part, and of the whole
    EXPECT_TRUE(slurp(rest.model_path) == slurp(whole.model_path));
    const auto best = [&](const char* name) {
      return std::filesystem::read_symlink(path(name + std::to_string(patience)) + "/checkpoints/best").string();
    };
    EXPECT_EQ(best("run"), best("whole"));
  }
}

// Ranks that train apart have weights of their own inside a round, which other rounds or ranks cannot take over.
TEST_F(Resume, ARoundOfLocalStepsIsCompletedByTheSameRanks) {
  const auto device = make_cpu_device(1);
  const auto run = [&](int64_t local_steps, bool ranks, int64_t stop) {
    testing::Job job(2);
    TrainerOptions t{.shards = 2, .ranks = ranks ? &job.first() : nullptr, .local_steps = local_steps};
    FromScratchOptions o = options("apart", t);
    o.allow_changes = stop < 0;
    Listener heard(stop);
    return testing::error_of([&] { train_from_scratch(o, *device, heard); });
  };
  EXPECT_EQ(run(3, true, 4), "no error");
  expect_contains(run(1, true, -1), "step_000004 is inside a round of --local-steps 3 in 2 ranks");
  expect_contains(run(0, false, -1), "to a step that is a multiple of 3 (--steps)");
  EXPECT_EQ(run(3, true, 6), "no error");
  EXPECT_EQ(run(1, true, -1), "no error");
}

// Of a run that is over, the last checkpoint has everything that the result says.
// Every validation says how far it is, batch by batch, and what is left of the run never falls below what it takes.
TEST_F(Resume, ValidationsTellTheirProgress) {
  struct Batches final : TrainObserver {
    void validating(int64_t done, int64_t batches) override {
      if (done == 0) begins.push_back(batches);
      EXPECT_EQ(done, done == 0 ? 0 : last + 1);
      EXPECT_LT(done, batches);
      last = done;
    }
    void event(const runs::Event& e) override {
      if (e.as<runs::Eval>()) {
        EXPECT_EQ(last + 1, begins.back());
      }
      if (const auto* s = e.as<runs::Step>()) {
        EXPECT_GT(s->seconds_left.value(), 0) << *e.step;
      }
    }
    std::vector<int64_t> begins;
    int64_t last = 0;
  } observer;
  TrainerOptions average;
  average.optimizer.ema = 0.9;
  train_from_scratch(options("run", average), *make_test_device(1), observer);
  ASSERT_EQ(observer.begins.size(), 4u);  // three of 40 tokens, one of all
  EXPECT_EQ(observer.begins[0], 2);       // 40 tokens in two windows of 32 at stride 8, a batch; for two models
  EXPECT_GT(observer.begins[3], 4 * observer.begins[0]);
}

// All that a run tells, and an error at one of its steps.
struct Events final : TrainObserver {
  void event(const runs::Event& e) override {
    list.push_back(e);
    if (e.as<runs::Step>() && e.step == fails_at) fail("the disk is full");
  }
  bool stop() override { return list.back().step == stops_at; }
  std::string kinds() const {
    std::string s;
    for (const runs::Event& e : list)
      if (!e.as<runs::Note>()) s += std::string(e.kind()) + " ";
    return s;
  }
  std::vector<runs::Event> list;
  std::optional<int64_t> stops_at, fails_at;
};

TEST_F(Resume, TellsItsEventsInOrder) {
  const auto device = make_test_device(1);
  FromScratchOptions o = options("run", {});
  o.eval_every = 0, o.checkpoint_every = 0, o.sample_tokens = 0, o.steps = 3;
  Events begin, rest;
  begin.stops_at = 1;
  train_from_scratch(o, *device, begin);
  EXPECT_EQ(begin.kinds(), "run_start step checkpoint run_end ");
  EXPECT_EQ(begin.list.back().as<runs::RunEnd>()->reason, "stopped");
  o.resume = true;
  train_from_scratch(o, *device, rest);
  EXPECT_EQ(rest.kinds(), "run_start resume step step region_enter region_exit eval region_enter region_exit run_end ");
  const auto at = [&](size_t i) -> const runs::Event& {
    for (const runs::Event& e : rest.list)
      if (!e.as<runs::Note>() && i-- == 0) return e;
    return rest.list.back();
  };
  EXPECT_EQ(at(0).step, std::nullopt);  // the run begins, wherever this process is in it
  EXPECT_EQ(at(0).as<runs::RunStart>()->recipe, "from-scratch");
  EXPECT_EQ(at(1).step, 1);
  EXPECT_EQ(at(1).as<runs::Resume>()->from, path("run/checkpoints/step_000001"));
  EXPECT_EQ(at(2).step, 2);
  const char* phases[] = {"prepare", "prepare", "train", "train", "eval", "eval", "eval", "end", "end", "end"};
  for (size_t i = 0; i < std::size(phases); ++i) EXPECT_EQ(at(i).phase, phases[i]) << i;
}

TEST_F(Resume, AFailedRunTellsItsError) {
  FromScratchOptions o = options("run", {});
  Events events;
  events.fails_at = 2;
  EXPECT_THROW(train_from_scratch(o, *make_test_device(1), events), Error);
  const auto* end = events.list.back().as<runs::RunEnd>();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->reason, "error");
  EXPECT_EQ(end->exit_code, 2);
  EXPECT_EQ(end->error, "the disk is full");
  EXPECT_EQ(events.list.back().step, 2);
}

TEST_F(Resume, AfterTheEnd) {
  const auto device = make_test_device(1);
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

// Checksums vouch for the bytes, not for what they say: values that cannot be are refused by name.
TEST_F(Resume, MalformedCheckpoints) {
  namespace fs = std::filesystem;
  const auto device = make_test_device(1);
  FromScratchOptions o = options("run", {});
  Listener stopped(4);
  train_from_scratch(o, *device, stopped);
  const std::string root = path("run/checkpoints"), aside = path("aside");
  fs::rename(checkpoint_path(root, 4), aside);
  const auto refused = [&](const std::string& file, const std::string& from, const std::string& to, bool allow) {
    fs::remove_all(root);
    CheckpointWriter writer(root, 4);
    for (const char* name : {"config.json", "state.json", "state.safetensors", "weights.gguf"}) {
      std::string bytes = slurp(aside + "/" + name);
      if (name == file) {
        const size_t at = bytes.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        bytes = at == 0 ? to : bytes.replace(at, from.size(), to);
      }
      std::ofstream(writer.path(name), std::ios::binary) << bytes;
    }
    writer.commit();
    o.allow_changes = allow;
    Listener listener;
    try {
      train_from_scratch(o, *device, listener);
      return std::string("resumed");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input) << e.what();
      EXPECT_EQ(std::string(e.what()).find("json.exception"), std::string::npos) << e.what();
      return std::string(e.what());
    }
  };
  struct {
    std::string file, from, to, said;
  } cases[] = {
      {"state.json", "\"step\": 4", "\"step\": 1e19", "'step' is 1e+19"},
      {"state.json", "\"step\": 4", "\"step\": -1", "'step' is -1"},
      {"state.json", "\"step\": 4", "\"step\": \"4\"", "'step' is \"4\""},
      {"state.json", "\"step\": 4", "\"steps\": 4", "'step' is missing"},
      {"state.json", "\"step\": 4", "\"step\": 2", "4 updates in 2 steps"},
      {"state.json", "\"windows\": 8", "\"windows\": 9223372036854775807", "'windows' is 9223372036854775807"},
      {"state.json", "\"loss\": ", "\"loss\": [1], \"was\": ", "'loss' is [1]"},
      {"state.json", "\"best\": ", "\"best\": 3, \"was\": ", "'best' is 3"},
      {"state.json", "\"whole\": false", "\"whole\": 0", "'whole' is 0"},
      {"state.json", "{", "[]", "expected an object"},
      {"config.json", "{", "[1]", "expected an object"},
      {"config.json", "\"options\": ", "\"options\": 3, \"was\": ", "'options' is 3, expected an object"},
      {"config.json", "\"kind\": \"adamw\"", "\"kind\": 7", "'kind' is 7"},
      {"config.json", "\"optimizer\": ", "\"optimizer\": null, \"was\": ", "'optimizer' is null"},
  };
  for (const auto& c : cases)
    for (const bool allow : {false, true}) {
      const std::string said = refused(c.file, c.from, c.to, allow);
      EXPECT_NE(said.find(c.said), std::string::npos) << said;
      EXPECT_NE(said.find(c.file), std::string::npos) << said;
    }
  EXPECT_EQ(refused("state.json", "\"step\": 4", "\"step\": 4.0", false), "resumed");
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
  const auto device = make_test_device(1);
  FromScratchOptions o = options("run", {});
  o.auto_compute = true;
  Listener stopped(2), rest;
  train_from_scratch(o, *device, stopped);
  expect_contains(stopped.notes, "compute: ");
  EXPECT_EQ(train_from_scratch(o, *device, rest).step, 9);
  EXPECT_EQ(rest.notes.find("compute: "), std::string::npos);
}

// The kernels use one instruction set of those that the machine has; all of them again at the end.
class InstructionSet {
 public:
  explicit InstructionSet(int64_t only) { choose(only); }
  ~InstructionSet() { choose(0); }

 private:
  static void choose(int64_t set) {
    hwy::SetSupportedTargetsForTest(set);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

// Vectors of another width give the same bits; products and sums that are rounded apart do not.
TEST_F(Resume, OnAProcessorThatRoundsOtherwiseIsRefusedUnlessTold) {
  const std::vector<int64_t> sets = hwy::SupportedAndGeneratedTargets();
  const auto has = [&](int64_t set) { return std::find(sets.begin(), sets.end(), set) != sets.end(); };
  if (!has(HWY_AVX2) || !has(HWY_SSSE3)) GTEST_SKIP() << "this machine has no AVX2";
  const auto device = make_test_device(1);
  if (!device->host_visible()) GTEST_SKIP() << "kernels of GPUs round alike on every processor";
  FromScratchOptions o = options("run", {});
  Listener whole, begin(4), rest;
  const std::string bytes = slurp(train_from_scratch(options("whole", {}), *device, whole).model_path);
  train_from_scratch(o, *device, begin);
  {
    const InstructionSet baseline(HWY_SSSE3);
    Listener refused;
    try {
      train_from_scratch(o, *device, refused);
      ADD_FAILURE() << "resumed without fma";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("arithmetic is \"fma\" there and \"no fma\" here"), std::string::npos)
          << e.what();
    }
    FromScratchOptions told = options("told", {});
    std::filesystem::copy(o.out, told.out, std::filesystem::copy_options::recursive);
    told.allow_changes = true;
    EXPECT_TRUE(slurp(train_from_scratch(told, *device, refused).model_path) != bytes);
    EXPECT_NE(refused.notes.find("arithmetic is "), std::string::npos) << refused.notes;
  }
  const InstructionSet narrow(HWY_AVX2);
  EXPECT_TRUE(slurp(train_from_scratch(o, *device, rest).model_path) == bytes);
}

}  // namespace
}  // namespace toy::resume_test
