// Byte-level BPE: ids against Hugging Face's tokenizers and against merging by hand; special tokens; bad vocabularies.
#include "text/bpe/bpe.h"

#include <gtest/gtest.h>

#include <map>

#include "golden_testing.h"
#include "text/bpe/byte_level.h"
#include "text_testing.h"

namespace toy::bpe_test {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

/// All bytes, and what the merges make (ids from 256 on).
BpeVocabulary vocabulary_of(const Strings& merges, std::string pre = "gpt-2") {
  BpeVocabulary v;
  v.source = "small";
  v.pre = std::move(pre);
  for (int byte = 0; byte < 256; ++byte) v.tokens.push_back(byte_level_name(uint8_t(byte)));
  for (std::string merge : merges) {
    v.merges.push_back(merge);
    merge.erase(merge.find(' ', 1), 1);
    if (std::find(v.tokens.begin(), v.tokens.end(), merge) == v.tokens.end()) v.tokens.push_back(merge);
  }
  v.types.assign(v.tokens.size(), 1);
  return v;
}

int32_t add(BpeVocabulary& v, const std::string& token, TokenType type) {
  v.tokens.push_back(token);
  v.types.push_back(int32_t(type));
  return v.size() - 1;
}

std::string spelled(const BpeVocabulary& v, const Ids& ids) {
  std::string out;
  for (const int32_t id : ids) out += (out.empty() ? "" : "|") + v.tokens.at(size_t(id));
  return out;
}
std::string encoded(const BpeVocabulary& v, std::string_view text, EncodeOptions options = {}) {
  return spelled(v, BpeTokenizer(v).encode(text, options));
}

TEST(Bpe, MergesGoByRankThenFromTheLeft) {
  const BpeVocabulary v = vocabulary_of({"a b", "b c", "ab c", "a a", "Ġ a"});
  EXPECT_EQ(encoded(v, "abc"), "abc");
  EXPECT_EQ(encoded(v, "bc"), "bc");
  EXPECT_EQ(encoded(v, "aab"), "a|ab");  // ab goes before aa
  EXPECT_EQ(encoded(v, "aaa"), "aa|a");
  EXPECT_EQ(encoded(v, "aaaaa"), "aa|aa|a");
  EXPECT_EQ(encoded(v, "a a"), "a|Ġa");
  EXPECT_EQ(encoded(v, " ab"), "Ġ|ab");
  EXPECT_EQ(encoded(v, ""), "");
}

TEST(Bpe, TheFirstOfEqualMergesCounts) {
  const BpeVocabulary v = vocabulary_of({"a b", "b c", "a b", "a bc"});
  EXPECT_EQ(encoded(v, "abc"), "ab|c");
}

// "llama-bpe" takes a word that is a token as it is.
TEST(Bpe, IgnoreMerges) {
  BpeVocabulary v = vocabulary_of({"a b"});
  add(v, "abc", TokenType::normal);
  EXPECT_EQ(encoded(v, "abc"), "ab|c");
  v.pre = "llama-bpe";
  EXPECT_EQ(encoded(v, "abc"), "abc");
  EXPECT_EQ(encoded(v, "abcc"), "ab|c|c");
  v.types.back() = int32_t(TokenType::control);
  EXPECT_EQ(encoded(v, "abc"), "ab|c");
}

TEST(Bpe, AMergeMayMakeATokenThatTextsDoNotGive) {
  BpeVocabulary v = vocabulary_of({"a b", "ab c"});
  v.types[256] = int32_t(TokenType::control);  // ab
  EXPECT_EQ(encoded(v, "abc"), "abc");
  EXPECT_EQ(encoded(v, "abd"), "a|b|d");
}

/// The merges one after the other, each from left to right, as the paper has it.
Strings merged_by_hand(const BpeVocabulary& v, std::string_view word) {
  Strings parts;
  for (const char byte : word) parts.push_back(byte_level_name(uint8_t(byte)));
  for (const std::string& merge : v.merges) {
    const std::string left = merge.substr(0, merge.find(' ')), right = merge.substr(left.size() + 1);
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      if (parts[i] != left || parts[i + 1] != right) continue;
      parts[i] += right;
      parts.erase(parts.begin() + ptrdiff_t(i) + 1);
    }
  }
  return parts;
}

// In the order in which training makes merges: what a merge takes is there before it. (Else the two orders differ.)
TEST(Bpe, RandomMergesGiveWhatMergingByHandGives) {
  RandomText random(3);
  for (int round = 0; round < 200; ++round) {
    Strings symbols = {"a", "b", "c"}, merges;
    for (int i = 0; i < 30; ++i) {
      const std::string left = symbols[random.below(uint32_t(symbols.size()))];
      const std::string right = symbols[random.below(uint32_t(symbols.size()))];
      if (std::find(symbols.begin(), symbols.end(), left + right) != symbols.end()) continue;
      symbols.push_back(left + right);
      merges.push_back(left + " " + right);
    }
    const BpeVocabulary v = vocabulary_of(merges);
    const BpeTokenizer tokenizer(v);
    for (int i = 0; i < 20; ++i) {
      std::string word;
      for (uint32_t n = 1 + random.below(30); n > 0; --n) word += char('a' + random.below(3));
      std::string by_hand;
      for (const std::string& part : merged_by_hand(v, word)) by_hand += (by_hand.empty() ? "" : "|") + part;
      ASSERT_EQ(spelled(v, tokenizer.encode(word)), by_hand) << word;
    }
  }
}

TEST(Bpe, GoldenIds) {
  const TokenizerGolden golden;
  const auto& bpe = golden.json()["bpe"];
  BpeVocabulary v;
  v.source = "golden";
  v.tokens = bpe["tokens"].get<Strings>();
  v.merges = bpe["merges"].get<Strings>();
  v.types.assign(v.tokens.size(), 1);
  for (const auto& [pre, expected] : bpe["ids"].items()) {
    SCOPED_TRACE(pre);
    v.pre = pre;
    const BpeTokenizer tokenizer(v);
    golden.compare(
        expected,
        [&](const std::string& text) {
          const Ids ids = tokenizer.encode(text);
          EXPECT_EQ(tokenizer.decode(ids), text);
          std::vector<int64_t> numbers;
          for (const int32_t id : ids) numbers.push_back(id + 1);
          return numbers;
        },
        1);
  }
}

TEST(Bpe, AnyBytesComeBack) {
  RandomText random(6);
  BpeVocabulary v = vocabulary_of({"a b", "Ġ t", "Ġt h", "Ġth e", "Ã ©", "Ð ½", "Ġ Ġ"});
  add(v, "<|x|>", TokenType::user_defined);
  for (const char* pre : {"gpt-2", "llama-bpe", "gpt-4o", "deepseek-v3", "default"}) {
    v.pre = pre;
    const BpeTokenizer tokenizer(v);
    for (int round = 0; round < 500; ++round) {
      const std::string text = round % 2 == 0 ? random.bytes(60) : random.unicode(20) + "<|x|>" + random.bytes(4);
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST(Bpe, TokensDecodeToTheirBytes) {
  BpeVocabulary v = vocabulary_of({"Ġ a", "Ã ©"});
  const int32_t literal = add(v, "Ġx y", TokenType::user_defined), control = add(v, "<c>", TokenType::control),
                plain = add(v, "a b", TokenType::normal), byte = add(v, "<0x0A>", TokenType::byte),
                unused = add(v, "[PAD1]", TokenType::unused), gap = add(v, "", TokenType::normal);
  const BpeTokenizer tokenizer(v);
  EXPECT_EQ(tokenizer.token_bytes(256), " a");
  EXPECT_EQ(tokenizer.token_bytes(257), "\xC3\xA9");
  EXPECT_EQ(tokenizer.token_bytes(0xFF), "\xFF");
  EXPECT_EQ(tokenizer.token_bytes(literal), "Ġx y");  // as it is written
  EXPECT_EQ(tokenizer.token_bytes(control), "");
  EXPECT_EQ(tokenizer.token_bytes(plain), "a b");  // no byte-level name
  EXPECT_EQ(tokenizer.token_bytes(byte), "\n");
  EXPECT_EQ(tokenizer.token_bytes(unused), "");
  EXPECT_EQ(tokenizer.token_bytes(gap), "");
  expect_contains(message_of([&] { tokenizer.token_bytes(gap + 1); }), "outside the vocabulary of 264");
}

TEST(Bpe, AByteWithoutAToken) {
  BpeVocabulary v = vocabulary_of({"a b"});
  v.tokens[0xFF] = "(nothing)";
  const std::string text = "ab abc\xFFz";
  expect_contains(message_of([&] { BpeTokenizer(v).encode(text); }),
                  "small: the vocabulary has no token for the byte 0xFF at byte 6 of the text");
  expect_contains(message_of([&] {
                    const BpeTokenizer tokenizer(v);
                    EncodeStream stream(tokenizer, 2);
                    Ids ids;
                    for (const char c : text) stream.push(std::string(1, c), ids);
                    stream.finish(ids);
                  }),
                  "0xFF at byte 6 of the text");
  v.unknown = add(v, "<unk>", TokenType::unknown);
  EXPECT_EQ(encoded(v, text), "ab|Ġ|ab|c|<unk>|z");
}

TEST(Bpe, TokensWrittenOut) {
  BpeVocabulary v = vocabulary_of({"a b"});
  add(v, "<|a|>", TokenType::control);
  add(v, "<|a|>b", TokenType::control);
  add(v, "<u>", TokenType::user_defined);
  add(v, "<unk>", TokenType::unknown);
  add(v, "   ", TokenType::user_defined);
  EXPECT_EQ(encoded(v, "x<|a|>y"), "x|<|||a|||>|y");
  EXPECT_EQ(encoded(v, "x<|a|>y", {.parse_special = true}), "x|<|a|>|y");
  EXPECT_EQ(encoded(v, "<|a|>bab<|a|", {.parse_special = true}), "<|a|>b|ab|<|||a||");  // the longest
  EXPECT_EQ(encoded(v, "ab<u>ab<unk>"), "ab|<u>|ab|<|u|n|k|>");
  EXPECT_EQ(encoded(v, "ab<u>ab<unk>", {.parse_special = true}), "ab|<u>|ab|<unk>");
  EXPECT_EQ(encoded(v, "a     b"), "a|   |Ġ|Ġ|b");
  EXPECT_EQ(encoded(v, "<|a|><|a|>", {.parse_special = true}), "<|a|>|<|a|>");
  EXPECT_EQ(BpeTokenizer(v).decode(BpeTokenizer(v).encode("x<|a|>y<u>", {.parse_special = true})), "xy<u>");
}

// A word of a megabyte, and pairs that are all the same: a square would take hours.
TEST(Bpe, LongWordsStayFast) {
  Strings merges;
  for (size_t n = 1; n < 64; n *= 2) merges.push_back(std::string(n, 'a') + " " + std::string(n, 'a'));
  const BpeTokenizer tokenizer(vocabulary_of(merges));
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')).size(), (1u << 20) / 64);
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, ' ')).size(), 1u << 20);
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'b')).size(), 1u << 20);
  const BpeTokenizer words(vocabulary_of({"a b", "b a", "ab a", "Ġ Ġ", "ĠĠ ĠĠ"}));
  EXPECT_EQ(words.encode(""), Ids());
  for (const std::string& text : long_runs(1 << 20)) EXPECT_EQ(words.decode(words.encode(text)), text);
}

TEST(Bpe, ComesBackFromAFile) {
  BpeVocabulary v = vocabulary_of({"a b", "Ġ ab"}, "llama-bpe");
  v.eos = add(v, "<|end|>", TokenType::control);
  v.bos = add(v, "<s>", TokenType::control);
  v.other_ids["tokenizer.ggml.eot_token_id"] = 97;
  v.add_bos = true;
  const BpeTokenizer tokenizer(v);
  const auto loaded = saved_and_loaded(tokenizer);
  EXPECT_EQ(loaded->kind(), "bpe");
  EXPECT_EQ(loaded->fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(loaded->bos(), v.bos);
  EXPECT_EQ(loaded->eos(), v.eos);
  EXPECT_TRUE(loaded->adds_bos());
  EXPECT_FALSE(loaded->adds_eos());
  EXPECT_EQ(loaded->end_of_generation(), (Ids{97, *v.eos}));
  EXPECT_EQ(loaded->encode("ab ab<s>", {.parse_special = true}), tokenizer.encode("ab ab<s>", {.parse_special = true}));
  EXPECT_EQ(encode_prompt(*loaded, "ab"), (Ids{*v.bos, 256}));
}

TEST(Bpe, DefaultsOfAFileThatNamesLittle) {
  const BpeVocabulary v = vocabulary_of({"a b"});
  for (const char* pre : {"", "llama-bpe"}) {
    const TemporaryGguf file([&](gguf::Writer& writer) {
      writer.set("tokenizer.ggml.model", gguf::Value(std::string("gpt2")));
      writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(v.tokens)));
      writer.set("tokenizer.ggml.merges", gguf::Value(gguf::Array(v.merges)));
      if (*pre) writer.set("tokenizer.ggml.pre", gguf::Value(std::string(pre)));
    });
    const OptionalTokenizer loaded = try_load_tokenizer(file.open());
    ASSERT_NE(loaded.tokenizer, nullptr) << loaded.warning;
    EXPECT_EQ(loaded.warning.find("tokenizer.ggml.pre is missing") != std::string::npos, *pre == '\0');
    EXPECT_EQ(loaded.tokenizer->bos(), std::nullopt);  // llama.cpp takes 11
    EXPECT_FALSE(loaded.tokenizer->adds_bos());
    EXPECT_EQ(spelled(v, loaded.tokenizer->encode("ab.c")), "ab|.|c");
  }
}

TEST(Bpe, RefusesWhatIsNoVocabulary) {
  struct Bad {
    std::function<void(BpeVocabulary&)> spoil;
    const char* message;
  };
  const std::vector<Bad> cases = {
      {[](auto& v) { v.tokens.clear(), v.types.clear(); }, "tokenizer.ggml.tokens is empty"},
      {[](auto& v) { v.merges.push_back("ab"); }, "merges[1] is \"ab\", not two byte-level tokens with a space"},
      {[](auto& v) { v.merges.push_back(" "); }, "merges[1] is \" \""},
      {[](auto& v) { v.merges.push_back(""); }, "merges[1] is \"\""},
      {[](auto& v) { v.merges.push_back("a "); }, "merges[1] is \"a \""},
      {[](auto& v) { v.merges.push_back("a b c"); }, "merges[1] is \"a b c\""},
      {[](auto& v) { v.merges.push_back("a \xE4\xB8\xAD"); }, "merges[1] is"},
      {[](auto& v) { v.merges.push_back("ab Ġx"); }, "merges[1], \"ab Ġx\", names \"Ġx\", which is no token"},
      {[](auto& v) { v.merges.push_back("xy c"); }, "merges[1], \"xy c\", names \"xy\", which is no token"},
      {[](auto& v) { v.merges.push_back("ab c"); }, "merges[1], \"ab c\", names \"abc\", which is no token"},
      {[](auto& v) { v.tokens[256] = "a"; }, "\"a\" is there twice, with the ids 97 and 256"},
      {[](auto& v) { v.types[3] = 9; }, "token_type[3]"},
      {[](auto& v) { v.eos = 257; }, "tokenizer.ggml.eos_token_id is 257, outside the vocabulary of 257"},
      {[](auto& v) { v.add_bos = true; }, "tokenizer.ggml.add_bos_token is true, but"},
      {[](auto& v) { v.pre = "gpt-9"; }, "tokenizer.ggml.pre 'gpt-9' is not supported (supported: default, gpt-2, "},
  };
  for (const Bad& bad : cases) {
    BpeVocabulary v = vocabulary_of({"a b"});
    bad.spoil(v);
    const std::string message = message_of([&] { BpeTokenizer tokenizer(v); });
    expect_contains(message, "small: ");
    expect_contains(message, bad.message);
  }
}

TEST(Bpe, RefusalsOfFilesNameTheFile) {
  const auto refusal = [](const char* key, gguf::Value value) {
    const TemporaryGguf file([&](gguf::Writer& writer) {
      BpeTokenizer(vocabulary_of({"a b"})).save(writer);
      writer.set(key, std::move(value));
    });
    const std::string message = message_of([&] { load_tokenizer(file.open()); });
    expect_contains(message, file.path());
    const OptionalTokenizer loaded = try_load_tokenizer(file.open());
    EXPECT_EQ(loaded.tokenizer, nullptr);
    EXPECT_EQ(loaded.warning, message);
    return message;
  };
  expect_contains(refusal("tokenizer.ggml.pre", gguf::Value(std::string("rwkv"))),
                  "its tokenizer 'gpt2' with the pre-tokenizer 'rwkv' is not supported, only bytes, SentencePiece");
  expect_contains(refusal("tokenizer.ggml.merges", gguf::Value(uint32_t(1))), "tokenizer.ggml.merges");
  expect_contains(refusal("tokenizer.ggml.merges", gguf::Value(gguf::Array(Strings{"ab"}))),
                  "tokenizer.ggml.merges[0]");
  expect_contains(refusal("tokenizer.ggml.bos_token_id", gguf::Value(uint32_t(257))), "bos_token_id is 257, outside");
  expect_contains(refusal("tokenizer.ggml.token_type", gguf::Value(gguf::Array(Ids{1}))),
                  "has 1 values for 257 tokens");
  const TemporaryGguf without([](gguf::Writer& writer) {
    writer.set("tokenizer.ggml.model", gguf::Value(std::string("gpt2")));
    writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(Strings{"a", "b"})));
  });
  expect_contains(message_of([&] { load_tokenizer(without.open()); }), "tokenizer.ggml.merges");
}

}  // namespace
}  // namespace toy::bpe_test
