// A look inside encoders: what they fill in at masks next to PyTorch (tests/golden/make_mlm_golden.py), attention in
// both directions, rows next to the encoder's own, classes; and models with experts and bytes that are no text, as
// pages.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/mask_model.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/text_classifier.h"
#include "toy/look/compare.h"
#include "toy/look/look.h"

namespace toy::encoders_test {
namespace {

using nlohmann::json;

std::string golden(const std::string& name) { return std::string(TOY_SOURCE_DIR) + "/tests/golden/" + name; }

// The numbers that a page holds.
json data_of(const std::string& page) {
  const std::string begin = "const data = ";
  const size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find(";\n", at) - at));
}

TEST(LookEncoder, FillsInMasksAsPyTorch) {
  std::ifstream file(golden("mlm.golden.json"));
  const json want = json::parse(file);
  for (const bool reference : {true, false}) {
    const testing::Folder folder;
    const auto device = reference ? make_reference_device() : make_test_device(2);
    const Model model = testing::mask_model(*device, folder);
    size_t at = 0;
    for (size_t row = 0; row < want.at("inputs").size(); ++row) {
      const std::vector<int32_t> ids = want.at("inputs")[row];
      const Look seen = look(*device, model, ids, {.top = model.spec.vocab, .exact = true});
      EXPECT_FALSE(seen.causal);
      EXPECT_EQ(seen.random_tokens, 0);
      for (size_t t = 0; t < ids.size(); ++t, ++at) {
        const double nll = want.at("nll")[at];
        double itself = 0;
        for (const TokenChance& c : seen.output(t).top) {
          if (c.id == want.at("words")[row][t]) {
            EXPECT_NEAR(-std::log(c.probability), nll, 8 * want.at("nll_error").get<double>() + nll * 0x1p-23) << at;
          }
          if (c.id == ids[t]) itself = c.probability;
        }
        EXPECT_EQ(seen.prediction(t).next, itself);
        EXPECT_EQ(seen.output(t).kl, 0);
      }
    }
    EXPECT_EQ(at, want.at("nll").size());
  }
}

class LookKinds : public ::testing::TestWithParam<std::string> {};

// Rows of attention see all tokens, or those in a window to both sides; the rows that leave the last layer are those of
// the encoder.
TEST_P(LookKinds, SeeBothDirections) {
  const testing::Folder folder;
  hf::convert_folder(golden(GetParam()), folder.path("it.gguf"));
  const auto device = make_test_device(2);
  Model model = load_model(folder.path("it.gguf"), *device);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 14; ++i) ids.push_back((7 * i + 5) % int32_t(model.spec.vocab));
  const Look seen = look(*device, model, ids);
  EXPECT_FALSE(seen.causal);
  EXPECT_FALSE(seen.predicts());
  const auto hidden =
      Encoder(*device, model)
          .embed(std::vector<std::vector<int32_t>>{ids}, {.pooling = Pooling::none, .normalize = false});
  if (!model.spec.final_norm)
    for (size_t t = 0; t < ids.size(); ++t) {
      double sum = 0;
      for (int64_t i = 0; i < model.spec.d_model; ++i)
        sum += std::pow(double(hidden[0][t * size_t(model.spec.d_model) + size_t(i)]), 2);
      EXPECT_DOUBLE_EQ(seen.layers.back().norm[t], std::sqrt(sum)) << t;
    }
  bool behind = false;
  for (const LayerLook& layer : seen.layers) {
    ASSERT_FALSE(layer.heads.empty());
    for (const HeadLook& head : layer.heads)
      for (size_t row = 0; row < ids.size(); ++row) {
        double sum = 0;
        for (size_t j = 0; j < ids.size(); ++j) {
          const double p = head.weights[row * ids.size() + j];
          const size_t far = j > row ? j - row : row - j;
          EXPECT_EQ(p > 0, layer.window == 0 || far < size_t(layer.window)) << row << " " << j;
          sum += p, behind = behind || j > row;
        }
        EXPECT_NEAR(sum, 1, 14 * 0x1p-24);
      }
  }
  EXPECT_TRUE(behind);
  // Queries and keys of the first layer do not depend on who sees whom. With the same weights, a causal model divides
  // the weights of the tokens so far by their sum; each of both is rounded to f32.
  model.spec.causal = true;
  const Look causal = look(*device, model, ids);
  const auto &both = seen.layers[0].heads, &before = causal.layers[0].heads;
  for (size_t h = 0; h < both.size(); ++h)
    for (size_t row = 0; row < ids.size(); ++row) {
      double sum = 0;
      for (size_t j = 0; j <= row; ++j) sum += both[h].weights[row * ids.size() + j];
      for (size_t j = 0; j <= row; ++j)
        EXPECT_NEAR(before[h].weights[row * ids.size() + j], both[h].weights[row * ids.size() + j] / sum, 4 * 0x1p-24);
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, LookKinds,
                         ::testing::Values("bert_tiny", "roberta_tiny", "nomic_bert_tiny", "modern_bert_tiny",
                                           "jina_bert_tiny", "nomic_moe_tiny"),
                         [](const auto& i) { return i.param; });

TEST(LookEncoder, ClassifiersTellTheirClasses) {
  const testing::Folder folder;
  hf::convert_folder(golden("bert_class_tiny"), folder.path("class.gguf"));
  const auto device = make_test_device(2);
  const Model model = load_model(folder.path("class.gguf"), *device);
  std::ifstream file(golden("classify.golden.json"));
  const json text = json::parse(file).at("texts")[0];
  const Look seen = look(*device, model, text.at("ids").get<std::vector<int32_t>>());
  const auto classes = classify_texts(*device, model, {text.at("text")})[0];
  ASSERT_EQ(seen.classes.size(), classes.size());
  for (size_t i = 0; i < classes.size(); ++i) {
    EXPECT_EQ(seen.classes[i].name, classes[i].name);
    EXPECT_EQ(seen.classes[i].probability, classes[i].probability);
  }
  const json j = to_json(seen, model.tokenizer.get());
  EXPECT_EQ(j.at("classes")[0].at("name"), classes[0].name);
  EXPECT_FALSE(j.at("layers")[0].contains("top"));
  EXPECT_FALSE(j.at("tokens")[1].contains("probability"));
  const json data = data_of(to_html(seen, model.tokenizer.get(), "x"));
  EXPECT_EQ(data.at("causal"), false);
  // All weights: T by T of each head, three bytes in four letters.
  const size_t weights = model.spec.layers[0].heads * seen.ids.size() * seen.ids.size();
  EXPECT_EQ(data.at("layers")[0].at("attention").get<std::string>().size(), (weights + 2) / 3 * 4);
  testing::expect_contains(
      testing::message_of([&] { compare_looks(*device, {.model = model}, {.model = model}, seen.ids, {}); }),
      "readings of encoders are not compared");
}

// The experts of each token are on the page.
TEST(LookPages, ShowExperts) {
  ModelSpec spec = testing::small_model(
      "tiny",
      {.vocab = 61, .d_model = 16, .context = 32, .layers = 2, .heads = 2, .kv_heads = 1, .d_head = 8, .d_ff = 24});
  for (LayerSpec& l : spec.layers) l.experts = {.count = 5, .used = 2};
  const auto device = make_test_device(1);
  const Model model = random_model(spec, *device, 3);
  const std::vector<int32_t> ids = testing::random_ids(9, 61, Philox(4));
  const Look seen = look(*device, model, ids);
  ASSERT_EQ(seen.layers[1].experts.size(), ids.size());
  const std::string page = to_html(seen, nullptr, "experts");
  const json data = data_of(page);
  EXPECT_EQ(data.at("layers")[1].at("experts").get<std::vector<std::vector<int32_t>>>(), seen.layers[1].experts);
  EXPECT_NE(page.find("<table id=\"etable\">"), page.npos);
}

// Bytes that are no text are told apart, and numbers with them can be written as JSON by anybody.
TEST(LookPages, ShowBytesThatAreNoText) {
  const auto device = make_test_device(1);
  Model model = random_model(
      testing::small_model(
          "tiny", {.vocab = 256, .d_model = 16, .context = 32, .heads = 2, .kv_heads = 2, .d_head = 8, .d_ff = 24}),
      *device, 3);
  model.tokenizer = make_byte_tokenizer();
  const Tokenizer* tokenizer = model.tokenizer.get();
  EXPECT_EQ(text_of(tokenizer, 0xFF), "\\xFF");
  EXPECT_EQ(text_of(tokenizer, 'a'), "a");
  EXPECT_EQ(text_of(nullptr, 0xFF), "255");
  const std::vector<int32_t> ids{'a', 0xFF, 0xFE, 0xC3};
  const Look seen = look(*device, model, ids);
  const json j = json::parse(to_json(seen, tokenizer).dump());
  EXPECT_EQ(j.at("tokens")[0].at("text"), "a");
  EXPECT_FALSE(j.at("tokens")[0].contains("bytes"));
  EXPECT_EQ(j.at("tokens")[1].at("text"), "\uFFFD");
  EXPECT_EQ(j.at("tokens")[1].at("bytes"), json::parse("[255]"));
  EXPECT_EQ(j.at("tokens")[2].at("bytes"), json::parse("[254]"));
  EXPECT_EQ(j.at("tokens")[3].at("bytes"), json::parse("[195]"));
  EXPECT_EQ(data_of(to_html(seen, tokenizer, "x")).at("tokens")[2].at("bytes"), json::parse("[254]"));
  const LookDifference same = compare_looks(*device, {.model = model}, {.model = model}, ids, {});
  EXPECT_EQ(json::parse(to_json(same, tokenizer).dump()).at("tokens")[1].at("bytes"), json::parse("[255]"));
}

}  // namespace
}  // namespace toy::encoders_test
