// A run that is stopped and resumed writes the bytes of one that never was, for every optimizer and number of threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "toy/backend/devices.h"
#include "toy/data/stories.h"
#include "toy/train/from_scratch.h"

namespace toy {
namespace {

namespace fs = std::filesystem;

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

// Stops behind a step and keeps what it heard.
class Listener final : public TrainObserver {
 public:
  explicit Listener(int64_t stop_behind) : stop_behind_(stop_behind) {}
  void stepped(const Step& s) override { at_ = s.step, losses.push_back(s.loss); }
  void evaluated(const Eval& e) override { evals.push_back(e.nats_per_byte), samples += e.sample; }
  void resumed(int64_t step, const std::string&) override { resumed_at = step; }
  void checkpointed(const std::string& path, int64_t step) override { checkpoints.emplace_back(path, step); }
  bool stop() override { return at_ == stop_behind_; }

  std::vector<double> losses, evals;
  std::string samples;
  int64_t resumed_at = -1;
  std::vector<std::pair<std::string, int64_t>> checkpoints;

 private:
  int64_t stop_behind_, at_ = 0;
};

class Resume : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "toy_resume_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::ofstream(folder_ / "text.txt") << write_stories({.bytes = 2500});
    std::ofstream(folder_ / "size.json")
        << R"({"d_model": 16, "n_layers": 2, "n_heads": 2, "n_kv": 1, "d_head": 8, "d_ff": 256})";  // 16 x 256: AdamW
                                                                                                    // keeps its moments
                                                                                                    // in 8 bits
  }
  void TearDown() override { fs::remove_all(folder_); }

  // About 60 windows an epoch, of which 9 steps take 18 to 54: a run is stopped in the middle of one.
  FromScratchOptions options(const std::string& out, const TrainerOptions& trainer) const {
    FromScratchOptions o;
    o.data.corpus = {(folder_ / "text.txt").string()};
    o.size = (folder_ / "size.json").string();
    o.out = (folder_ / out).string();
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
  static std::string slurp(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder_;
};

TEST_F(Resume, EveryOptimizerAndThreads) {
  for (const Case& c : cases())
    for (const int threads : {1, 2, 3}) {
      const std::string what = c.name + "_" + std::to_string(threads);
      const auto device = make_cpu_device(threads);
      Listener whole(-1);
      const TrainResult end = train_from_scratch(options("whole_" + what, c.trainer), *device, whole);
      std::vector<double> losses, evals;
      std::string samples;
      TrainResult r;
      for (const int64_t stop : {1, 4, 6, -1}) {  // stopped three times
        Listener part(stop);
        r = train_from_scratch(options(what, c.trainer), *device, part);
        losses.insert(losses.end(), part.losses.begin(), part.losses.end());
        evals.insert(evals.end(), part.evals.begin(), part.evals.end());
        samples += part.samples;
        EXPECT_EQ(r.model_path.empty(), stop > 0) << what;
        EXPECT_EQ(r.step, stop > 0 ? stop : 9) << what;
        EXPECT_EQ(part.resumed_at, stop == 1 ? -1 : stop == 4 ? 1 : stop == 6 ? 4 : 6) << what;
        EXPECT_EQ(part.checkpoints.size(), stop > 0 ? 1u : 0u) << what;
      }
      EXPECT_EQ(whole.evals.size(), 3u) << what;
      EXPECT_EQ(losses, whole.losses) << what;
      EXPECT_EQ(evals, whole.evals) << what;
      EXPECT_EQ(samples, whole.samples) << what;
      EXPECT_EQ(r.final_loss, end.final_loss) << what;
      EXPECT_TRUE(slurp(r.model_path) == slurp(end.model_path)) << what;
    }
}

// Of a run that is over, the last checkpoint has everything that the result says.
TEST_F(Resume, AfterTheEnd) {
  const auto device = make_cpu_device(1);
  FromScratchOptions o = options("run", {});
  o.checkpoint_every = 9;
  Listener first(-1), second(-1);
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
  Listener whole(-1), begin(4), rest(-1);
  const auto a = train_from_scratch(options("whole", {}), *device, whole);
  train_from_scratch(options("run", {}), *device, begin);
  const auto b = train_from_scratch(options("run", {}), *device, rest);
  begin.losses.insert(begin.losses.end(), rest.losses.begin(), rest.losses.end());
  EXPECT_EQ(begin.losses, whole.losses);
  EXPECT_TRUE(slurp(a.model_path) == slurp(b.model_path));
}

TEST_F(Resume, ComputeThatWasMeasuredIsKept) {
  const auto device = make_cpu_device(1);
  EXPECT_FALSE(checkpoint_compute((folder_ / "run").string()));
  FromScratchOptions o = options("run", {});
  if (device->has_products(DType::bf16)) o.trainer.compute = DType::bf16;
  Listener stopped(2);
  train_from_scratch(o, *device, stopped);
  EXPECT_EQ(checkpoint_compute((folder_ / "run").string()), o.trainer.compute);
}

}  // namespace
}  // namespace toy
