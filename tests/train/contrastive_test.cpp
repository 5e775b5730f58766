// Contrastive training: steps next to PyTorch's (tests/golden/make_contrastive_golden.py), runs, and what is refused.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/backend/devices.h"
#include "toy/hf/convert.h"
#include "toy/train/recipes.h"
#include "train/train_testing.h"

namespace toy::contrastive_test {
namespace {

using nlohmann::json;
using testing::Listener;

const std::string kFolder = std::string(TOY_SOURCE_DIR) + "/tests/golden/";

// Rows of texts, as ids; the same text has the same number.
Windows windows_of(const json& rows, int64_t tokens) {
  Windows w;
  std::vector<std::vector<int32_t>> known;
  for (size_t r = 0; r < rows.size(); ++r) {
    auto at = int64_t(r) * tokens;
    for (const json& text : rows[r]) {
      const auto ids = text.get<std::vector<int32_t>>();
      const auto it = std::find(known.begin(), known.end(), ids);
      w.answers.push_back({at, int64_t(ids.size()), true, it - known.begin()});
      if (it == known.end()) known.push_back(ids);
      w.inputs.insert(w.inputs.end(), ids.begin(), ids.end());
      for (size_t p = 0; p < ids.size(); ++p) w.sequence.push_back(int32_t(at)), w.position.push_back(int32_t(p));
      at += int64_t(ids.size());
    }
    for (; at < int64_t(r + 1) * tokens; ++at)
      w.inputs.push_back(0), w.sequence.push_back(int32_t(-1 - at)), w.position.push_back(0);
    w.targets.resize(r * size_t(tokens), -1);
    w.targets.push_back(0);
  }
  w.targets.resize(w.inputs.size(), -1);
  return w;
}

// PyTorch's own f32 differs from its f64 by the error in the file, and sums here have another order.
TEST(ContrastiveGolden, TenStepsNextToPyTorch) {
  const testing::Folder folder;
  const std::string gguf = folder.path("bert.gguf");
  hf::convert_folder(kFolder + "bert_tiny", gguf);
  std::ifstream file(kFolder + "contrastive.golden.json");
  const json golden = json::parse(file);
  constexpr int64_t kTokens = 32;
  for (const bool exact : {true, false})
    for (const json& c : golden.at("cases")) {
      const std::string pooling = c.at("pooling");
      SCOPED_TRACE(c.at("name").get<std::string>() + " " + pooling + (exact ? ", f64" : ", f32"));
      const auto device = exact ? make_reference_device() : make_device("cpu", {.threads = 2});
      Model model = load_model(gguf, *device, spec_from_gguf(gguf::File::open(gguf)));
      TrainerOptions o = testing::bare(4, kTokens);
      o.optimizer.momentum = 0;
      o.contrastive = {.temperature = golden.at("temperature"), .pooling = pooling_of(pooling)};
      Trainer trainer(*device, model, o);
      const Windows batch = windows_of(c.at("rows"), kTokens);
      for (size_t step = 0; step < c.at("loss").size(); ++step) {
        const StepResult r = trainer.step(batch, golden.at("lr"));
        EXPECT_NEAR(r.loss, c.at("loss")[step].get<double>(), 8 * c.at("loss_error").get<double>()) << step;
        EXPECT_NEAR(*r.grad_norm, c.at("norm")[step].get<double>(), 8 * c.at("norm_error").get<double>()) << step;
      }
    }
}

class Contrastive : public ::testing::Test {
 protected:
  void SetUp() override {
    hf::convert_folder(kFolder + "bert_tiny", model_);
    constexpr const char* kWords[] = {"the badger", "a otter", "swimming", "under the river", "old 1", "run runs",
                                      "c 2 3",      "x u",     "naïve",    "東 京",           "b c",   "a , !"};
    std::ofstream out(pairs_);
    for (size_t i = 0; i < std::size(kWords); ++i) {
      json row{{"anchor", kWords[i]}, {"positive", std::string("the ") + kWords[(i * 5 + 3) % std::size(kWords)]}};
      if (i % 3 == 0) row["negative"] = std::string("a ") + kWords[(i + 1) % std::size(kWords)];
      out << row.dump() << "\n";
    }
  }
  // `more` replaces options.
  Recipe recipe(const std::string& out, const json& more = json::object()) const {
    json options{{"model", model_},       {"data", pairs_}, {"out", folder_.path(out)}, {"batch", 4}, {"steps", 6},
                 {"checkpoint-every", 3}, {"lr", 0.001}};
    options.update(more);
    return parse_recipe("contrastive", options.dump());
  }
  testing::Folder folder_;
  std::string model_ = folder_.path("bert.gguf"), pairs_ = folder_.path("pairs.jsonl");
};

TEST_F(Contrastive, TheSameBytesForAnyThreadsAndAfterResume) {
  const auto one = make_device("cpu", {.threads = 1}), two = make_device("cpu", {.threads = 2});
  for (const bool adapter : {false, true}) {
    json more{{"val-fraction", 0.25}, {"dropout", 0.1}, {"accumulate", 2}, {"shards", 2}};
    if (adapter) more["adapter"] = true;
    const std::string a = adapter ? "adapter a" : "a", b = adapter ? "adapter b" : "b";
    Listener all, first(3), second;
    const TrainResult whole = recipe(a, more).train(*one, all);
    recipe(b, more).train(*two, first);
    more["resume"] = true;
    const TrainResult resumed = recipe(b, more).train(*two, second);
    EXPECT_EQ(second.resumed_at, 3);
    EXPECT_EQ(testing::slurp(whole.model_path), testing::slurp(resumed.model_path));
    first.append(second);
    EXPECT_EQ(all.losses, first.losses);
    ASSERT_TRUE(whole.eval && whole.eval->top1 && whole.eval->top5);
  }
}

// What was learned by heart is found.
TEST_F(Contrastive, LearnsPairs) {
  const auto device = make_device("cpu", {.threads = 2});
  Listener listener;
  const json more{{"val", pairs_}, {"batch", 12}, {"steps", 120}, {"checkpoint-every", 0}, {"lr", 0.01}};
  const TrainResult r = recipe("learned", more).train(*device, listener);
  ASSERT_TRUE(r.eval && r.eval->top1);
  EXPECT_EQ(*r.eval->top1, 1);
  EXPECT_LT(r.final_loss, 0.1 * listener.losses.front());
  const Model model = load_model(r.model_path, *device);
  EXPECT_EQ(embed_options(model).pooling, Pooling::mean);  // the file says what the first one said
  EXPECT_EQ(most_tokens_to_embed(model), 64);
}

// The validation is of all texts, whatever a batch has room for. A vector's sums may have another order, so that
// cosines differ by roundings.
TEST_F(Contrastive, ValidationDependsOnNoBatch) {
  const auto device = make_device("cpu", {.threads = 2});
  std::vector<double> losses;
  for (const int batch : {2, 5, 12}) {
    Listener listener;
    const json more{{"val", pairs_}, {"batch", batch}, {"steps", 1}, {"lr", 1e-30}};
    losses.push_back(recipe("v" + std::to_string(batch), more).train(*device, listener).eval->loss);
  }
  constexpr double kTolerance = 2 * 64 * 0x1p-24 / 0.05;  // of two cosines by the temperature
  EXPECT_NEAR(losses[0], losses[1], kTolerance);
  EXPECT_NEAR(losses[0], losses[2], kTolerance);
}

TEST_F(Contrastive, WhatCannotBeIsRefused) {
  const auto device = make_device("cpu", {.threads = 1});
  const auto message = [&](const json& more) {
    return testing::message_of([&] {
      Listener listener;
      recipe("refused", more).train(*device, listener);
    });
  };
  testing::expect_contains(message({{"batch", 1}}), "use 2 or more");
  testing::expect_contains(message({{"rank", 4}}), "--adapter");
  testing::expect_contains(message({{"tokens", 64}}), "unknown option 'tokens'");
  testing::expect_contains(message({{"temperature", 0}}), "temperature");
  testing::expect_contains(message({{"text-tokens", 81}}), "80 positions");
  testing::expect_contains(message({{"map", "anchor=title"}}), "pairs.jsonl:1: there is no field 'title'");
  std::ofstream(pairs_) << "{\"anchor\": \"a\", \"positive\": \"b\"}\n{\"anchor\": \"c\"}\n";
  testing::expect_contains(message(json::object()), "pairs.jsonl:2: there is no 'positive'");
  testing::expect_contains(message({{"bad-rows", "skip"}}), "1 pair to train on, and at least 2 are needed");
}

}  // namespace
}  // namespace toy::contrastive_test
