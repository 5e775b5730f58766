// Added and special tokens of Hugging Face folders, whichever of their files names them. The ids are those that
// transformers 5.24 gives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "files_in_json.h"
#include "folders.h"
#include "testing/errors.h"
#include "testing/family_golden.h"
#include "toy/hf/convert.h"
#include "toy/models/model.h"

namespace toy::added_tokens_test {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

// Byte-level BPE of three letters, and rows of the embedding to spare.
struct Folder {
  json files = {
      {"config.json", json::object()},
      {"tokenizer_config.json", json::object()},
      {"tokenizer.json",
       {{"added_tokens", {{{"id", 4}, {"content", "<s>"}, {"special", true}}}},
        {"normalizer", nullptr},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
        {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"c", 3}}}, {"merges", {"a b"}}}}}}};
  Strings warnings = {};
  std::shared_ptr<const Tokenizer> read(int64_t vocab = 12) {
    warnings.clear();
    return hf::read_tokenizer(testing::files_in_json(hf::Config(files, "folder")), vocab, warnings);
  }
  json& config() { return files["tokenizer_config.json"]; }
};

Ids special_ids(const Tokenizer& t, const std::string& text) { return t.encode(text, {.parse_special = true}); }

TEST(HfAddedTokens, OfTheDecoder) {
  Folder f;
  f.config() = {{"eos_token", "<|im_end|>"},
                {"added_tokens_decoder",
                 {{"4", {{"content", "<s>"}, {"special", true}}},
                  {"6", {{"content", "<|im_end|>"}, {"special", true}}},
                  {"7", {{"content", "<think>"}, {"special", false}}}}}};
  const auto t = f.read();
  EXPECT_EQ(f.warnings, Strings());
  EXPECT_EQ(t->eos(), 6);
  EXPECT_EQ(special_ids(*t, "ab<|im_end|>c"), (Ids{2, 6, 3}));
  EXPECT_EQ(t->encode("ab<think>c"), (Ids{2, 7, 3}));  // user-defined
  EXPECT_EQ(t->end_of_generation(), Ids{6});
  // Another token of an id that tokenizer.json has.
  f.config()["added_tokens_decoder"]["3"] = {{"content", "<x>"}, {"special", true}};
  EXPECT_EQ(special_ids(*f.read(), "c"), Ids{3});
  EXPECT_EQ(f.warnings, Strings{"token 3 is 'c' in tokenizer.json, which counts, and '<x>' in tokenizer_config.json"});
}

TEST(HfAddedTokens, OfAddedTokensJson) {
  Folder f;
  f.files["added_tokens.json"] = {{"<|x|>", 5}, {"<|im_end|>", 6}};
  f.files["special_tokens_map.json"] = {{"eos_token", "<|im_end|>"}};
  const auto t = f.read();
  EXPECT_EQ(f.warnings, Strings());
  EXPECT_EQ(t->eos(), 6);
  EXPECT_EQ(t->encode("<|x|>"), Ids{5});
  EXPECT_EQ(t->token_bytes(5), "<|x|>");  // shown
  EXPECT_EQ(t->token_bytes(6), "");       // control, as it is named as special
}

// Without ids: that of the text where it is a token, else the next ones.
TEST(HfAddedTokens, OfListsOfNames) {
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"})
    for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
      Folder f;
      f.files[file][key] = {"c", {{"content", "<|new|>"}, {"lstrip", false}}, "<|newer|>", "<|new|>"};
      const auto t = f.read();
      EXPECT_EQ(special_ids(*t, "abc<|new|><|newer|>"), (Ids{2, 3, 5, 6})) << key << file;
      EXPECT_EQ(t->token_bytes(3), "");
      EXPECT_EQ(f.warnings, (Strings{"no file states the id of the special token '<|new|>'; it is 5, the next one",
                                     "no file states the id of the special token '<|newer|>'; it is 6, the next one"}));
    }
  Folder f;
  f.config()["extra_special_tokens"] = {{"image_token", "<image>"}, {"eoi_token", "<s>"}};
  EXPECT_EQ(special_ids(*f.read(), "<image>"), Ids{5});
  f.config()["extra_special_tokens"] = {1};
  testing::expect_contains(testing::message_of([&] { f.read(); }),
                           "'extra_special_tokens' has 1, which is not a token");
}

TEST(HfAddedTokens, WithoutRoomForThem) {
  Folder f;
  f.config() = {{"eos_token", "</s>"}, {"pad_token", "<pad>"}};
  EXPECT_EQ(f.read(6)->eos(), 5);
  ASSERT_EQ(f.warnings.size(), 2u);
  EXPECT_EQ(f.warnings[1],
            "the special token '<pad>' has no id: no file states one, and the embedding's 6 rows have tokens");
  EXPECT_EQ(f.read(5)->eos(), std::nullopt);
  testing::expect_contains(f.warnings[0], "the special token '</s>' has no id");
}

// Their ids are stated, so that they get no others; the rest of the vocabulary works.
TEST(HfAddedTokens, BeyondTheEmbeddingAreLeftOut) {
  Folder f;
  f.files["tokenizer.json"]["added_tokens"].push_back({{"id", 6}, {"content", "<a>"}});
  f.files["tokenizer.json"]["added_tokens"].push_back({{"id", 3'000'000'000}, {"content", "<b>"}});
  f.config() = {{"eos_token", "<far>"}, {"added_tokens_decoder", {{"9", {{"content", "<far>"}, {"special", true}}}}}};
  f.files["added_tokens.json"] = {{"<5>", 5}, {"<7>", 7}};
  const auto t = f.read(6);
  EXPECT_EQ(t->vocab_size(), 6);
  EXPECT_EQ(t->eos(), std::nullopt);
  EXPECT_EQ(special_ids(*t, "<s>ab<5>"), (Ids{4, 2, 5}));
  EXPECT_EQ(f.warnings,
            (Strings{"tokenizer.json: token 6, '<a>', is left out (and 1 more), because the embedding has only 6 rows",
                     "tokenizer_config.json: token 9, '<far>', is left out, because the embedding has only 6 rows",
                     "added_tokens.json: token 7, '<7>', is left out, because the embedding has only 6 rows"}));
}

// ---- outputs

class HfOutput : public ::testing::Test {
 protected:
  void SetUp() override { hf::convert_gguf(gguf::File::open(g_.write()), folder_); }
  void ties(bool tied) const {
    json config = testing::read_json_file(folder_ + "/config.json");
    config["tie_word_embeddings"] = tied;
    testing::write_text(folder_ + "/config.json", config.dump());
  }
  // Writes the tensors again, with the embedding as the output, or twice it.
  void with_output(float factor) const {
    const safetensors::File file = safetensors::File::open(folder_ + "/model.safetensors");
    const View& embedding = file.tensors().at("model.embed_tokens.weight");
    std::vector<float> values(embedding.as<float>(), embedding.as<float>() + embedding.count());
    for (float& v : values) v *= factor;
    safetensors::Writer writer;
    for (const auto& [name, view] : file.tensors())
      if (name != "lm_head.weight") writer.add(name, view);
    writer.add("lm_head.weight", View(values.data(), DType::f32, embedding.shape));
    writer.finish(folder_ + "/model.safetensors");
  }
  const testing::GoldenFamily g_{"qwen3"};
  const std::string folder_ = g_.folder.path("hf"), out_ = g_.folder.path("out.gguf");
};

TEST_F(HfOutput, OneThatDiffersFromTiedEmbeddingsIsConverted) {
  ties(true);
  with_output(1);
  EXPECT_EQ(hf::convert_folder(folder_, out_, {.tokenizer = false}).warnings, Strings());
  EXPECT_EQ(gguf::File::open(out_).find("output.weight"), nullptr);
  with_output(2);
  EXPECT_EQ(hf::convert_folder(folder_, out_, {.tokenizer = false}).warnings,
            Strings{"'lm_head.weight' differs from the embedding, although config.json ties them; both are converted"});
  const gguf::File file = gguf::File::open(out_);
  EXPECT_FALSE(spec_from_gguf(file).tied);
  const auto *output = reinterpret_cast<const float*>(file.require("output.weight").data),
             *embedding = reinterpret_cast<const float*>(file.require("token_embd.weight").data);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(output[i], 2 * embedding[i]);
}

TEST_F(HfOutput, OneThatIsAskedForAndMissingIsAnError) {
  testing::change_tensors(folder_, [](const std::string& name) { return name == "lm_head.weight" ? "" : name; });
  ties(false);
  testing::expect_contains(testing::error_of([&] { hf::convert_folder(folder_, out_, {.tokenizer = false}); }),
                           "the tensor 'lm_head.weight' is missing, and config.json says that it is not the embedding");
  ties(true);
  EXPECT_EQ(hf::convert_folder(folder_, out_, {.tokenizer = false}).warnings, Strings());
}

}  // namespace
}  // namespace toy::added_tokens_test
