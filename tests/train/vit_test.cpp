// Classifiers of pictures: steps beside PyTorch's (tests/golden/make_vit_golden.py), runs, files.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/backend/devices.h"
#include "toy/decode/classifier.h"
#include "toy/image/class_scores.h"
#include "toy/models/embedding_rule.h"
#include "toy/models/vision.h"
#include "toy/synth/shapes.h"
#include "toy/text/class_names.h"
#include "toy/train/recipes.h"
#include "train/train_testing.h"

namespace toy::vit_test {
namespace {

using nlohmann::json;
using testing::Listener;

// The script's formula.
double number(uint64_t tensor, uint64_t i) {
  const auto mixed = uint32_t((i * 7919 + tensor * 15485863) * 2654435761u);
  return (double(mixed >> 22) - 512) / 512;
}
std::vector<float> numbers(uint64_t tensor, int64_t n, double factor = 1, double plus = 0) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(float(plus + factor * number(tensor, uint64_t(i))));
  return v;
}

ModelSpec golden_spec(bool token) {
  ModelSpec m = model_spec("vit-micro");
  m.d_model = 8, m.vocab = 4, m.norm_eps = 1.0f / 1024;
  m.vision = {.image = 6, .patch = 3, .channels = 3, .class_token = token, .mean = {0, 0, 0}, .std = {1, 1, 1}};
  m.context = m.vision.rows();
  m.layers.resize(2);
  for (LayerSpec& l : m.layers) l.heads = l.kv_heads = 2, l.d_head = 4, l.d_ff = 12;
  m.validate();
  return m;
}

Model golden_model(const Device& device, bool token) {
  const ModelSpec spec = golden_spec(token);
  Model model = random_model(spec, device, 0);
  std::map<std::string, Shape> sorted;
  for (const TensorSpec& t : tensors_of(spec)) sorted.emplace(t.name, t.shape);
  uint64_t i = 0;
  for (const auto& [name, shape] : sorted) {
    const bool gain = name.ends_with("ln1.weight") || name.ends_with("ln2.weight") || name.ends_with("post_ln.weight");
    model.params->write(name, numbers(i++, shape.count(), gain ? 0.25 : 0.5, gain ? 1 : 0));
  }
  return model;
}

Windows golden_batch(bool token) {
  constexpr int64_t kImages = 3, kPatches = 4, kValues = 27, kClasses = 4;
  Windows w;
  const std::vector<float> all = numbers(1000, kImages * kPatches * kValues), raw = numbers(1001, kImages * kClasses);
  for (int64_t b = 0; b < kImages; ++b) {
    if (token) w.pixels.insert(w.pixels.end(), kValues, 0.0f);
    w.pixels.insert(w.pixels.end(), all.begin() + b * kPatches * kValues, all.begin() + (b + 1) * kPatches * kValues);
    double sum = 0;
    for (int64_t k = 0; k < kClasses; ++k) sum += std::abs(double(raw[size_t(b * kClasses + k)])) + 0.125;
    for (int64_t k = 0; k < kClasses; ++k)
      w.shares.push_back(float((std::abs(double(raw[size_t(b * kClasses + k)])) + 0.125) / sum));
    w.targets.push_back(0);
    w.targets.insert(w.targets.end(), size_t(kPatches - 1 + token), -1);
  }
  w.inputs.assign(w.targets.size(), 0);
  return w;
}

// Shares of classes are rounded to f32 here and not there, which changes a loss by up to 2^-25 of the largest logit's
// distance, and gradients likewise: 1e-7. In f32 a sum of 40 roundings of values near 1.
TEST(VitGolden, TenStepsBesidePyTorch) {
  std::ifstream file(std::string(TOY_SOURCE_DIR) + "/tests/golden/vit.golden.json");
  const json golden = json::parse(file);
  for (const bool exact : {true, false})
    for (const json& c : golden.at("cases")) {
      const bool token = c.at("token");
      SCOPED_TRACE(std::string(token ? "token" : "mean") + (exact ? ", f64" : ", f32"));
      const auto device = exact ? make_reference_device() : make_device("cpu", {.threads = 2});
      Model model = golden_model(*device, token);
      Trainer trainer(*device, model, testing::bare(3, golden_spec(token).context));
      const Windows batch = golden_batch(token);
      const double tolerance = exact ? 1e-7 : 3e-6;
      for (size_t step = 0; step < c.at("losses").size(); ++step) {
        EXPECT_NEAR(trainer.step(batch, golden.at("lr")).loss, c.at("losses")[step].get<double>(), tolerance) << step;
        if (step > 0) continue;
        size_t compared = 0;
        for (const auto& [name, want] : c.at("gradients").items()) {
          const HostTensor moment = trainer.moments().host(name + ".v");
          ASSERT_EQ(size_t(moment.view().count()), want.size()) << name;
          for (size_t i = 0; i < want.size(); ++i)
            EXPECT_NEAR(element(moment.view(), int64_t(i)), want[i].get<double>(), tolerance) << name << i;
          ++compared;
        }
        EXPECT_EQ(compared, tensors_of(model.spec).size());
      }
    }
}

ImageSet some_shapes(int64_t count, int64_t size) {
  ImageSet set{size, 3, shape_names()};
  for (int64_t i = 0; i < count; ++i)
    set.add(draw_shape(i, size, 1, "test").values, int32_t(size_t(i) % shape_names().size()), std::to_string(i));
  return set;
}

// A row's result depends on no other row.
TEST(Vit, APictureHasTheSameBitsAloneAndInABatch) {
  const auto device = make_device("cpu", {.threads = 2});
  const Model model = random_model(model_spec("vit-micro"), *device, 3);
  const ImageSet set = some_shapes(5, 32);
  ImageClassifier many(*device, model, 4), one(*device, model, 1);
  int64_t seen = 0;
  many.each(set, [&](int64_t i, std::span<const float> logits) {
    EXPECT_EQ(i, seen++);
    const auto values = set.picture(i);
    EXPECT_EQ(one.logits({32, 32, 3, {values.begin(), values.end()}}), std::vector(logits.begin(), logits.end()));
  });
  EXPECT_EQ(seen, 5);
}

TEST(Vit, FilesKeepEverything) {
  const auto device = make_device("cpu", {.threads = 1});
  for (const bool token : {false, true}) {
    Model model = golden_model(*device, token);
    model.tokenizer = make_class_names({"ant", "bee", "cat", "dog"});
    const testing::Folder folder;
    const std::string path = folder.path("m.gguf");
    save_model(model, path, DType::f32);
    const gguf::File file = gguf::File::open(path);
    EXPECT_EQ(file.get_string("general.architecture"), "vit");
    for (const char* name : {"v.patch_embd.weight", "v.position_embd.weight", "v.blk.1.ln1.bias",
                             "v.blk.0.attn_out.weight", "v.post_ln.weight", "head.weight", "head.bias"})
      EXPECT_TRUE(file.find(name)) << name;
    EXPECT_EQ(file.find("v.class_embd") != nullptr, token);
    const Model again = load_model(path, *device);
    EXPECT_EQ(again.spec.vision, model.spec.vision);
    EXPECT_TRUE(again.warnings.empty());
    ASSERT_TRUE(again.tokenizer);
    EXPECT_EQ(class_names(*again.tokenizer), class_names(*model.tokenizer));
    for (const TensorSpec& t : tensors_of(model.spec))
      EXPECT_EQ(again.params->read(t.name), model.params->read(t.name));
    testing::expect_contains(testing::message_of([&] { require_causal(again.spec); }), "--image");
  }
}

TEST(Vit, SpecsThatCannotBeAreRefused) {
  ModelSpec m = model_spec("vit-micro");
  m.vision.patch = 5;
  testing::expect_contains(testing::message_of([&] { m.validate(); }), "multiple of the patch");
  m = model_spec("vit-micro");
  m.vision.channels = 4;
  testing::expect_contains(testing::message_of([&] { m.validate(); }), "channels is 4");
  m = model_spec("vit-micro");
  m.context = 65;
  testing::expect_contains(testing::message_of([&] { m.validate(); }), "64 rows");
  testing::expect_contains(
      testing::message_of([&] {
        Listener listener;
        parse_recipe("vit", R"({"data": "x", "size": "tiny"})").train(*make_reference_device(), listener);
      }),
      "model of text");
}

std::string write_pictures(const testing::Folder& folder) {
  const std::string path = folder.path("shapes");
  write_shapes({.images = 60, .test = 20, .size = 16}, path);
  return path;
}

Recipe small_run(const std::string& data, const std::string& out, const char* more = "") {
  return parse_recipe(
      "vit",
      fmt::format(R"({{"data": "{}", "out": "{}", "steps": 6, "batch": 8, "mixup": 0.8, "cutmix": 1,
      "rand-augment": 2, "erase": 0.3, "checkpoint-every": 3, "dropout": 0.1{}{}}})",
                  data, out,
                  std::string_view(more).find("\"val\"") == std::string_view::npos ? R"(, "val-fraction": 0.2)" : "",
                  more));
}

// Augmentation included: the same bytes with other threads, after a resume, and in more shards than one.
TEST(VitRun, TheSameBytesForAnyThreadsAndAfterResume) {
  const testing::Folder folder;
  const std::string data = write_pictures(folder);
  const auto one = make_device("cpu", {.threads = 1}), two = make_device("cpu", {.threads = 2});
  Listener all, first(3), second;
  const TrainResult a = small_run(data, folder.path("a")).train(*one, all);
  small_run(data, folder.path("b")).train(*two, first);
  const TrainResult b = small_run(data, folder.path("b"), R"(, "resume": true)").train(*two, second);
  EXPECT_EQ(second.resumed_at, 3);
  EXPECT_EQ(testing::slurp(a.model_path), testing::slurp(b.model_path));
  ASSERT_TRUE(a.eval && a.eval->top1 && a.eval->top5 && a.eval->top1_error);
  EXPECT_GE(*a.eval->top5, *a.eval->top1);
  const double p = *a.eval->top1;
  EXPECT_NEAR(*a.eval->top1_error, std::sqrt(p * (1 - p) / 12), 1e-12);  // 12 of 60 are held out
  first.append(second);
  EXPECT_EQ(all.losses, first.losses);
}

TEST(VitRun, SinCosPositionsStayAndAreInTheFile) {
  const testing::Folder folder;
  const std::string data = write_pictures(folder);
  const auto device = make_device("cpu", {.threads = 1});
  Listener listener;
  const TrainResult r =
      small_run(data, folder.path("a"), R"(, "positions": "sincos", "pooling": "token")").train(*device, listener);
  const Model model = load_model(r.model_path, *device);
  EXPECT_TRUE(model.spec.vision.class_token);
  const std::vector<float> table = model.params->read("v.position_embd.weight");
  const auto width = size_t(model.spec.d_model), quarter = width / 4;
  for (size_t k = 0; k < width; ++k) EXPECT_EQ(table[k], 0);  // of the class token
  // Patch 1 is in column 1 of row 0.
  EXPECT_FLOAT_EQ(table[2 * width], std::sin(1.0f));
  EXPECT_FLOAT_EQ(table[2 * width + quarter], std::cos(1.0f));
  EXPECT_EQ(table[2 * width + 2 * quarter], 0);
  EXPECT_EQ(table[2 * width + 3 * quarter], 1);
}

TEST(VitRun, WhatCannotBeIsRefused) {
  const testing::Folder folder;
  const std::string data = write_pictures(folder), other = folder.path("other");
  const auto device = make_reference_device();
  Listener listener;
  std::filesystem::create_directories(other + "/blob");
  std::filesystem::copy_file(data + "/test/star/00007.ppm", other + "/blob/1.ppm");
  testing::expect_contains(
      testing::message_of([&] {
        small_run(data, folder.path("a"), fmt::format(R"(, "val": "{}")", other).c_str()).train(*device, listener);
      }),
      "of the class 'blob'");
  testing::expect_contains(
      testing::message_of([&] { small_run(data, folder.path("a"), R"(, "patch": 3)").train(*device, listener); }),
      "--image-size 15");
  testing::expect_contains(
      testing::message_of([&] { small_run(data + "/train/star", folder.path("a")).train(*device, listener); }),
      "give the folder above it: " + data + "/train");
  testing::expect_contains(
      testing::message_of([&] { small_run(folder.path("none"), folder.path("a")).train(*device, listener); }),
      "no such folder");
}

}  // namespace
}  // namespace toy::vit_test
