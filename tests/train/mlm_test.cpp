// Masked language models: steps next to PyTorch's (tests/golden/make_mlm_golden.py), masks, runs and files.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/mask_model.h"
#include "toy/backend/devices.h"
#include "toy/data/masks.h"
#include "toy/decode/pooling.h"
#include "toy/formats/safetensors.h"
#include "toy/hf/convert.h"
#include "toy/train/recipes.h"
#include "train/train_testing.h"

namespace toy::mlm_test {
namespace {

using nlohmann::json;
using testing::Listener;

const std::string kFolder = std::string(TOY_SOURCE_DIR) + "/tests/golden/", kTiny = kFolder + "bert_mlm_tiny";
Windows windows_of(const json& golden, const char* targets) {
  Windows w;
  for (size_t row = 0; row < golden.at("inputs").size(); ++row)
    for (size_t i = 0; i < golden.at("inputs")[row].size(); ++i) {
      w.inputs.push_back(golden.at("inputs")[row][i]);
      w.targets.push_back(golden.at(targets)[row][i]);
    }
  return w;
}

TEST(MaskGolden, TenStepsNextToPyTorch) {
  std::ifstream file(kFolder + "mlm.golden.json");
  const json golden = json::parse(file);
  const int64_t tokens = golden.at("tokens");
  for (const bool exact : {true, false}) {
    SCOPED_TRACE(exact ? "f64" : "f32");
    const testing::Folder folder;
    const auto device = exact ? make_reference_device() : make_device("cpu", {.threads = 2});
    Model model = testing::mask_model(*device, folder);
    TrainerOptions o = testing::bare(4, tokens);
    o.optimizer.momentum = 0;
    Trainer trainer(*device, model, o);
    const auto nll = golden.at("nll").get<std::vector<double>>();
    const std::vector<float> got = trainer.nlls(0, windows_of(golden, "words"), "test");
    for (size_t i = 0; i < nll.size(); ++i)
      EXPECT_NEAR(got[i], nll[i], 8 * golden.at("nll_error").get<double>() + nll[i] * 0x1p-23) << i;
    const Windows batch = windows_of(golden, "targets");
    for (size_t step = 0; step < golden.at("loss").size(); ++step) {
      const StepResult r = trainer.step(batch, golden.at("lr"));
      EXPECT_NEAR(r.loss, golden.at("loss")[step].get<double>(), 8 * golden.at("loss_error").get<double>()) << step;
      EXPECT_NEAR(*r.grad_norm, golden.at("norm")[step].get<double>(), 8 * golden.at("norm_error").get<double>())
          << step;
    }
  }
}

// A folder has the same tensors as the one that the golden model came from.
TEST(MaskGolden, FoldersAreBertForMaskedLM) {
  const testing::Folder folder;
  const auto device = make_device("cpu", {.threads = 1});
  save_model(testing::mask_model(*device, folder), folder.path("mlm.gguf"));
  hf::convert_gguf(gguf::File::open(folder.path("mlm.gguf")), folder.path("hf"));
  const json config = json::parse(std::ifstream(folder.path("hf") + "/config.json"));
  EXPECT_EQ(config.at("architectures")[0], "BertForMaskedLM");
  EXPECT_EQ(config.at("tie_word_embeddings"), true);
  const safetensors::File before = safetensors::File::open(kTiny + "/model.safetensors"),
                          after = safetensors::File::open(folder.path("hf") + "/model.safetensors");
  EXPECT_EQ(after.tensors().size(), before.tensors().size());
  for (const auto& [name, view] : before.tensors()) {
    const View& now = after.tensors().at(name);
    ASSERT_EQ(now.shape, view.shape) << name;
    EXPECT_EQ(std::memcmp(now.data, view.data, bytes_of(view.dtype, view.shape)), 0) << name;
  }
}

TEST(Masks, FollowFromSeedAndRow) {
  const MaskTokens marks{.mask = 4, .first = 2, .last = 3, .vocab = 1000};
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 400; ++i) ids.push_back(100 + i);
  int64_t masked = 0, random = 0, kept = 0;
  for (int64_t row = 0; row < 50; ++row) {
    Windows w, again, other;
    append_masked(ids, marks, {.fraction = 0.15}, 7, row, 410, w);
    append_masked(ids, marks, {.fraction = 0.15}, 7, row, 410, again);
    append_masked(ids, marks, {.fraction = 0.15}, 7, row + 1, 410, other);
    EXPECT_EQ(w.inputs, again.inputs);
    EXPECT_NE(w.targets, other.targets);
    EXPECT_EQ(w.inputs.front(), 2);
    EXPECT_EQ(w.inputs[401], 3);
    int64_t hidden = 0;
    for (size_t i = 0; i < w.inputs.size(); ++i) {
      if (w.targets[i] < 0) {
        if (i >= 1 && i <= 400) {
          EXPECT_EQ(w.inputs[i], ids[i - 1]);
        }
        continue;
      }
      ++hidden;
      EXPECT_EQ(w.targets[i], ids[i - 1]);
      masked += w.inputs[i] == 4, kept += w.inputs[i] == w.targets[i];
      random += w.inputs[i] != 4 && w.inputs[i] != w.targets[i];
    }
    EXPECT_EQ(hidden, 60);
    EXPECT_EQ(w.sequence[405], -1 - 405);
  }
  EXPECT_NEAR(double(masked) / 3000, 0.8, 0.03);
  EXPECT_NEAR(double(random) / 3000, 0.1, 0.02);
  EXPECT_NEAR(double(kept) / 3000, 0.1, 0.02);
  Windows one;  // at least one is hidden
  append_masked(std::vector<int32_t>{9}, marks, {.fraction = 0.15}, 7, 0, 4, one);
  EXPECT_EQ(one.targets[1], 9);
}

class MaskedModels : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream out(text_);
    constexpr const char* kPlaces[] = {"river", "wood", "meadow", "village", "mountain"};
    for (int i = 0; i < 300; ++i)
      out << "the " << (i % 3 == 0 ? "badger runs" : "otter swims") << " to the " << kPlaces[i % 5] << "\n";
    std::ofstream(size_) << R"({"architecture": "bert", "d_model": 24, "n_layers": 2, "n_heads": 2, "d_ff": 48,)"
                         << R"("context": 64})";
  }
  Recipe recipe(const std::string& out, const json& more = json::object()) const {
    json options{{"corpus", text_},    {"out", folder_.path(out)},
                 {"objective", "mlm"}, {"size", size_},
                 {"batch", 4},         {"steps", 6},
                 {"tokens", 24},       {"tokenizer", "bpe:300"},
                 {"lr", 0.003},        {"checkpoint-every", 3}};
    options.update(more);
    return parse_recipe("from-scratch", options.dump());
  }
  testing::Folder folder_;
  std::string text_ = folder_.path("text.txt"), size_ = folder_.path("size.json");
};

TEST_F(MaskedModels, TheSameBytesForAnyThreadsAndAfterResume) {
  const auto one = make_device("cpu", {.threads = 1}), two = make_device("cpu", {.threads = 2});
  json more{{"dropout", 0.1}, {"accumulate", 2}, {"shards", 2}, {"eval-every", 2}};
  Listener all, first(3), second;
  const TrainResult whole = recipe("a", more).train(*one, all);
  recipe("b", more).train(*two, first);
  more["resume"] = true;
  const TrainResult resumed = recipe("b", more).train(*two, second);
  EXPECT_EQ(second.resumed_at, 3);
  EXPECT_EQ(testing::slurp(whole.model_path), testing::slurp(resumed.model_path));
  first.append(second);
  EXPECT_EQ(all.losses, first.losses);
  EXPECT_EQ(all.evals, first.evals);
}

// Learned masks, then classes: what fills in masks is left out.
TEST_F(MaskedModels, LearnAndBeginClassifiers) {
  const auto device = make_device("cpu", {.threads = 2});
  Listener listener, further, classes;
  const TrainResult r = recipe("mlm", {{"steps", 150}, {"batch", 16}, {"lr", 0.01}}).train(*device, listener);
  EXPECT_LT(r.eval->loss, 0.5 * listener.losses.front());
  const Model made = load_model(r.model_path, *device);
  EXPECT_TRUE(made.spec.mask_head);
  EXPECT_EQ(embed_options(made).pooling, Pooling::mean);
  const json next{{"init", r.model_path}, {"corpus", text_}, {"out", folder_.path("further")},
                  {"steps", 1},           {"tokens", 24},    {"lr", 1e-30}};
  const TrainResult same = parse_recipe("warm-start", next.dump()).train(*device, further);
  EXPECT_NEAR(same.eval->loss, r.eval->loss, 1e-4);
  const std::string data =
      folder_.write("classes.jsonl",
                    "{\"text\": \"the badger runs\", \"label\": \"b\"}\n{\"text\": \"the otter\", \"label\": \"o\"}\n");
  const json of_classes{
      {"model", r.model_path}, {"data", data}, {"val", data}, {"out", folder_.path("classes")}, {"batch", 2},
      {"steps", 20},           {"lr", 0.01}};
  const TrainResult c = parse_recipe("classify", of_classes.dump()).train(*device, classes);
  EXPECT_EQ(*c.eval->top1, 1);
  EXPECT_FALSE(load_model(c.model_path, *device).spec.mask_head);
}

TEST_F(MaskedModels, WhatCannotBeIsRefused) {
  const auto device = make_device("cpu", {.threads = 1});
  const auto message = [&](const json& more) {
    return testing::message_of([&] {
      Listener listener;
      recipe("refused", more).train(*device, listener);
    });
  };
  testing::expect_contains(message({{"size", "tiny"}}), "use an encoder with --objective mlm");
  testing::expect_contains(message({{"objective", "next"}}), "add --objective mlm");
  testing::expect_contains(message({{"pack", true}, {"documents", "blank-lines"}}),
                           "learns from running texts; use --corpus");
  testing::expect_contains(message({{"sample", 8}}), "an encoder writes no texts");
  testing::expect_contains(message({{"mask-fraction", 0}}), "mask-fraction");
}

}  // namespace
}  // namespace toy::mlm_test
