// Encoders of other kinds: RoBERTa, nomic-bert and ModernBERT with random weights against transformers in f64
// (tests/golden/make_encoder_golden.py).
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
#include "toy/decode/encoder.h"
#include "toy/hf/convert.h"

namespace toy {
namespace {

using nlohmann::json;
using Texts = std::vector<std::vector<int32_t>>;

std::string golden_path(const std::string& name) { return fmt::format("{}/tests/golden/{}", TOY_SOURCE_DIR, name); }

class EncoderKinds : public ::testing::TestWithParam<std::string> {
 protected:
  EncoderKinds()
      : gguf_(folder_.path("it.gguf")),
        golden_(json::parse(std::ifstream(golden_path("encoders.golden.json"))).at(GetParam())) {
    hf::convert_folder(golden_path(GetParam() + "_tiny"), gguf_);
  }
  Texts rows() const {
    Texts rows;
    for (const json& row : golden_.at("rows")) rows.push_back(row.at("ids"));
    return rows;
  }
  static std::vector<std::vector<float>> hidden(Device& device, const Model& model, const Texts& ids,
                                                const EncoderOptions& options = {}) {
    return Encoder(device, model, options).embed(ids, {.pooling = Pooling::none, .normalize = false});
  }
  testing::Folder folder_;
  std::string gguf_;
  json golden_;
};

TEST_P(EncoderKinds, HiddenStatesAreThoseOfTransformers) {
  double most = 0;
  for (const json& row : golden_.at("rows")) most = std::max(most, row.at("error").get<double>());
  for (const bool reference : {true, false}) {
    const auto device = reference ? make_reference_device() : make_test_device(2);
    const Model model = load_model(gguf_, *device);
    const auto got = hidden(*device, model, rows());
    for (size_t i = 0; i < got.size(); ++i) {
      // As in encoder_test.cpp. A row's error is large or small by luck; that of all rows counts. transformers computes
      // angles of rotary positions in f32 always, so there its f64 has an error, too, unless that was changed.
      const bool turns = model.spec.positions == PositionKind::rope && GetParam() != "gemma_embedding";
      const double error = reference ? (turns ? most : 0) : 8 * most;
      size_t at = 0;
      for (const json& token : golden_.at("rows")[i].at("hidden"))
        for (const double want : token)
          ASSERT_NEAR(got[i][at++], want, error + std::abs(want) * 0x1p-24 + 1e-9) << i << " " << device->name();
      EXPECT_EQ(at, got[i].size());
    }
  }
}

class EncoderTokens : public EncoderKinds {};  // of kinds with a tokenizer of their own

TEST_P(EncoderTokens, AreThoseOfTransformers) {
  const auto tokenizer = load_tokenizer(gguf::File::open(gguf_));
  for (const json& text : golden_.at("texts"))
    EXPECT_EQ(encode_for_embedding(*tokenizer, text.at("text").get<std::string>(), 0),
              text.at("ids").get<std::vector<int32_t>>());
}

TEST_P(EncoderKinds, EqualBitsAloneAndInBatches) {
  Texts texts = rows();
  for (const std::vector<int32_t>& row : rows()) texts.push_back(row);
  const auto device = make_test_device(3);
  const Model model = load_model(gguf_, *device);
  std::vector<std::vector<float>> alone;
  for (const auto& text : texts) alone.push_back(hidden(*device, model, Texts{text}).front());
  for (const int64_t rows : {1, 61, 2000}) EXPECT_EQ(hidden(*device, model, texts, {.rows = rows}), alone);
}

TEST_P(EncoderKinds, SurvivesGgufAndFolder) {
  const auto device = make_test_device(2);
  const Model model = load_model(gguf_, *device);
  save_model(model, folder_.path("saved.gguf"));
  hf::convert_gguf(gguf::File::open(folder_.path("saved.gguf")), folder_.path("hf"));
  hf::convert_folder(folder_.path("hf"), folder_.path("again.gguf"));
  const Model again = load_model(folder_.path("again.gguf"), *device);
  EXPECT_EQ(again.spec.context, model.spec.context);
  const bool written = model.tokenizer && model.tokenizer->kind() != "unigram";  // a folder does not get those
  if (written) EXPECT_EQ(again.tokenizer->fingerprint(), model.tokenizer->fingerprint());
  EXPECT_EQ(hidden(*device, again, rows()), hidden(*device, model, rows()));
}

INSTANTIATE_TEST_SUITE_P(Kinds, EncoderKinds,
                         ::testing::Values("roberta", "nomic_bert", "modern_bert", "xlm_roberta", "gemma_embedding"),
                         [](const auto& i) { return i.param; });
INSTANTIATE_TEST_SUITE_P(Kinds, EncoderTokens,
                         ::testing::Values("roberta", "modern_bert", "xlm_roberta", "gemma_embedding"),
                         [](const auto& i) { return i.param; });

class ConfigOf : public ::testing::Test {
 protected:
  // What a folder with other values in its config.json is refused for.
  std::string refusal(const std::string& kind, const json& changes, const std::string& file = "config.json") {
    const testing::Folder folder;
    const std::string copy = folder.path("copy");
    std::filesystem::copy(golden_path(kind), copy, std::filesystem::copy_options::recursive);
    json config = json::parse(std::ifstream(copy + "/" + file));
    if (changes.is_array())
      config = changes;
    else
      config.update(changes);
    std::ofstream(copy + "/" + file) << config.dump();
    return testing::message_of([&] { hf::convert_folder(copy, folder.path("x.gguf")); });
  }
};

TEST_F(ConfigOf, RefusesWhatIsNotComputed) {
  testing::expect_contains(refusal("roberta_tiny", {{"pad_token_id", 0}}), "'pad_token_id' is 0");
  testing::expect_contains(refusal("roberta_tiny", {{"max_position_embeddings", 2}}), "'max_position_embeddings' is 2");
  testing::expect_contains(refusal("nomic_bert_tiny", {{"num_experts", 8}}), "experts");
  testing::expect_contains(refusal("nomic_bert_tiny", {{"qkv_proj_bias", true}}), "'qkv_proj_bias'");
  testing::expect_contains(refusal("modern_bert_tiny", {{"norm_bias", true}}), "'norm_bias'");
  testing::expect_contains(refusal("modern_bert_tiny", {{"local_attention", 1}}), "'local_attention' is 1");
  testing::expect_contains(refusal("modern_bert_tiny", {{"hidden_activation", "silu"}}), "'hidden_activation'");
  testing::expect_contains(
      refusal("modern_bert_tiny",
              {{"layer_types",
                {"full_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention"}}}),
      "every n-th layer");
}

TEST_F(ConfigOf, RefusesOtherDenseLayers) {
  const std::string kind = "gemma_embedding_tiny", dense = "2_Dense/config.json";
  testing::expect_contains(refusal(kind, {{"bias", true}}, dense), "a dense layer with a bias");
  testing::expect_contains(refusal(kind, {{"activation_function", "torch.nn.modules.activation.Tanh"}}, dense),
                           "Tanh' is not supported");
  testing::expect_contains(refusal(kind, {{"out_features", 41}}, dense), "two, from 24 elements to F and back");
  for (const char* file : {"2_Dense/config.json", "3_Dense/config.json"}) {
    const char* key = std::string(file).starts_with("2") ? "in_features" : "out_features";
    testing::expect_contains(refusal(kind, {{key, 25}}, file), "two, from 24 elements to F and back");
  }
  json modules = json::parse(std::ifstream(golden_path(kind + "/modules.json")));
  modules.erase(2);
  testing::expect_contains(refusal(kind, modules, "modules.json"), "two, from 24 elements to F and back");
}

TEST(GemmaEmbedding, AFileWithoutItsMapsSaysSo) {
  const testing::Folder folder;
  const std::string copy = folder.path("copy");
  std::filesystem::copy(golden_path("gemma_embedding_tiny"), copy, std::filesystem::copy_options::recursive);
  json modules = json::parse(std::ifstream(copy + "/modules.json"));
  modules.erase(modules.begin() + 2, modules.begin() + 4);
  std::ofstream(copy + "/modules.json") << modules.dump();
  hf::convert_folder(copy, folder.path("x.gguf"));
  const auto device = make_test_device(1);
  const Model model = load_model(folder.path("x.gguf"), *device);
  EXPECT_EQ(model.spec.embedding_inner, 0);
  ASSERT_EQ(model.warnings.size(), 1u);
  testing::expect_contains(model.warnings[0], "dense_2, dense_3");
}

}  // namespace
}  // namespace toy
