// Encoders: a BertModel with random weights against transformers in f64 (tests/golden/make_bert_golden.py), the same
// bits alone and in batches, and where they are refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include <filesystem>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/encoder.h"
#include "toy/decode/generate.h"
#include "toy/hf/convert.h"
#include "toy/models/embedding_rule.h"

namespace toy::encoder_test {
namespace {

using nlohmann::json;
using Texts = std::vector<std::vector<int32_t>>;

class BertGolden : public ::testing::Test {
 protected:
  BertGolden() : gguf_(folder_.path("bert.gguf")) {
    hf::convert_folder(source(), gguf_);
    golden_ = json::parse(std::ifstream(fmt::format("{}/tests/golden/bert.golden.json", TOY_SOURCE_DIR)));
  }
  static std::string source() { return fmt::format("{}/tests/golden/bert_tiny", TOY_SOURCE_DIR); }
  std::vector<std::vector<int32_t>> rows() const {
    std::vector<std::vector<int32_t>> rows;
    for (const json& row : golden_.at("rows")) rows.push_back(row.at("ids"));
    return rows;
  }
  std::vector<std::vector<float>> hidden(Device& device, const Model& model, std::span<const std::vector<int32_t>> ids,
                                         const EncoderOptions& options = {}) const {
    return Encoder(device, model, options).embed(ids, {.pooling = Pooling::none, .normalize = false});
  }
  testing::Folder folder_;
  std::string gguf_;
  json golden_;
};

TEST_F(BertGolden, HiddenStatesAreThoseOfTransformers) {
  for (const bool reference : {true, false}) {
    const auto device = reference ? make_reference_device() : make_test_device(2);
    const Model model = load_model(gguf_, *device);
    const auto got = hidden(*device, model, rows());
    for (size_t i = 0; i < got.size(); ++i) {
      const json& row = golden_.at("rows")[i];
      // What PyTorch's f32 is off by is the size of f32's error here; ours adds up in another order. The reference
      // computes in f64; its states come as f32, and the golden file has 9 digits.
      const double error = reference ? 0 : 8 * double(row.at("error"));
      size_t at = 0;
      for (const json& token : row.at("hidden"))
        for (const double want : token)
          ASSERT_NEAR(got[i][at++], want, error + std::abs(want) * 0x1p-24 + 1e-9) << i << " " << device->name();
      EXPECT_EQ(at, got[i].size());
    }
  }
}

TEST_F(BertGolden, TokensAreThoseOfBertTokenizer) {
  const auto tokenizer = load_tokenizer(gguf::File::open(gguf_));
  for (const json& text : golden_.at("texts")) {
    EXPECT_EQ(encode_for_embedding(*tokenizer, text.at("text").get<std::string>(), 0),
              text.at("ids").get<std::vector<int32_t>>());
  }
  const std::string otters = golden_.at("texts")[1].at("text");  // the end token stays where a text is cut
  EXPECT_EQ(encode_for_embedding(*tokenizer, otters, 5), (std::vector<int32_t>{2, 12, 7, 10, 3}));
}

TEST_F(BertGolden, EqualBitsAloneAndInBatches) {
  const Texts once = rows();
  Texts texts;
  for (int i = 0; i < 4; ++i) texts.insert(texts.end(), once.begin(), once.end());
  for (const int threads : {1, 3}) {
    const auto device = make_test_device(threads);
    const Model model = load_model(gguf_, *device);
    std::vector<std::vector<float>> alone;
    for (const auto& text : texts) alone.push_back(hidden(*device, model, Texts{text}).front());
    for (const int64_t rows : {1, 61, 100, 2000}) EXPECT_EQ(hidden(*device, model, texts, {.rows = rows}), alone);
  }
}

TEST_F(BertGolden, PoolingNormalizationAndDimensions) {
  const auto device = make_test_device(2);
  const Model model = load_model(gguf_, *device);
  EXPECT_EQ(embed_options(model).pooling, Pooling::mean);
  EXPECT_TRUE(embed_options(model).normalize);
  EXPECT_EQ(most_tokens_to_embed(model), 64);
  const std::vector<std::vector<int32_t>> text{rows()[2]};
  const auto all = hidden(*device, model, text).front();
  const auto vector = [&](const EmbedOptions& o) { return embed_tokens(*device, model, text, o).front(); };
  const size_t d = 24, n = 7;
  const auto first = vector({.pooling = Pooling::first, .normalize = false});
  const auto last = vector({.pooling = Pooling::last, .normalize = false});
  const auto mean = vector({.pooling = Pooling::mean, .normalize = false});
  for (size_t k = 0; k < d; ++k) {
    EXPECT_EQ(first[k], all[k]);
    EXPECT_EQ(last[k], all[(n - 1) * d + k]);
    double sum = 0;
    for (size_t row = 0; row < n; ++row) sum += double(all[row * d + k]);
    EXPECT_EQ(mean[k], float(sum / n));
  }
  const auto five = vector({.dimensions = 5});
  ASSERT_EQ(five.size(), 5u);
  double length = 0, of_mean = 0;
  for (size_t k = 0; k < 5; ++k)
    length += double(five[k]) * double(five[k]), of_mean += double(mean[k]) * double(mean[k]);
  EXPECT_NEAR(length, 1, 6 * 0x1p-23);
  for (size_t k = 0; k < 5; ++k) EXPECT_NEAR(five[k], double(mean[k]) / std::sqrt(of_mean), 0x1p-22);
  testing::expect_contains(testing::message_of([&] { vector({.dimensions = 25}); }), "dimensions is 25");
}

// The file says what the folder does, again after it was read and written.
TEST_F(BertGolden, SurvivesGgufAndFolder) {
  const auto device = make_test_device(2);
  const Model model = load_model(gguf_, *device);
  EXPECT_TRUE(model.warnings.empty()) << model.warnings.front();
  save_model(model, folder_.path("saved.gguf"));
  hf::convert_gguf(gguf::File::open(folder_.path("saved.gguf")), folder_.path("hf"));
  hf::convert_folder(folder_.path("hf"), folder_.path("again.gguf"));
  const Model again = load_model(folder_.path("again.gguf"), *device);
  EXPECT_EQ(again.tokenizer->fingerprint(), model.tokenizer->fingerprint());
  const EmbeddingRule rule = embedding_rule(again.metadata);
  EXPECT_EQ(rule.pooling, "mean");
  EXPECT_EQ(rule.normalize, true);
  EXPECT_EQ(rule.max_tokens, 64);
  EXPECT_EQ(hidden(*device, again, rows()), hidden(*device, model, rows()));
}

TEST_F(BertGolden, RefusesWhatItCannotDo) {
  const auto device = make_test_device(1);
  const Model model = load_model(gguf_, *device);
  testing::expect_contains(testing::message_of([&] { generate(*device, model, "the badger"); }), "it is an encoder");
  const auto embeds = [&](std::vector<int32_t> ids) {
    return testing::message_of([&] { embed_tokens(*device, model, Texts{ids}, {}); });
  };
  testing::expect_contains(embeds({}), "there are no tokens");
  testing::expect_contains(embeds({61}), "token 61 is outside the vocabulary (0 to 60)");
  testing::expect_contains(embeds(std::vector<int32_t>(81)), "it has 81 tokens; the model");
}

// What a folder's pooling may say.
TEST_F(BertGolden, PoolingOfTheFolder) {
  const std::string copy = folder_.path("copy");
  std::filesystem::copy(source(), copy, std::filesystem::copy_options::recursive);
  const auto with = [&](const std::string& file, const std::string& text) {
    std::ofstream(copy + "/" + file) << text;
    hf::convert_folder(copy, folder_.path("copy.gguf"));
    return embedding_rule(gguf::File::open(folder_.path("copy.gguf")).metadata());
  };
  const std::string pooling = "1_Pooling/config.json";
  EXPECT_EQ(with(pooling, R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})").pooling, "cls");
  EXPECT_EQ(with(pooling, R"({"pooling_mode": "lasttoken"})").pooling, "last");
  EXPECT_EQ(with(pooling, "{}").pooling, "mean");
  testing::expect_contains(testing::message_of([&] { with(pooling, R"({"pooling_mode_cls_token": true})"); }),
                           "pooling_mode_cls_token and pooling_mode_mean_tokens");
  testing::expect_contains(testing::message_of([&] {
                             with(pooling, R"({"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false})");
                           }),
                           "supported is one of");
  with(pooling, "{}");
  EXPECT_EQ(
      with("modules.json", R"([{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "1_Pooling"}])").normalize,
      false);
  testing::expect_contains(
      testing::message_of([&] {
        with("modules.json", R"([{"type": "a.Pooling", "path": "1_Pooling"}, {"type": "a.Dense", "path": "2_Dense"}])");
      }),
      "'Dense' is not supported");
}

}  // namespace
}  // namespace toy::encoder_test
