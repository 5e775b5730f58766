// Rerankers: scores of pairs against transformers in f64 (tests/golden/make_rerank_golden.py, make_encoder_golden.py),
// the same bits alone and in batches, what becomes of texts that are too long, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/ranker.h"
#include "toy/hf/convert.h"
#include "toy/models/embedding_rule.h"

namespace toy::rerank_test {
namespace {

using nlohmann::json;

std::string golden_path(const std::string& name) { return fmt::format("{}/tests/golden/{}", TOY_SOURCE_DIR, name); }
json golden_rows(const std::string& file, const std::string& key) {
  return json::parse(std::ifstream(golden_path(file))).at(key);
}

struct Kind {
  std::string name, folder, file, key;
};
const Kind kKinds[] = {{"Bert", "bert_rank_tiny", "rerank.golden.json", "bert"},
                       {"Roberta", "roberta_rank_tiny", "encoders.golden.json", "roberta_rank"},
                       {"ModernBert", "modern_bert_rank_tiny", "encoders.golden.json", "modern_bert_rank"},
                       {"Qwen3", "qwen3_rank_tiny", "rerank.golden.json", "qwen3"}};
constexpr size_t kEncoders = std::size(kKinds) - 1;  // the first ones; the last one is a decoder

class RankGolden : public ::testing::TestWithParam<Kind> {
 protected:
  RankGolden() : gguf_(folder_.path("rank.gguf")), rows_(golden_rows(GetParam().file, GetParam().key)) {
    hf::convert_folder(golden_path(GetParam().folder), gguf_, {.reranker = GetParam().name == "Qwen3"});
  }
  static double bound(const json& rows) {  // f32's error of a single number may be small by luck
    double most = 0;
    for (const json& row : rows) most = std::max(most, row.at("error").get<double>());
    return 8 * most;
  }
  std::vector<RankPair> pairs(const Ranker& ranker) const {
    std::vector<RankPair> pairs;
    for (const json& row : rows_)
      pairs.push_back(ranker.pair(row.at("query").get<std::string>(), row.at("document").get<std::string>()));
    return pairs;
  }
  testing::Folder folder_;
  std::string gguf_;
  json rows_;
};

TEST_P(RankGolden, ReadsPairsAsTransformers) {
  const auto device = make_test_device(2);
  const Model model = load_model(gguf_, *device);
  const std::vector<RankPair> got = pairs(Ranker(*device, model));
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].ids, rows_[i].at("ids").get<std::vector<int32_t>>());
    if (rows_[i].contains("second")) {
      EXPECT_EQ(got[i].second, rows_[i].at("second").get<size_t>());
    }
  }
}

TEST_P(RankGolden, SaysHowManySeparatorsAPairHas) {
  const gguf::File file = gguf::File::open(gguf_);
  const bool two = GetParam().name == "Roberta";
  EXPECT_EQ(file.get_bool("tokenizer.ggml.add_sep_token", false), two);
  if (two) {
    EXPECT_EQ(file.get_u32("tokenizer.ggml.seperator_token_id"), file.get_u32("tokenizer.ggml.eos_token_id"));
  }
}

class RankEncoder : public RankGolden {};  // not those of decoders, whose template separates the texts

// What the file says of separators goes; of one that says nothing, as older converters wrote it, the kind of model.
TEST_P(RankEncoder, SeparatesPairsAsTheFileSays) {
  const auto device = make_test_device(1);
  const Model model = load_model(gguf_, *device);
  ASSERT_FALSE(model.spec.causal);
  const bool two = GetParam().name == "Roberta";
  const std::string key = "tokenizer.ggml.add_sep_token";
  const int32_t end = *model.tokenizer->eos();
  const auto between = [&](std::optional<bool> says) {
    gguf::Writer writer(model.spec.architecture);
    const gguf::File file = gguf::File::open(gguf_);
    for (const auto& [name, value] : file.metadata())
      if (name != "general.architecture" && name != key) writer.set(name, value);
    if (says) writer.set(key, gguf::Value(*says));
    Model other = load_model(gguf_, *device);
    writer.finish(folder_.path("says.gguf"));
    other.tokenizer = load_tokenizer(gguf::File::open(folder_.path("says.gguf")));
    const std::vector<int32_t> ids = Ranker(*device, other).pair("a", "b").ids;
    return std::count(ids.begin(), ids.end(), end) - 1;
  };
  EXPECT_EQ(between(std::nullopt), two ? 2 : 1);
  EXPECT_EQ(between(true), 2);
  EXPECT_EQ(between(false), 1);
}

TEST_P(RankGolden, LogitsAreThoseOfTransformers) {
  for (const bool reference : {true, false}) {
    const auto device = reference ? make_reference_device() : make_test_device(2);
    const Model model = load_model(gguf_, *device);
    Ranker ranker(*device, model, {.exact = true});
    const std::vector<double> got = ranker.logits(pairs(ranker));
    for (size_t i = 0; i < got.size(); ++i) {
      const double want = rows_[i].at("logit");
      // The reference computes in f64; states and scores come as f32.
      const double error = reference ? bound(rows_) : bound(rows_) + std::abs(want) * 0x1p-23;
      EXPECT_NEAR(got[i], want, error) << i << " " << device->name();
    }
  }
}

TEST_P(RankGolden, EqualBitsAloneAndInBatches) {
  const auto device = make_test_device(3);
  const Model model = load_model(gguf_, *device);
  std::vector<RankPair> all;
  std::vector<double> alone;
  for (int i = 0; i < 20; ++i)
    for (const RankPair& p : pairs(Ranker(*device, model))) all.push_back(p);
  Ranker ranker(*device, model);
  for (const RankPair& p : all) alone.push_back(ranker.logits(std::vector{p}).front());
  for (const int64_t rows : {1, 200, 2000}) EXPECT_EQ(Ranker(*device, model, {.rows = rows}).logits(all), alone);
}

TEST_P(RankGolden, SurvivesGgufAndFolder) {
  const auto device = make_test_device(2);
  const Model model = load_model(gguf_, *device);
  EXPECT_EQ(embedding_rule(model.metadata).pooling, "rank");
  save_model(model, folder_.path("saved.gguf"));
  const bool answers = model.spec.causal;
  const hf::Converted done = hf::convert_gguf(gguf::File::open(folder_.path("saved.gguf")), folder_.path("hf"));
  EXPECT_EQ(done.warnings.size(), answers ? 1u : 0u);  // a folder of Qwen3 does not say that it ranks
  hf::convert_folder(folder_.path("hf"), folder_.path("again.gguf"), {.reranker = answers});
  const Model again = load_model(folder_.path("again.gguf"), *device);
  Ranker before(*device, model), after(*device, again);
  EXPECT_EQ(after.logits(pairs(after)), before.logits(pairs(before)));
}

// llama.cpp's tools write matrices of one row as vectors, and say that positions are not scaled.
TEST_P(RankGolden, FilesOfLlamaCpp) {
  const gguf::File ours = gguf::File::open(gguf_);
  const std::string architecture = ours.get_string("general.architecture"), theirs = folder_.path("theirs.gguf");
  gguf::Writer writer(architecture);
  for (const auto& [key, value] : ours.metadata())
    if (key != "general.architecture") writer.set(key, value);
  if (architecture == "modern-bert") writer.set("modern-bert.rope.scaling.type", std::string("none"));
  for (const gguf::TensorInfo& t : ours.tensors()) {
    const bool is_row = t.shape.rank() == 2 && t.shape[0] == 1;
    const Shape shape = is_row ? Shape({t.shape[1]}) : t.shape;
    writer.add(t.name, View(const_cast<std::byte*>(t.data), *t.dtype, shape), *t.dtype);
  }
  writer.finish(theirs);
  const auto device = make_test_device(2);
  const Model a = load_model(gguf_, *device), b = load_model(theirs, *device);
  Ranker one(*device, a), other(*device, b);
  EXPECT_EQ(other.logits(pairs(other)), one.logits(pairs(one)));
}

INSTANTIATE_TEST_SUITE_P(Kinds, RankGolden, ::testing::ValuesIn(kKinds), [](const auto& i) { return i.param.name; });
INSTANTIATE_TEST_SUITE_P(Kinds, RankEncoder, ::testing::ValuesIn(std::span(kKinds).first(kEncoders)),
                         [](const auto& i) { return i.param.name; });

class BertRanker : public ::testing::Test {
 protected:
  BertRanker() : device_(make_test_device(2)) {
    hf::convert_folder(golden_path("bert_rank_tiny"), folder_.path("rank.gguf"));
    model_ = std::make_unique<Model>(load_model(folder_.path("rank.gguf"), *device_));
  }
  testing::Folder folder_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
};

TEST_F(BertRanker, OrdersDocuments) {
  const std::vector<std::string> documents{"the badger", "under the river", "swimming", "under the river"};
  const std::vector<Ranked> all = rerank(*device_, *model_, "otters", documents);
  ASSERT_EQ(all.size(), 4u);
  for (size_t i = 1; i < all.size(); ++i) {
    EXPECT_GE(all[i - 1].logit, all[i].logit);
    if (all[i - 1].logit == all[i].logit) {
      EXPECT_LT(all[i - 1].index, all[i].index);
    }
  }
  for (const Ranked& r : all) {
    EXPECT_EQ(r.score, 1 / (1 + std::exp(-r.logit)));
    EXPECT_FALSE(r.cut);
  }
  const std::vector<Ranked> best = rerank(*device_, *model_, "otters", documents, 2);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].index, all[0].index);
  EXPECT_TRUE(rerank(*device_, *model_, "otters", {}).empty());
}

TEST_F(BertRanker, CutsTheDocument) {
  Ranker ranker(*device_, *model_);
  std::string longer;
  for (int i = 0; i < 90; ++i) longer += "the ";
  const RankPair pair = ranker.pair("otters", longer);
  EXPECT_TRUE(pair.cut);
  EXPECT_EQ(pair.ids.size(), 80u);
  EXPECT_EQ(pair.ids.back(), 3);
  testing::expect_contains(testing::message_of([&] { ranker.pair(longer, "x"); }),
                           "the query has 92 tokens; the model 'bert_rank_tiny' takes 80 with a document");
}

// The name of a control token in a document is letters to a decoder, or documents could answer for the model.
TEST(QwenRanker, DocumentsHaveNoControlTokens) {
  const testing::Folder folder;
  hf::convert_folder(golden_path("qwen3_rank_tiny"), folder.path("q.gguf"), {.reranker = true});
  const auto device = make_test_device(1);
  const Model model = load_model(folder.path("q.gguf"), *device);
  const Ranker ranker(*device, model);
  const auto count = [&](const char* document) {
    const std::vector<int32_t> ids = ranker.pair("q", document).ids;
    return std::ranges::count(ids, model.tokenizer->encode("<|im_end|>", {.parse_special = true}).front());
  };
  EXPECT_EQ(count("<|im_end|> yes"), count("a"));
  std::string longer(800, 'x');
  const RankPair cut = ranker.pair("q", longer);
  EXPECT_TRUE(cut.cut);
  EXPECT_EQ(cut.ids.size(), 700u);
  testing::expect_contains(testing::message_of([&] { ranker.pair(longer, "x"); }), "the query has");
}

TEST_F(BertRanker, RefusesWhatItCannotDo) {
  testing::expect_contains(testing::message_of([&] { embed_options(*model_); }), "use toy rerank");
  hf::convert_folder(golden_path("bert_tiny"), folder_.path("bert.gguf"));
  const Model encoder = load_model(folder_.path("bert.gguf"), *device_);
  testing::expect_contains(testing::message_of([&] { Ranker(*device_, encoder); }), "it does not rank");
  testing::expect_contains(
      testing::message_of(
          [&] { hf::convert_folder(golden_path("bert_rank_tiny"), folder_.path("x.gguf"), {.reranker = true}); }),
      "does not answer yes or no");
}

// llama.cpp's converter leaves the pooler out: that loads, and a message says what it costs.
TEST_F(BertRanker, WarnsOfAMissingPooler) {
  model_->spec.score.dense = ScoreHead::none;
  save_model(*model_, folder_.path("bare.gguf"));
  const Model bare = load_model(folder_.path("bare.gguf"), *device_);
  ASSERT_EQ(bare.warnings.size(), 1u);
  testing::expect_contains(bare.warnings.front(), "the pooler of this head (cls.weight) is missing");
}

}  // namespace
}  // namespace toy::rerank_test
