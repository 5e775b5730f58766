// Classifiers of pictures: ViT and DeiT of transformers and a VisionTransformer of timm with random weights against
// their logits in f64 (tests/golden/make_picture_golden.py), and the way back.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/classifier.h"
#include "toy/hf/convert.h"
#include "toy/models/model.h"
#include "toy/text/class_names.h"

namespace toy::pictures_test {
namespace {

using nlohmann::json;

std::string golden_path(const std::string& name) { return fmt::format("{}/tests/golden/{}", TOY_SOURCE_DIR, name); }

class PictureGolden : public ::testing::TestWithParam<std::string> {
 protected:
  PictureGolden()
      : gguf_(folder_.path("it.gguf")), golden_(json::parse(std::ifstream(golden_path("pictures.golden.json")))) {
    hf::convert_folder(golden_path(GetParam()), gguf_);
  }
  std::vector<Picture> pictures() const {
    std::vector<Picture> list;
    for (const json& rows : golden_.at("pictures")) {
      Picture p{.width = 16, .height = 16, .channels = 3, .values = {}};
      for (const json& row : rows)
        for (const json& pixel : row)
          for (const json& value : pixel) p.values.push_back(value.get<uint8_t>());
      list.push_back(std::move(p));
    }
    return list;
  }
  std::vector<std::vector<float>> logits(Device& device, const std::string& path) const {
    const Model model = load_model(path, device);
    ImageClassifier classifier(device, model, 1);
    std::vector<std::vector<float>> all;
    for (const Picture& p : pictures()) all.push_back(classifier.logits(p));
    return all;
  }
  testing::Folder folder_;
  std::string gguf_;
  json golden_;
};

TEST_P(PictureGolden, LogitsAreTheirs) {
  const json& golden = golden_.at(GetParam());
  for (const bool reference : {true, false}) {
    const auto device = reference ? make_reference_device() : make_test_device(2);
    const auto got = logits(*device, gguf_);
    for (size_t i = 0; i < got.size(); ++i)
      for (size_t k = 0; k < got[i].size(); ++k) {
        const double want = golden.at("logits")[i][k];
        // Pixels enter as f32 on both devices: three roundings, which the model carries on as f32 does its own.
        EXPECT_NEAR(got[i][k], want, 8 * golden.at("error").get<double>() + std::abs(want) * 0x1p-24)
            << i << " " << k << " " << device->name();
      }
  }
}

TEST_P(PictureGolden, SurvivesGgufAndFolder) {
  const auto device = make_test_device(2);
  const hf::Converted done = hf::convert_gguf(gguf::File::open(gguf_), folder_.path("hf"));
  EXPECT_EQ(done.class_name,
            GetParam() == "deit_tiny" ? "DeiTForImageClassificationWithTeacher" : "ViTForImageClassification");
  EXPECT_TRUE(std::filesystem::exists(folder_.path("hf/preprocessor_config.json")));
  hf::convert_folder(folder_.path("hf"), folder_.path("again.gguf"));
  EXPECT_EQ(logits(*device, folder_.path("again.gguf")), logits(*device, gguf_));
  const auto names = [](const std::string& path) { return class_names(*load_class_names(gguf::File::open(path))); };
  EXPECT_EQ(names(folder_.path("again.gguf")), names(gguf_));
  const std::vector<std::string> twice{"cat", "crane", "badger", "crane (3)", "otter"}, none{"0", "1", "2", "3", "4"};
  EXPECT_EQ(names(gguf_), GetParam() == "timm_tiny" ? none : twice);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PictureGolden, ::testing::Values("vit_tiny", "deit_tiny", "timm_tiny"),
                         [](const auto& i) { return i.param; });

// A model with a mean over its patches is no class of transformers, but one of timm.
TEST(PictureFolders, AMeanGoesToTimm) {
  const testing::Folder folder;
  const auto device = make_test_device(1);
  ModelSpec spec = model_spec("vit-micro");
  spec.vocab = 3, spec.vision.image = 16, spec.context = 0;
  spec.vision.patch = 8, spec.context = spec.vision.rows();
  Model model = random_model(spec, *device, 5);
  model.tokenizer = make_class_names({"a", "b", "c"});
  save_model(model, folder.path("m.gguf"));
  EXPECT_EQ(hf::convert_gguf(gguf::File::open(folder.path("m.gguf")), folder.path("timm")).class_name,
            "VisionTransformer");
  const json config = json::parse(std::ifstream(folder.path("timm/config.json")));
  EXPECT_FALSE(config.contains("model_type"));
  EXPECT_EQ(config.at("global_pool"), "avg");
  hf::convert_folder(folder.path("timm"), folder.path("again.gguf"));
  const Model again = load_model(folder.path("again.gguf"), *device);
  Picture picture{.width = 16, .height = 16, .channels = 3, .values = std::vector<uint8_t>(768, 7)};
  EXPECT_EQ(ImageClassifier(*device, again, 1).logits(picture), ImageClassifier(*device, model, 1).logits(picture));
}

TEST(PictureFolders, RefusesWhatIsNotComputed) {
  const testing::Folder folder;
  const auto refusal = [&](const std::string& kind, const json& changes) {
    const std::string copy = folder.path("copy");
    std::filesystem::remove_all(copy);
    std::filesystem::copy(golden_path(kind), copy);
    json config = json::parse(std::ifstream(copy + "/config.json"));
    config.update(changes);
    std::ofstream(copy + "/config.json") << config.dump();
    return testing::message_of([&] { hf::convert_folder(copy, folder.path("x.gguf")); });
  };
  testing::expect_contains(refusal("vit_tiny", {{"patch_size", 5}}), "'patch_size' 5");
  testing::expect_contains(refusal("vit_tiny", {{"image_size", {16, 8}}}), "not one side of a square");
  testing::expect_contains(refusal("vit_tiny", {{"qkv_bias", false}}), "'qkv_bias'");
  testing::expect_contains(refusal("deit_tiny", {{"architectures", {"DeiTForImageClassification"}}}),
                           "a head for each token");
  testing::expect_contains(refusal("timm_tiny", {{"global_pool", "map"}}), "'global_pool' is 'map'");
  testing::expect_contains(refusal("vit_tiny", {{"num_attention_heads", 5}}), "5 heads, which do not divide");
  // timm's own keys
  for (const json& args : {json::array(), json("x")})
    testing::expect_contains(refusal("timm_tiny", {{"model_args", args}}), "config.json: 'model_args': not a JSON");
  testing::expect_contains(refusal("timm_tiny", {{"pretrained_cfg", 3}}), "config.json: 'pretrained_cfg': not a JSON");
  for (const json& args : {json(nullptr), json::object(), json{{"num_heads", nullptr}}})
    testing::expect_contains(refusal("timm_tiny", {{"model_args", args}}), "a width of 24 does not tell it; add");
  for (const json& heads : {json("3"), json(1.5), json(-3)})
    testing::expect_contains(refusal("timm_tiny", {{"model_args", {{"num_heads", heads}}}}), "'num_heads' is");
  for (const int heads : {0, 5})
    testing::expect_contains(refusal("timm_tiny", {{"model_args", {{"num_heads", heads}}}}),
                             "does not divide the width");
  testing::expect_contains(refusal("timm_tiny", {{"model_args", {{"num_heads", 3}, {"act_layer", "relu"}}}}),
                           "'act_layer' is \"relu\"; only \"gelu\"");
}

TEST(PictureFolders, SayWhatHappensToAPictureBefore) {
  const testing::Folder folder;
  const auto convert = [&](const std::string& kind, const std::string& file, const json& changes) {
    const std::string copy = folder.path("copy");
    std::filesystem::remove_all(copy);
    std::filesystem::copy(golden_path(kind), copy);
    json values = json::object();
    if (std::filesystem::exists(copy + file)) values = json::parse(std::ifstream(copy + file));
    values.merge_patch(changes);
    std::ofstream(copy + file) << values.dump();
    return hf::convert_folder(copy, folder.path("x.gguf")).warnings;
  };
  const std::string pre = "/preprocessor_config.json";
  for (const char* key : {"do_normalize", "do_rescale"}) {
    const std::string said = testing::message_of([&] { convert("vit_tiny", pre, {{key, false}}); });
    testing::expect_contains(said, "preprocessor_config.json: '" + std::string(key) + "' is false");
  }
  EXPECT_TRUE(convert("vit_tiny", pre, {{"do_normalize", true}, {"do_center_crop", false}, {"crop_size", 8}}).empty());
  for (const json& crop : {json{{"do_center_crop", true}}, json{{"crop_size", 16}}}) {
    const auto said = convert("vit_tiny", pre, crop);
    ASSERT_EQ(said.size(), 1u);
    testing::expect_contains(said[0], "without this crop");
  }
  EXPECT_EQ(convert("deit_tiny", pre, {{"size", 256}}).size(), 1u);
  const auto said = convert("timm_tiny", "/config.json", {{"pretrained_cfg", {{"crop_pct", 0.875}}}});
  ASSERT_EQ(said.size(), 1u);
  testing::expect_contains(said[0], "'crop_pct' is 0.875");
  EXPECT_TRUE(convert("timm_tiny", "/config.json", {{"pretrained_cfg", {{"crop_pct", 1.0}}}}).empty());
}

}  // namespace
}  // namespace toy::pictures_test
