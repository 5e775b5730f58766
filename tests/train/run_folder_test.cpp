// What a run leaves in its folder, and what it leaves alone, without the program `toy`.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/runs/log.h"
#include "toy/train/fine_tune.h"
#include "toy/train/from_scratch.h"

namespace toy::run_folder_test {
namespace {

namespace fs = std::filesystem;
using testing::expect_contains;
using testing::message_of;
using testing::slurp;

// Sees a run as its log does, and may stop it.
struct Seen final : TrainObserver, runs::EventSink {
  explicit Seen(int64_t stop_behind = -1) : stops(stop_behind) {}
  void event(const runs::Event& e) override {
    if (e.as<runs::Step>()) at = *e.step;
    if (const auto* note = e.as<runs::Note>(); note && note->warning) warnings += note->text + "\n";
  }
  bool stop() override { return at == stops; }
  runs::EventSink* sink() override { return this; }
  void write(const runs::Event& e) override { lines += runs::to_json_line(e) + "\n"; }
  bool lost() override { return is_lost; }
  int64_t stops, at = 0;
  bool is_lost = false;
  std::string lines, warnings;
};

class RunInFolder : public ::testing::Test, protected testing::Folder {
 protected:
  RunInFolder() {
    write("size.json", R"({"d_model": 16, "n_layers": 1, "n_heads": 1, "n_kv": 1, "d_head": 16, "d_ff": 16})");
    write("text.txt", std::string(800, 'x'));
  }
  FromScratchOptions options(const std::string& out) const {
    FromScratchOptions o;
    o.size = path("size.json"), o.out = path(out), o.data.corpus = {path("text.txt")};
    o.trainer.batch = 1, o.trainer.tokens = 8, o.context = 64, o.steps = 4;
    o.record.config = {R"({"steps":4})"};
    return o;
  }
  TrainResult train(const FromScratchOptions& o, Seen& seen) const {
    return train_from_scratch(o, *make_test_device(1), seen);
  }
  TrainResult train(const FromScratchOptions& o) const {
    Seen seen;
    return train(o, seen);
  }
  std::string refusal(const FromScratchOptions& o) const {
    return message_of([&] { train(o); });
  }
};

TEST_F(RunInFolder, HasLogConfigAndGraph) {
  FromScratchOptions o = options("runs/{arch}-{recipe}-{seq}");
  o.tensorboard = path("board");
  Seen begin(2), rest;
  const TrainResult stopped = train(o, begin);
  EXPECT_EQ(stopped.out, path("runs/llama-from-scratch-001"));
  const std::string log = stopped.out + "/events.jsonl";
  EXPECT_EQ(slurp(log), begin.lines);
  o.out = stopped.out, o.resume = true;
  EXPECT_EQ(train(o, rest).reason, TrainResult::done);
  EXPECT_EQ(slurp(log), begin.lines + rest.lines);  // also their times: the clock goes on
  const runs::Log read = runs::read_events(log);
  ASSERT_TRUE(read.events.front().as<runs::RunStart>());
  EXPECT_EQ(read.events.front().as<runs::RunStart>()->run_id, "llama-from-scratch-001");
  EXPECT_EQ(
      std::count_if(read.events.begin(), read.events.end(), [](const auto& e) { return e.template as<runs::Step>(); }),
      4);
  EXPECT_TRUE(read.events.back().as<runs::RunEnd>());
  EXPECT_EQ(nlohmann::ordered_json::parse(slurp(stopped.out + "/config.json")).dump(), o.record.config.text);
  EXPECT_TRUE(nlohmann::ordered_json::parse(slurp(stopped.out + "/flow.json")).is_object());
  EXPECT_GE(entries("board"), 1u);  // a file for each process
  // A run without options to be known by has no config.json; whose observer is gone ends with 1.
  FromScratchOptions bare = options("runs/{arch}-{recipe}-{seq}");
  bare.record = {};
  Seen gone;
  gone.is_lost = true;
  const TrainResult second = train(bare, gone);
  EXPECT_EQ(second.out, path("runs/llama-from-scratch-002"));
  EXPECT_FALSE(fs::exists(second.out + "/config.json"));
  EXPECT_EQ(runs::read_events(second.out + "/events.jsonl").events.back().as<runs::RunEnd>()->exit_code, 1);
}

TEST_F(RunInFolder, LosesNothingOfOthers) {
  write("out/model.gguf", "mine");
  expect_contains(refusal(options("out")), "would be lost");
  EXPECT_EQ(slurp(path("out/model.gguf")), "mine");
  write("peft/peft/adapter_config.json", "mine");
  expect_contains(refusal(options("peft")), "would be lost");
  write("text/flow.json", std::string(800, 'x'));
  FromScratchOptions o = options("text");
  o.data.corpus = {path("text/flow.json")};
  expect_contains(refusal(o), "which --corpus reads");
  o = options("board");
  o.tensorboard = path("board/checkpoints/here");
  expect_contains(refusal(o), "tensorboard:");
  o = options("new{seq}");
  o.resume = true;
  expect_contains(refusal(o), "names a new folder each time");
  o.resume = false, o.size = path("missing.json");
  EXPECT_FALSE(refusal(o).empty());
  o = options("new{seq}");
  o.tensorboard = path("new001/model.gguf");
  expect_contains(refusal(o), "tensorboard:");
  o = options("new{seq}");
  o.data.corpus = {path("missing.txt")};
  EXPECT_FALSE(refusal(o).empty());
  EXPECT_FALSE(fs::exists(path("new001")));  // made, and taken away again
  for (const char* folder : {"board", "text", "peft", "out"})
    EXPECT_FALSE(fs::exists(path(folder) + "/events.jsonl")) << folder;
}

// A second run never takes the place of the first one's model, unless it is told to; `latest` is the newest of those
// that toy named.
TEST_F(RunInFolder, KeepsYesterdaysModel) {
  FromScratchOptions o = options("run");
  train(o);
  const std::string first = slurp(path("run/model.gguf"));
  o.seed = 5;
  expect_contains(refusal(o), "run/model.gguf' is of an earlier run and would be lost");
  EXPECT_EQ(slurp(path("run/model.gguf")), first);
  o.overwrite = true;
  train(o);
  EXPECT_NE(slurp(path("run/model.gguf")), first);
  const fs::path before = fs::current_path();
  fs::current_path(path());
  o = options("");
  o.out = RecipeOptions().out;
  const std::string one = train(o).out, two = train(o).out;
  EXPECT_NE(one, two);
  EXPECT_EQ(one.substr(0, 17), "out/from-scratch-");
  EXPECT_EQ(fs::read_symlink("out/latest"), fs::path(two).filename());
  // --resume without --out goes on there.
  Seen begin(2), rest;
  const std::string three = train(o, begin).out;
  o.resume = true;
  EXPECT_EQ(train(o, rest).out, three);
  EXPECT_EQ(rest.at, 4);
  fs::current_path(before);
}

TEST_F(RunInFolder, PutsABrokenLogAside) {
  FromScratchOptions o = options("run");
  Seen begin(2), rest;
  train(o, begin);
  write("run/events.jsonl", "no event\n");
  o.resume = true;
  train(o, rest);
  expect_contains(rest.warnings, "a new log begins");
  EXPECT_EQ(slurp(path("run/events.previous.jsonl")), "no event\n");
  EXPECT_TRUE(runs::read_events(path("run/events.jsonl")).events.front().as<runs::RunStart>());
}

TEST_F(RunInFolder, HasAnAdapterForPeft) {
  FineTuneOptions o;
  static_cast<RecipeOptions&>(o) = options("adapter");
  o.init = train(options("base")).model_path;
  o.lora = LoraOptions{.rank = 2};
  Seen seen;
  const TrainResult r = train_fine_tune(o, *make_test_device(1), seen);
  EXPECT_EQ(r.peft_path, path("adapter/peft"));
  EXPECT_TRUE(r.remarks.empty());
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
    EXPECT_TRUE(fs::exists(r.peft_path + "/" + file)) << file;
  // Again where it is complete.
  fs::remove_all(r.peft_path);
  o.resume = true;
  EXPECT_TRUE(train_fine_tune(o, *make_test_device(1), seen).was_complete);
  EXPECT_TRUE(fs::exists(r.peft_path + "/adapter_config.json"));
}

}  // namespace
}  // namespace toy::run_folder_test
