// Encoders of other kinds with random weights against transformers in f64, or where it has no such class, against plain
// PyTorch (tests/golden/make_encoder_golden.py).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/encoder.h"
#include "toy/formats/safetensors.h"
#include "toy/hf/convert.h"

namespace toy::encoder_kinds_test {
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
      const bool turns = GetParam() == "nomic_bert" || GetParam() == "modern_bert";
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
  if (written) {
    EXPECT_EQ(again.tokenizer->fingerprint(), model.tokenizer->fingerprint());
  }
  EXPECT_EQ(hidden(*device, again, rows()), hidden(*device, model, rows()));
}

INSTANTIATE_TEST_SUITE_P(Kinds, EncoderKinds,
                         ::testing::Values("roberta", "nomic_bert", "modern_bert", "xlm_roberta", "gemma_embedding",
                                           "jina_bert", "nomic_moe"),
                         [](const auto& i) { return i.param; });
INSTANTIATE_TEST_SUITE_P(Kinds, EncoderTokens,
                         ::testing::Values("roberta", "modern_bert", "xlm_roberta", "gemma_embedding"),
                         [](const auto& i) { return i.param; });

// Folders of models that fill in masks, as transformers writes them: the body's names have a prefix, and there is a
// head. It is left out, and the body is the same to the byte.
struct MaskFolder {
  const char *kind, *class_name, *prefix;
  std::vector<std::pair<std::string, Shape>> head;  // of 24 columns
  int64_t vocab;
};
const MaskFolder kMaskFolders[] = {
    {"roberta",
     "RobertaForMaskedLM",
     "roberta.",
     {{"lm_head.dense.weight", {24, 24}},
      {"lm_head.dense.bias", {24}},
      {"lm_head.layer_norm.weight", {24}},
      {"lm_head.layer_norm.bias", {24}},
      {"lm_head.bias", {263}}},
     263},
    {"xlm_roberta",
     "XLMRobertaForMaskedLM",
     "roberta.",
     {{"lm_head.dense.weight", {24, 24}},
      {"lm_head.dense.bias", {24}},
      {"lm_head.layer_norm.weight", {24}},
      {"lm_head.layer_norm.bias", {24}},
      {"lm_head.bias", {38}},
      {"lm_head.decoder.weight", {38, 24}},  // older files have the tied weights, too
      {"lm_head.decoder.bias", {38}}},
     38},
    {"modern_bert",
     "ModernBertForMaskedLM",
     "model.",
     {{"head.dense.weight", {24, 24}}, {"head.norm.weight", {24}}, {"decoder.bias", {263}}},
     263}};

void PrintTo(const MaskFolder& m, std::ostream* out) { *out << m.class_name; }

class MaskFolders : public ::testing::TestWithParam<MaskFolder> {
 protected:
  // Copies the golden folder of the body alone to one of that class.
  void write() const {
    const MaskFolder& p = GetParam();
    std::filesystem::copy(golden_path(std::string(p.kind) + "_tiny"), folder_.path("hf"));
    json config = json::parse(std::ifstream(folder_.path("hf/config.json")));
    config["architectures"] = {p.class_name};
    std::ofstream(folder_.path("hf/config.json")) << config.dump();
    const auto body = safetensors::File::open(golden_path(std::string(p.kind) + "_tiny/model.safetensors"));
    std::vector<float> values(size_t(p.vocab) * 24);
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 7) - 3;
    safetensors::Writer writer;
    for (const auto& [name, view] : body.tensors())
      if (!name.starts_with("pooler.")) writer.add(p.prefix + name, view);
    for (const auto& [name, shape] : p.head) writer.add(name, View(values.data(), DType::f32, shape));
    writer.finish(folder_.path("hf/model.safetensors"));
  }
  testing::Folder folder_;
};

TEST_P(MaskFolders, AreReadWithoutTheirHead) {
  write();
  const hf::Converted done = hf::convert_folder(folder_.path("hf"), folder_.path("masks.gguf"));
  const hf::Converted plain =
      hf::convert_folder(golden_path(std::string(GetParam().kind) + "_tiny"), folder_.path("body.gguf"));
  const gguf::File masks = gguf::File::open(folder_.path("masks.gguf")),
                   body = gguf::File::open(folder_.path("body.gguf"));
  EXPECT_FALSE(spec_from_gguf(masks).mask_head);
  ASSERT_EQ(masks.tensors().size(), body.tensors().size());
  for (const gguf::TensorInfo& t : body.tensors()) {
    const gguf::TensorInfo* same = masks.find(t.name);
    ASSERT_TRUE(same) << t.name;
    ASSERT_EQ(same->shape, t.shape) << t.name;
    EXPECT_EQ(std::memcmp(same->data, t.data, t.bytes), 0) << t.name;
  }
  EXPECT_EQ(done.warnings, plain.warnings);
}

INSTANTIATE_TEST_SUITE_P(Classes, MaskFolders, ::testing::ValuesIn(kMaskFolders),
                         [](const auto& i) { return i.param.class_name; });

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
  testing::expect_contains(refusal("nomic_bert_tiny", {{"num_experts", 8}}), "'qkv_proj_bias'");
  testing::expect_contains(refusal("nomic_moe_tiny", {{"moe_normalize_expert_weights", true}}),
                           "'moe_normalize_expert_weights'");
  testing::expect_contains(refusal("nomic_moe_tiny", {{"activation_function", "swiglu"}}), "'activation_function'");
  testing::expect_contains(refusal("nomic_moe_tiny", {{"moe_every_n_layers", 1}}), "'moe_every_n_layers' is 1");
  testing::expect_contains(refusal("nomic_moe_tiny", {{"moe_top_k", 6}}), "experts_used is 6, expected 1 to 5");
  testing::expect_contains(refusal("jina_bert_tiny", {{"feed_forward_type", "reglu"}}), "'feed_forward_type'");
  testing::expect_contains(refusal("jina_bert_tiny", {{"_name_or_path", "jinaai/jina-bert-v2-qk-post-norm"}}),
                           "jina-embeddings-v2-base-code");
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
}  // namespace toy::encoder_kinds_test
