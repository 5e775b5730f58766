// Classifiers of texts: logits and steps next to PyTorch's (tests/golden/make_classify_golden.py), files, runs, and
// what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/backend/devices.h"
#include "toy/decode/ranker.h"
#include "toy/decode/text_classifier.h"
#include "toy/hf/convert.h"
#include "toy/models/adapter.h"
#include "toy/train/recipes.h"
#include "train/train_testing.h"

namespace toy::text_classes_test {
namespace {

using nlohmann::json;
using testing::Listener;
using Names = std::vector<std::string>;

const std::string kFolder = std::string(TOY_SOURCE_DIR) + "/tests/golden/";

json golden() {
  std::ifstream file(kFolder + "classify.golden.json");
  return json::parse(file);
}

// Each text a row; the share of its class as PyTorch's label_smoothing has it.
Windows windows_of(const json& rows, int64_t tokens, int64_t classes, double smoothing) {
  Windows w;
  for (const json& row : rows) {
    const auto ids = row.at("ids").get<std::vector<int32_t>>();
    const auto first = int64_t(w.inputs.size());
    w.answers.push_back({first, int64_t(ids.size())});
    w.inputs.insert(w.inputs.end(), ids.begin(), ids.end());
    w.inputs.resize(size_t(first + tokens), 0);
    for (int64_t p = 0; p < tokens; ++p) {
      const bool is_text = p < int64_t(ids.size());
      w.sequence.push_back(is_text ? int32_t(first) : int32_t(-1 - first - p));
      w.position.push_back(is_text ? int32_t(p) : 0);
    }
    w.targets.push_back(row.at("label"));
    w.targets.resize(w.inputs.size(), -1);
    for (int64_t k = 0; k < classes; ++k)
      w.shares.push_back(float(smoothing / double(classes) + (k == row.at("label") ? 1 - smoothing : 0)));
  }
  return w;
}

class ClassifyGolden : public ::testing::Test {
 protected:
  void SetUp() override { hf::convert_folder(kFolder + "bert_class_tiny", gguf_); }
  static std::vector<std::vector<int32_t>> ids() {
    std::vector<std::vector<int32_t>> all;
    const json texts = golden().at("texts");
    for (const json& t : texts) all.push_back(t.at("ids"));
    return all;
  }
  testing::Folder folder_;
  const std::string gguf_ = folder_.path("class.gguf");
};

TEST_F(ClassifyGolden, LogitsAreThoseOfTransformers) {
  const json texts = golden().at("texts");
  double bound = 0;  // f32's error of a single text may be small by luck
  for (const json& t : texts) bound = std::max(bound, 8 * t.at("error").get<double>());
  for (const bool reference : {true, false}) {
    const auto device = reference ? make_reference_device() : make_device("cpu", {.threads = 2});
    const Model model = load_model(gguf_, *device);
    EXPECT_EQ(model.spec.score.names, golden().at("labels").get<Names>());
    const std::vector<float> got = Scorer(*device, model, {.exact = true}).scores(ids());
    size_t at = 0;
    for (const json& t : texts) {
      EXPECT_EQ(encode_for_embedding(*model.tokenizer, t.at("text").get<std::string>(), 80), t.at("ids"));
      for (const double want : t.at("logits").get<std::vector<double>>())
        EXPECT_NEAR(got[at++], want, bound + std::abs(want) * 0x1p-23) << t.at("text");
    }
    EXPECT_EQ(at, got.size());
  }
}

TEST_F(ClassifyGolden, TenStepsNextToPyTorch) {
  const json all = golden();
  constexpr int64_t kTokens = 48;
  for (const bool exact : {true, false})
    for (const json& c : all.at("cases")) {
      const double smoothing = c.at("smoothing");
      SCOPED_TRACE(std::to_string(smoothing) + (exact ? ", f64" : ", f32"));
      const auto device = exact ? make_reference_device() : make_device("cpu", {.threads = 2});
      Model model = load_model(gguf_, *device, spec_from_gguf(gguf::File::open(gguf_)));
      TrainerOptions o = testing::bare(4, kTokens);
      o.optimizer.momentum = 0;
      o.classes = Pooling::first;
      Trainer trainer(*device, model, o);
      const Windows batch = windows_of(all.at("rows"), kTokens, 3, smoothing);
      for (size_t step = 0; step < c.at("loss").size(); ++step) {
        const StepResult r = trainer.step(batch, all.at("lr"));
        EXPECT_NEAR(r.loss, c.at("loss")[step].get<double>(), 8 * c.at("loss_error").get<double>()) << step;
        EXPECT_NEAR(*r.grad_norm, c.at("norm")[step].get<double>(), 8 * c.at("norm_error").get<double>()) << step;
      }
    }
}

TEST_F(ClassifyGolden, SurvivesGgufAndFolder) {
  const auto device = make_device("cpu", {.threads = 2});
  const Model model = load_model(gguf_, *device);
  const std::vector<float> scores = Scorer(*device, model).scores(ids());
  save_model(model, folder_.path("saved.gguf"));
  const gguf::File saved = gguf::File::open(folder_.path("saved.gguf"));
  EXPECT_EQ(saved.get_strings("bert.classifier.output_labels"), golden().at("labels").get<Names>());
  EXPECT_EQ(saved.get_u32("bert.pooling_type"), 4u);  // llama.cpp's "rank"
  hf::convert_gguf(saved, folder_.path("hf"));
  const json config = json::parse(std::ifstream(folder_.path("hf") + "/config.json"));
  EXPECT_EQ(config.at("architectures")[0], "BertForSequenceClassification");
  EXPECT_EQ(config.at("id2label").at("1"), "so so");
  EXPECT_EQ(config.at("label2id").at("good"), 2);
  hf::convert_folder(folder_.path("hf"), folder_.path("again.gguf"));
  const Model again = load_model(folder_.path("again.gguf"), *device);
  EXPECT_EQ(Scorer(*device, again).scores(ids()), scores);
  std::vector<std::vector<int32_t>> many;
  for (int i = 0; i < 20; ++i)
    for (const auto& text : ids()) many.push_back(text);
  for (const int64_t rows : {1, 2000}) {  // the same bits alone and among others
    const std::vector<float> all = Scorer(*device, model, {.rows = rows}).scores(many);
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], scores[i % scores.size()]);
  }
}

TEST_F(ClassifyGolden, TellsClasses) {
  const auto device = make_device("cpu", {.threads = 1});
  const Model model = load_model(gguf_, *device);
  const json text = golden().at("texts")[0];
  const auto classes = classify_texts(*device, model, {text.at("text"), "otters"});
  ASSERT_EQ(classes.size(), 2u);
  const auto logits = text.at("logits").get<std::vector<double>>();
  const auto best = size_t(std::ranges::max_element(logits) - logits.begin());
  EXPECT_EQ(classes[0][0].name, golden().at("labels")[best]);
  double sum = 0;
  for (const TextClass& c : classes[0]) sum += c.probability;
  EXPECT_NEAR(sum, 1, 1e-12);
  testing::expect_contains(testing::message_of([&] { embed_options(model); }), "it classifies texts");
  testing::expect_contains(testing::message_of([&] { Ranker(*device, model); }), "does not rank");
  hf::convert_folder(kFolder + "bert_rank_tiny", folder_.path("rank.gguf"));
  const Model ranker = load_model(folder_.path("rank.gguf"), *device);
  testing::expect_contains(testing::message_of([&] { classify_texts(*device, ranker, {"a"}); }), "it ranks them");
}

TEST_F(ClassifyGolden, FoldersThatAreRefused) {
  const std::string copy = folder_.path("copy");
  std::filesystem::copy(kFolder + "bert_class_tiny", copy);
  const json config = json::parse(std::ifstream(copy + "/config.json"));
  const auto message = [&](const char* key, const json& value) {
    json changed = config;
    changed[key] = value;
    std::ofstream(copy + "/config.json") << changed.dump();
    return testing::message_of([&] { hf::convert_folder(copy, folder_.path("x.gguf")); });
  };
  testing::expect_contains(message("problem_type", "multi_label_classification"), "exactly one class");
  testing::expect_contains(message("id2label", {{"0", "a"}, {"2", "b"}}), "none for 1");
  testing::expect_contains(message("id2label", {{"0", "a"}, {"1", "b"}, {"2", "a"}}), "'a' is there twice");
}

class Classify : public ::testing::Test {
 protected:
  void SetUp() override {
    hf::convert_folder(kFolder + "bert_tiny", model_);
    std::ofstream out(texts_);
    for (int i = 0; i < 24; ++i) {  // sorted by class, as files often are
      const bool animal = i < 12;
      const char* kWords[] = {"the badger", "a otter", "swimming", "under the river", "old 1", "run runs"};
      const std::string text = std::string(kWords[i % 6]) + (i % 12 < 6 ? " 2" : " , 3");
      out << json{{"text", text + (animal ? " badger" : " river")}, {"label", animal ? "animal" : "place"}}.dump()
          << "\n";
    }
  }
  // `more` replaces options.
  Recipe recipe(const std::string& out, const json& more = json::object()) const {
    json options{{"model", model_},       {"data", texts_}, {"out", folder_.path(out)}, {"batch", 4}, {"steps", 6},
                 {"checkpoint-every", 3}, {"lr", 0.001}};
    options.update(more);
    return parse_recipe("classify", options.dump());
  }
  testing::Folder folder_;
  std::string model_ = folder_.path("bert.gguf"), texts_ = folder_.path("texts.jsonl");
};

TEST_F(Classify, TheSameBytesForAnyThreadsAndAfterResume) {
  const auto one = make_device("cpu", {.threads = 1}), two = make_device("cpu", {.threads = 2});
  for (const bool adapter : {false, true}) {
    json more{{"val-fraction", 0.25}, {"dropout", 0.1}, {"accumulate", 2}, {"shards", 2}, {"label-smoothing", 0.1}};
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
    ASSERT_TRUE(whole.eval && whole.eval->top1);
    EXPECT_FALSE(whole.eval->top5);  // of two classes
  }
}

TEST_F(Classify, LearnsAndIsTrainedFurther) {
  const auto device = make_device("cpu", {.threads = 2});
  Listener listener, further;
  const json more{{"val", texts_}, {"batch", 24}, {"steps", 60}, {"checkpoint-every", 0}, {"lr", 0.005}};
  const TrainResult r = recipe("learned", more).train(*device, listener);
  ASSERT_TRUE(r.eval && r.eval->top1);
  EXPECT_EQ(*r.eval->top1, 1);
  EXPECT_LT(r.final_loss, 0.1 * listener.losses.front());
  const Model model = load_model(r.model_path, *device);
  EXPECT_EQ(model.spec.score.names, (Names{"animal", "place"}));
  EXPECT_EQ(model.spec.score.dense, ScoreHead::tanh);
  EXPECT_EQ(classify_texts(*device, model, {"the badger 2 badger"})[0][0].name, "animal");
  // With the same classes the head stays; others get a new one.
  json next{{"model", r.model_path}, {"steps", 1}, {"batch", 24}, {"lr", 1e-30}, {"checkpoint-every", 0}};
  recipe("further", next).train(*device, further);
  EXPECT_NEAR(further.losses.front(), r.eval->loss, 0.05);
  std::ofstream(texts_) << "{\"sentence\": \"a\", \"class\": 2}\n{\"sentence\": \"the\", \"class\": 10}\n"
                        << "{\"sentence\": \"run\", \"class\": 1}\n";
  next["batch"] = 3, next["val-fraction"] = 0;
  const TrainResult other = recipe("other", next).train(*device, further);
  EXPECT_EQ(load_model(other.model_path, *device).spec.score.names, (Names{"1", "2", "10"}));
}

// The adapter's file has the head; merged, the model says the same.
TEST_F(Classify, AdaptersBringTheHead) {
  const auto device = make_device("cpu", {.threads = 2});
  Listener listener;
  const json more{{"batch", 24}, {"steps", 40},   {"adapter", true},
                  {"lr", 0.02},  {"val", texts_}, {"checkpoint-every", 0}};
  const TrainResult r = recipe("adapter", more).train(*device, listener);
  EXPECT_EQ(*r.eval->top1, 1);
  EXPECT_TRUE(r.model_path.ends_with("adapter.gguf"));
  Model model = load_model(model_, *device, LoadMode::trainable);
  load_adapter(model, r.model_path);
  EXPECT_TRUE(model.warnings.empty());
  EXPECT_EQ(model.spec.score.names, (Names{"animal", "place"}));
  const std::string badger = "the badger 2 badger";
  EXPECT_EQ(classify_texts(*device, model, {badger})[0][0].name, "animal");
  const std::vector<std::vector<int32_t>> text{encode_for_embedding(*model.tokenizer, badger, 80)};
  // In f64: what merging changes is that each weight is rounded to f32 once, at most 2^-24 of it. A logit of these
  // sizes moves by less than 64 such units.
  const auto reference = make_reference_device();
  Model in_f64 = load_model(model_, *reference, LoadMode::trainable);
  load_adapter(in_f64, r.model_path);
  const std::vector<float> with_adapter = Scorer(*reference, in_f64).scores(text);
  merge_adapters(model), merge_adapters(in_f64);
  const std::vector<float> merged = Scorer(*reference, in_f64).scores(text);
  for (size_t i = 0; i < merged.size(); ++i)
    EXPECT_NEAR(merged[i], with_adapter[i], 64 * 0x1p-24 * std::max(1.0f, std::abs(with_adapter[i])));
  // A file of the merged model has the same bits.
  save_model(model, folder_.path("merged.gguf"));
  const Model loaded = load_model(folder_.path("merged.gguf"), *device);
  EXPECT_EQ(Scorer(*device, loaded).scores(text), Scorer(*device, model).scores(text));
  EXPECT_EQ(classify_texts(*device, loaded, {badger})[0][0].name, "animal");
  Model again = load_model(folder_.path("merged.gguf"), *device);
  testing::expect_contains(testing::message_of([&] { load_adapter(again, r.model_path); }), "has one already");
  json next = more;
  next["model"] = folder_.path("merged.gguf");
  testing::expect_contains(testing::message_of([&] { recipe("x", next).train(*device, listener); }),
                           "it has a head already");
}

// An adapter that does not fit leaves the model as it was, without its head.
TEST_F(Classify, AnAdapterThatDoesNotFitChangesNothing) {
  const auto device = make_device("cpu", {.threads = 1});
  Listener listener;
  const TrainResult r = recipe("adapter", {{"steps", 1}, {"adapter", true}}).train(*device, listener);
  const gguf::File file = gguf::File::open(r.model_path);
  const auto changed = [&](const std::string& without, const std::string& from, const std::string& to) {
    gguf::Writer writer(file.get_string("general.architecture"));
    for (const auto& [key, value] : file.metadata())
      if (key != "general.architecture") writer.set(key, value);
    for (const gguf::TensorInfo& t : file.tensors()) {
      std::string name = t.name;
      if (const size_t at = name.find(from); !from.empty() && at != name.npos) name.replace(at, from.size(), to);
      if (name != without) writer.add(name, View(const_cast<std::byte*>(t.data), *t.dtype, t.shape), *t.dtype);
    }
    writer.finish(folder_.path("changed.gguf"));
    return folder_.path("changed.gguf");
  };
  Model model = load_model(model_, *device, LoadMode::trainable);
  const auto tensors = tensors_of(model.spec).size();
  const auto refused = [&](const std::string& path, const std::string& why) {
    testing::expect_contains(testing::message_of([&] { load_adapter(model, path); }), why);
    EXPECT_FALSE(model.spec.score.there());
    EXPECT_TRUE(model.spec.adapters.empty());
    EXPECT_EQ(tensors_of(model.spec).size(), tensors);
    EXPECT_FALSE(model.params->has("cls.output.weight"));
  };
  refused(changed("", "blk.0.attn_q", "blk.7.attn_q"), "which this one does not have");
  refused(changed("cls.output.weight", "", ""), "cls.output.weight");
  load_adapter(model, r.model_path);
  EXPECT_TRUE(model.spec.score.classifies());
}

TEST_F(Classify, ValidationHoldsOutOfEachClass) {
  const auto device = make_device("cpu", {.threads = 1});
  Listener listener;
  const TrainResult r = recipe("held", {{"val-fraction", 0.5}, {"steps", 1}}).train(*device, listener);
  ASSERT_TRUE(r.eval && r.eval->top1_error);
  testing::expect_contains(listener.notes, "12 texts of 2 classes: animal, place");
}

TEST_F(Classify, WhatCannotBeIsRefused) {
  const auto device = make_device("cpu", {.threads = 1});
  const auto message = [&](const json& more) {
    return testing::message_of([&] {
      Listener listener;
      recipe("refused", more).train(*device, listener);
    });
  };
  testing::expect_contains(message({{"rank", 4}}), "--adapter");
  testing::expect_contains(message({{"tokens", 64}}), "unknown option 'tokens'");
  testing::expect_contains(message({{"text-tokens", 81}}), "80 positions");
  testing::expect_contains(message({{"label-smoothing", 1}}), "label-smoothing");
  testing::expect_contains(message({{"map", "label=stars"}}), "texts.jsonl:1: there is no field 'stars'");
  const std::string val = folder_.write("val.jsonl", R"({"text": "a", "label": "thing"})");
  testing::expect_contains(message({{"val", val}}), "the label 'thing' is not in the training data");
  std::ofstream(texts_) << "{\"text\": \"a\", \"label\": \"b\"}\n{\"text\": \"c\"}\n";
  testing::expect_contains(message(json::object()), "texts.jsonl:2: there is no 'label'");
  testing::expect_contains(message({{"bad-rows", "skip"}}), "all texts have the label 'b'");
  std::ofstream(texts_) << "{\"text\": \"a\", \"label\": 1.5}\n";
  testing::expect_contains(message(json::object()), "'label' is 1.5; a label is a text or a whole number");
  std::ofstream(texts_) << "{\"text\": \" \", \"label\": 1}\n";
  testing::expect_contains(message(json::object()), "'text' is empty");
}

TEST_F(Classify, ModernBertWithItsOwnHead) {
  hf::convert_folder(kFolder + "modern_bert_tiny", folder_.path("modern.gguf"));
  const auto device = make_device("cpu", {.threads = 2});
  Listener listener;
  const json more{{"model", folder_.path("modern.gguf")}, {"batch", 24}, {"steps", 40}, {"lr", 0.005}, {"val", texts_}};
  const TrainResult r = recipe("modern", more).train(*device, listener);
  EXPECT_LT(r.final_loss, 0.5 * listener.losses.front());
  const Model model = load_model(r.model_path, *device);
  EXPECT_EQ(model.spec.score.dense, ScoreHead::gelu_norm);
  const auto classes = classify_texts(*device, model, {"the badger 2 badger"})[0];
  hf::convert_gguf(gguf::File::open(r.model_path), folder_.path("hf"));
  hf::convert_folder(folder_.path("hf"), folder_.path("again.gguf"));
  const auto again =
      classify_texts(*device, load_model(folder_.path("again.gguf"), *device), {"the badger 2 badger"})[0];
  EXPECT_EQ(again[0].name, classes[0].name);
  EXPECT_EQ(again[0].probability, classes[0].probability);
}

TEST_F(Classify, ADecoderClassifiesByItsLastToken) {
  hf::convert_folder(kFolder + "qwen3_rank_tiny", folder_.path("qwen.gguf"));
  const auto device = make_device("cpu", {.threads = 2});
  Listener listener;
  const json more{{"model", folder_.path("qwen.gguf")}, {"batch", 24}, {"steps", 60}, {"lr", 0.005}, {"val", texts_}};
  const TrainResult r = recipe("qwen", more).train(*device, listener);
  EXPECT_LT(r.final_loss, 0.5 * listener.losses.front());
  const Model model = load_model(r.model_path, *device);
  EXPECT_TRUE(model.spec.causal && model.spec.score.classifies());
  EXPECT_EQ(classify_texts(*device, model, {"the badger 2 badger"})[0][0].name, "animal");
}

}  // namespace
}  // namespace toy::text_classes_test
