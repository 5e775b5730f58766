// Which tokens are special, by the names that llama.cpp knows.
#include <gtest/gtest.h>

#include "text/bpe/bpe.h"
#include "text/bpe/byte_level.h"
#include "text/spm/spm.h"
#include "text_testing.h"
#include "toy/text/fill_tokens.h"

namespace toy::special_tokens_test {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;

struct Token {
  const char* text;
  TokenType type = TokenType::normal;
};

/// 256 bytes, then these, from a file.
std::shared_ptr<const Tokenizer> loaded_with(const std::vector<Token>& tokens,
                                             const std::map<std::string, int32_t>& ids = {}) {
  const TemporaryGguf file([&](gguf::Writer& writer) {
    std::vector<std::string> names;
    for (int byte = 0; byte < 256; ++byte) names.push_back(byte_level_name(uint8_t(byte)));
    Ids types(256, 1);
    for (const Token& token : tokens) names.emplace_back(token.text), types.push_back(int32_t(token.type));
    writer.set("tokenizer.ggml.model", gguf::Value(std::string("gpt2")));
    writer.set("tokenizer.ggml.pre", gguf::Value(std::string("gpt-2")));
    writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(names)));
    writer.set("tokenizer.ggml.token_type", gguf::Value(gguf::Array(types)));
    writer.set("tokenizer.ggml.merges", gguf::Value(gguf::Array(std::vector<std::string>())));
    for (const auto& [key, id] : ids) writer.set("tokenizer.ggml." + key + "_token_id", gguf::Value(uint32_t(id)));
  });
  return load_tokenizer(file.open());
}

TEST(SpecialTokens, EndOfGeneration) {
  using enum TokenType;
  EXPECT_EQ(
      loaded_with({{"<|im_start|>", control}, {"<|im_end|>", control}, {"<|endoftext|>", control}}, {{"eos", 258}})
          ->end_of_generation(),
      (Ids{257, 258}));
  EXPECT_EQ(
      loaded_with({{"<|eot_id|>", control}, {"<|eom_id|>", control}, {"stop"}}, {{"eos", 258}})->end_of_generation(),
      (Ids{256, 257, 258}));
  EXPECT_EQ(loaded_with({{"stop"}, {"turn"}, {"pad"}}, {{"eos", 256}, {"eot", 257}, {"fim_pad", 258}, {"padding", 99}})
                ->end_of_generation(),
            (Ids{256, 257, 258}));
  EXPECT_EQ(
      loaded_with({{"<|fim_pad|>"}, {"<|repo_name|>"}, {"<|file_sep|>"}, {"<|fim_prefix|>"}})->end_of_generation(),
      (Ids{256, 257, 258}));
  EXPECT_EQ(loaded_with({{"<|fim_pad|>"}, {"pad"}}, {{"fim_pad", 257}})->end_of_generation(), (Ids{257}));
  EXPECT_EQ(loaded_with({{"stop"}}, {{"eot", 5000}})->end_of_generation(), Ids{});  // outside: as in llama.cpp, none
}

// "<|end|>" ends a message, not the answer, where these are there, too.
TEST(SpecialTokens, WhereEndDoesNotEnd) {
  EXPECT_EQ(loaded_with({{"<|end|>"}, {"<|return|>"}, {"<|call|>"}})->end_of_generation(), (Ids{257, 258}));
  EXPECT_EQ(loaded_with({{"<|end|>"}, {"<|flush|>"}, {"<|calls|>"}})->end_of_generation(), (Ids{257, 258}));
  EXPECT_EQ(loaded_with({{"<|end|>"}, {"<|return|>"}})->end_of_generation(), (Ids{256, 257}));
  EXPECT_EQ(loaded_with({{"</s>"}, {"<|tool_response>"}})->end_of_generation(), (Ids{257}));
  const auto harmony = loaded_with({{"<|end|>"}, {"<|return|>"}, {"<|call|>"}, {"<|channel|>", TokenType::control}});
  EXPECT_EQ(harmony->token_bytes(256), "<|end|>");      // user-defined now
  EXPECT_EQ(harmony->token_bytes(257), "");             // control
  EXPECT_EQ(harmony->token_bytes(259), "<|channel|>");  // to be seen
  EXPECT_EQ(harmony->encode("<|channel|>"), Ids{259});
}

TEST(SpecialTokens, NamesMakeControlTokens) {
  const auto tokenizer =
      loaded_with({{"<|im_end|>", TokenType::user_defined}, {"<|fim_prefix|>", TokenType::user_defined}});
  for (const char* text : {"<|im_end|>", "<|fim_prefix|>"}) {
    EXPECT_GT(tokenizer->encode(text).size(), 1u);
    EXPECT_EQ(tokenizer->encode(text, {.parse_special = true}).size(), 1u);
  }
}

TEST(SpecialTokens, TokensThatFillHoles) {
  const auto of = [](const std::vector<Token>& added, const std::map<std::string, int32_t>& ids = {}) {
    const std::optional<FillTokens> t = fill_tokens(*loaded_with(added, ids));
    return t ? std::vector<int32_t>{t->prefix, t->suffix, t->middle} : std::vector<int32_t>{};
  };
  const Ids in_order{256, 257, 258};
  EXPECT_EQ(of({{"<|fim_prefix|>"}, {"<|fim_suffix|>"}, {"<|fim_middle|>"}}), in_order);  // Qwen2.5-Coder
  EXPECT_EQ(of({{"<｜fim▁begin｜>"}, {"<｜fim▁hole｜>"}, {"<｜fim▁end｜>"}}), in_order);  // DeepSeek-Coder
  EXPECT_EQ(of({{"<a>"}, {"<b>"}, {"<c>"}}, {{"fim_pre", 258}, {"fim_suf", 257}, {"fim_mid", 256}}),
            (Ids{258, 257, 256}));
  EXPECT_TRUE(of({{"<|fim_prefix|>"}, {"<|fim_suffix|>"}}).empty());
  EXPECT_FALSE(fill_tokens(*make_byte_tokenizer()));
}

TEST(SpecialTokens, BytesHaveNone) { EXPECT_TRUE(make_byte_tokenizer()->end_of_generation().empty()); }

SpmVocabulary spm_vocabulary() {
  SpmVocabulary v;
  v.source = "small";
  v.tokens = {"<unk>", "<s>", "</s>", "\u2581", "\u2581a", "a", "<u>", "<", "s", ">"};
  v.types = {2, 3, 3, 1, 1, 1, 4, 1, 1, 1};
  for (size_t i = 0; i < v.tokens.size(); ++i) v.scores.push_back(-float(i));
  v.unknown = 0, v.bos = 1, v.eos = 2;
  return v;
}

// What a text gets in front and behind, whichever way it says so itself.
TEST(Prompts, BosAndEosAreThereOnce) {
  SpmVocabulary v = spm_vocabulary();
  v.add_bos = v.add_eos = true;
  const SpmTokenizer both(v);
  v.add_bos = v.add_eos = false;
  const SpmTokenizer none(v);
  for (const char* text : {"a", "<s>a"}) {
    EXPECT_EQ(encode_prompt(both, text), (Ids{1, 4})) << text;
    EXPECT_EQ(encode_complete(both, text), (Ids{1, 4, 2})) << text;
  }
  EXPECT_EQ(encode_complete(both, "<s>a</s>"), (Ids{1, 4, 2}));
  EXPECT_EQ(encode_prompt(both, "a</s>"), (Ids{1, 4, 2}));  // what the user writes stays
  EXPECT_EQ(encode_prompt(both, ""), Ids{1});
  EXPECT_EQ(encode_complete(both, ""), (Ids{1, 2}));
  EXPECT_EQ(encode_prompt(none, "<s>a"), (Ids{1, 4}));
  EXPECT_EQ(encode_complete(none, "a"), Ids{4});
  // As text, "<s>" is no beginning of a sequence.
  EXPECT_EQ(encode_prompt(both, "<s>a", {}), (Ids{1, 3, 7, 8, 9, 5}));
}

// After a control token the text begins anew, with its space; after a user-defined one it goes on.
TEST(SpecialTokens, Spm) {
  for (const SpmModel model : {SpmModel::bpe, SpmModel::unigram}) {
    SpmVocabulary v = spm_vocabulary();
    v.model = model;
    const SpmTokenizer tokenizer(v);
    EXPECT_EQ(tokenizer.encode("a<s>a"), (Ids{4, 7, 8, 9, 5}));
    EXPECT_EQ(tokenizer.encode("a<s>a", {.parse_special = true}), (Ids{4, 1, 4}));
    EXPECT_EQ(tokenizer.encode("<s>a</s>a<unk>", {.parse_special = true}), (Ids{1, 4, 2, 4, 0}));
    EXPECT_EQ(tokenizer.encode("a<u>a<s>", {.parse_special = true}), (Ids{4, 6, 5, 1}));
    EXPECT_EQ(tokenizer.end_of_generation(), Ids{2});
    EncodeStream stream(tokenizer, 1, {.parse_special = true});
    Ids ids;
    for (const char c : std::string("<s>a</s>a<unk>a<s")) stream.push(std::string(1, c), ids);
    stream.finish(ids);
    EXPECT_EQ(ids, tokenizer.encode("<s>a</s>a<unk>a<s", {.parse_special = true}));
  }
}

// Phi-3 was trained on prompts whose special tokens take the spaces behind them.
TEST(SpecialTokens, Phi3TakesSpacesAway) {
  const TemporaryGguf file([&](gguf::Writer& writer) {
    SpmVocabulary v = spm_vocabulary();
    v.tokens[7] = "<|user|>", v.types[7] = 3;
    SpmTokenizer(v).save(writer);
    writer.set("general.name", gguf::Value(std::string("Phi-3 mini")));
  });
  const auto tokenizer = load_tokenizer(file.open());
  EXPECT_EQ(tokenizer->encode("<|user|> \n a", {.parse_special = true}), (Ids{7, 4}));
  EXPECT_EQ(tokenizer->encode("<s> a", {.parse_special = true}), (Ids{1, 3, 4}));
  for (const std::string text : {"<|user|> \n a", "<|user|> \n", "<|user|>", "a<|user|>  <|user|>a "}) {
    EncodeStream stream(*tokenizer, 1, {.parse_special = true});
    Ids ids;
    for (const char c : text) stream.push(std::string(1, c), ids);
    stream.finish(ids);
    EXPECT_EQ(ids, tokenizer->encode(text, {.parse_special = true})) << text;
  }
}

}  // namespace
}  // namespace toy::special_tokens_test
