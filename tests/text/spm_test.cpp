// A small vocabulary with answers worked out by hand, and vocabularies that are none.
#include "text/spm/spm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "text_testing.h"

namespace toy::spm_test {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;

constexpr int32_t kFirstPiece = 259;

/// <unk>, <s>, </s>, the bytes, and pieces from id 259 on with the scores 0, -1, -2, ...
SpmVocabulary vocabulary_of(const std::vector<std::string>& pieces) {
  SpmVocabulary v;
  v.source = "small";
  v.tokens = {"<unk>", "<s>", "</s>"};
  v.types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    v.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    v.types.push_back(6);
  }
  v.scores.assign(v.tokens.size(), 0.0f);
  for (const std::string& piece : pieces) {
    v.scores.push_back(-float(v.tokens.size() - size_t(kFirstPiece)));
    v.tokens.push_back(piece);
    v.types.push_back(1);
  }
  v.unknown = 0, v.bos = 1, v.eos = 2;
  v.add_space_prefix = false;
  return v;
}

/// Ids as text: pieces by name, byte tokens as <0x..>.
std::string spelled(const SpmVocabulary& v, const Ids& ids) {
  std::string out;
  for (const int32_t id : ids) out += (out.empty() ? "" : "|") + v.tokens.at(size_t(id));
  return out;
}

std::string encoded(const SpmVocabulary& v, std::string_view text) { return spelled(v, SpmTokenizer(v).encode(text)); }

const std::string kSpace = "\xE2\x96\x81";

TEST(Spm, APieceIsReachedThroughItsParts) {
  const SpmVocabulary v = vocabulary_of({"bc", "ab", "abc", "a", "b", "c"});
  EXPECT_EQ(encoded(v, "abc"), "abc");  // "bc" first, then "a" with "bc"
  EXPECT_EQ(encoded(v, "ababc"), "ab|abc");
}

TEST(Spm, KnownAnswers) {
  const SpmVocabulary v = vocabulary_of({"aa", "bc", "ab", "abcd", "a", "b", "c", "d", kSpace, kSpace + "a"});
  EXPECT_EQ(encoded(v, ""), "");
  EXPECT_EQ(encoded(v, "aaa"), "aa|a");  // equal scores: the leftmost pair
  EXPECT_EQ(encoded(v, "aaaaa"), "aa|aa|a");
  EXPECT_EQ(encoded(v, "abc"), "a|bc");     // bc before ab
  EXPECT_EQ(encoded(v, "abcd"), "a|bc|d");  // abcd is never reached: no pair of its parts meets
  EXPECT_EQ(encoded(v, "ab"), "ab");
  EXPECT_EQ(encoded(v, " a"), kSpace + "a");
  EXPECT_EQ(encoded(v, " aa"), kSpace + "|aa");
  EXPECT_EQ(encoded(v, "  "), kSpace + "|" + kSpace);
  EXPECT_EQ(encoded(v, "a\nb"), "a|<0x0A>|b");
  EXPECT_EQ(encoded(v, "z\xC3\xA9"), "<0x7A>|<0xC3>|<0xA9>");
}

TEST(Spm, ControlTokensInATextAreText) {
  const SpmVocabulary v = vocabulary_of({"<", "/", "s", ">", "s>", "</"});
  EXPECT_EQ(encoded(v, "</s>"), "</|s>");
  EXPECT_EQ(encoded(v, "<0x41>"), "<|<0x30>|<0x78>|<0x34>|<0x31>|>");
}

TEST(Spm, KeepsALiteralSpaceSymbolAndBrokenUtf8) {
  const SpmVocabulary v = vocabulary_of({"a", "b", kSpace});
  const SpmTokenizer tokenizer(v);
  EXPECT_EQ(encoded(v, "a" + kSpace + "b"), "a|<0xE2>|<0x96>|<0x81>|b");
  EXPECT_EQ(encoded(v,
                    "a\xE2"
                    "ab"),
            "a|<0xE2>|<0x61>|<0x62>");  // grouped by the first byte, as in llama.cpp
  EXPECT_EQ(encoded(v, "a\xFF"), "a|<0xFF>");
  EXPECT_EQ(encoded(v,
                    "a\x80"
                    "b"),
            "a|<0x80>|b");
  for (const std::string& text : {"a" + kSpace + " b", std::string("\xE2"), std::string("\0a\xF0\x9F", 4)}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Spm, SpaceWithoutATokenIsAByte) { EXPECT_EQ(encoded(vocabulary_of({"a"}), "a a"), "a|<0x20>|a"); }

TEST(Spm, SpacePrefix) {
  SpmVocabulary v = vocabulary_of({kSpace + "a", "a", kSpace});
  v.add_space_prefix = true;
  const SpmTokenizer tokenizer(v);
  EXPECT_EQ(encoded(v, "a"), kSpace + "a");
  EXPECT_EQ(encoded(v, " a"), kSpace + "|" + kSpace + "a");
  EXPECT_EQ(encoded(v, ""), "");
  for (const char* text : {"", "a", " a", "  a ", "x", " "}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  EXPECT_EQ(tokenizer.token_bytes(kFirstPiece), " a");
  EXPECT_EQ(tokenizer.decode(Ids{1, kFirstPiece, 2}), "a");  // after <s>, too
}

TEST(Spm, RemovesExtraWhitespaceOnlyIfAsked) {
  SpmVocabulary v = vocabulary_of({kSpace, "a", "b"});
  v.remove_extra_whitespaces = true;
  EXPECT_EQ(encoded(v, "  a   b  "), "a|" + kSpace + "|b");
  EXPECT_EQ(encoded(v, "   "), "");
  v.add_space_prefix = true;
  EXPECT_EQ(encoded(v, "   "), "");
  EXPECT_EQ(encoded(v, " a"), kSpace + "|a");
}

TEST(Spm, UserDefinedTokensComeFirstTheLongestOfThem) {
  SpmVocabulary v = vocabulary_of({"a", "b", "ab", "aba", kSpace, "<x>", "<x><x>", "ba b"});
  for (size_t id = v.tokens.size() - 3; id < v.tokens.size(); ++id) v.types[id] = 4;
  EXPECT_EQ(encoded(v, "ab<x>ab"), "ab|<x>|ab");
  EXPECT_EQ(encoded(v, "<x><x><x>"), "<x><x>|<x>");
  EXPECT_EQ(encoded(v, "aba b"), "a|ba b");
  EXPECT_EQ(SpmTokenizer(v).decode(Ids{kFirstPiece, kFirstPiece + 5}), "a<x>");
}

TEST(Spm, UnusedPiecesAreOnlySteps) {
  SpmVocabulary v = vocabulary_of({"a", "b", "c", "ab", "abc"});
  v.types[kFirstPiece + 3] = 5;
  EXPECT_EQ(encoded(v, "abc"), "abc");
  EXPECT_EQ(encoded(v, "abab"), "a|b|a|b");
  v.types[kFirstPiece + 4] = 5;
  EXPECT_EQ(encoded(v, "abc"), "a|b|c");
}

TEST(Spm, UnknownTokenWithoutByteTokens) {
  SpmVocabulary v;
  v.source = "bare";
  v.tokens = {"<unk>", "a", kSpace};
  v.types = {2, 1, 1};
  v.scores = {0, 0, 0};
  v.unknown = 0;
  v.add_bos = v.add_space_prefix = false;
  EXPECT_EQ(encoded(v, "axyza z"), "a|<unk>|a|" + kSpace + "|<unk>");
  expect_contains(message_of([&] {
                    SpmTokenizer(v).encode(
                        "aa\xff"
                        "aaa");
                  }),
                  "the text is not UTF-8 at byte 2 of the text");
  v.remove_extra_whitespaces = true;  // bytes are counted in the text that was given
  expect_contains(message_of([&] { SpmTokenizer(v).encode("a    \xff"); }), "not UTF-8 at byte 5 of the text");
  v.remove_extra_whitespaces = false;
  v.unknown.reset();
  v.types[0] = 3;
  const SpmTokenizer tokenizer(v);
  EXPECT_EQ(tokenizer.encode("aa"), (Ids{1, 1}));
  expect_contains(message_of([&] { tokenizer.encode("aax"); }), "no token for the character at byte 2 of the text");
}

TEST(Spm, TokenBytes) {
  const SpmTokenizer tokenizer(vocabulary_of({kSpace + "a" + kSpace}));
  EXPECT_EQ(tokenizer.token_bytes(0), "");
  EXPECT_EQ(tokenizer.token_bytes(1), "");
  EXPECT_EQ(tokenizer.token_bytes(2), "");
  EXPECT_EQ(tokenizer.token_bytes(3 + 0xE2), "\xE2");
  EXPECT_EQ(tokenizer.token_bytes(kFirstPiece), " a ");
  expect_contains(message_of([&] { tokenizer.token_bytes(260); }), "token id 260 is outside the vocabulary of 260");
  expect_contains(message_of([&] { tokenizer.decode(Ids{-1}); }), "token id -1 is outside");
}

TEST(Spm, SaveAndLoadKeepEverything) {
  SpmVocabulary v = vocabulary_of({"a", kSpace, "<x>", "ab", "", ""});
  v.types[kFirstPiece + 2] = 4;
  v.types[kFirstPiece + 3] = 5;
  v.bos = 2, v.eos = 1, v.unknown = 0;
  v.add_bos = false, v.add_eos = true, v.remove_extra_whitespaces = true;
  const TemporaryGguf file([&](gguf::Writer& writer) { SpmTokenizer(v).save(writer); });
  const gguf::File in = file.open();
  EXPECT_EQ(in.get_string("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(in.get_strings("tokenizer.ggml.tokens"), v.tokens);
  EXPECT_EQ(in.get_f32s("tokenizer.ggml.scores"), v.scores);
  EXPECT_EQ(in.get_i32s("tokenizer.ggml.token_type"), v.types);
  EXPECT_EQ(in.get_u32("tokenizer.ggml.bos_token_id"), 2u);
  EXPECT_EQ(in.get_u32("tokenizer.ggml.eos_token_id"), 1u);
  EXPECT_EQ(in.get_u32("tokenizer.ggml.unknown_token_id"), 0u);
  EXPECT_FALSE(in.get_bool("tokenizer.ggml.add_bos_token", true));
  EXPECT_TRUE(in.get_bool("tokenizer.ggml.add_eos_token", false));
  EXPECT_FALSE(in.get_bool("tokenizer.ggml.add_space_prefix", true));
  EXPECT_TRUE(in.get_bool("tokenizer.ggml.remove_extra_whitespaces", false));
  const auto loaded = load_tokenizer(in);
  EXPECT_EQ(loaded->kind(), "spm");
  EXPECT_EQ(loaded->bos(), 2);
  EXPECT_EQ(loaded->eos(), 1);
  EXPECT_FALSE(loaded->adds_bos());
  EXPECT_EQ(loaded->encode(" a  ab<x>"), SpmTokenizer(v).encode(" a  ab<x>"));
}

TEST(Spm, DefaultsOfAFileThatNamesLittle) {
  const SpmVocabulary v = vocabulary_of({"a", kSpace + "a", kSpace});
  const TemporaryGguf file([&](gguf::Writer& writer) {
    writer.set("tokenizer.ggml.model", gguf::Value(std::string("llama")));
    writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(v.tokens)));
  });
  const auto loaded = load_tokenizer(file.open());
  EXPECT_EQ(loaded->bos(), 1);
  EXPECT_EQ(loaded->eos(), 2);
  EXPECT_TRUE(loaded->adds_bos());
  EXPECT_EQ(spelled(v, loaded->encode("a\n")), kSpace + "a|<0x0A>");
  EXPECT_EQ(loaded->token_bytes(0) + loaded->token_bytes(1) + loaded->token_bytes(2), "");
}

struct BadVocabulary {
  const char* name;
  std::function<void(SpmVocabulary&)> spoil;
  const char* message;
};

TEST(Spm, RefusesWhatIsNoVocabulary) {
  const std::vector<BadVocabulary> cases = {
      {"empty", [](auto& v) { v.tokens.clear(); }, "tokenizer.ggml.tokens is empty"},
      {"scores", [](auto& v) { v.scores.pop_back(); }, "tokenizer.ggml.scores has 260 values for 261 tokens"},
      {"types", [](auto& v) { v.types.push_back(1); }, "tokenizer.ggml.token_type has 262 values for 261 tokens"},
      {"nan", [](auto& v) { v.scores[260] = NAN; }, "tokenizer.ggml.scores[260] (token \"b\") is not a number"},
      {"type", [](auto& v) { v.types[259] = 7; }, "token_type[259] (token \"a\") is 7, not within 1 to 6"},
      {"negative type", [](auto& v) { v.types[259] = -1; }, "is -1, not within 1 to 6"},
      {"bos", [](auto& v) { v.bos = 261; }, "tokenizer.ggml.bos_token_id is 261, outside the vocabulary of 261"},
      {"eos", [](auto& v) { v.eos = -1; }, "tokenizer.ggml.eos_token_id is -1, outside"},
      {"unknown", [](auto& v) { v.unknown = 1 << 30; }, "tokenizer.ggml.unknown_token_id is 1073741824, outside"},
      {"no bos", [](auto& v) { v.bos.reset(); }, "tokenizer.ggml.add_bos_token is true, but"},
      {"no eos", [](auto& v) { v.eos.reset(), v.add_eos = true; }, "tokenizer.ggml.add_eos_token is true, but"},
      {"twice", [](auto& v) { v.tokens[260] = "a"; }, "\"a\" is there twice, with the ids 259 and 260"},
      {"utf-8", [](auto& v) { v.tokens[260] = "a\xC3"; }, "tokenizer.ggml.tokens[260] is not UTF-8"},
      {"byte name", [](auto& v) { v.tokens[5] = "<0x2>"; }, "tokens[5] is \"<0x2>\"; a byte token"},
      {"byte digits", [](auto& v) { v.tokens[5] = "<0x2G>"; }, "tokens[5] is \"<0x2G>\"; a byte token"},
      {"byte twice", [](auto& v) { v.tokens[3 + 11] = "<0x0a>"; }, "byte 10 is there twice, with the ids 13 and 14"},
  };
  for (const BadVocabulary& bad : cases) {
    SCOPED_TRACE(bad.name);
    SpmVocabulary v = vocabulary_of({"a", "b"});
    bad.spoil(v);
    const std::string message = message_of([&] { SpmTokenizer tokenizer(v); });
    expect_contains(message, "small: ");
    expect_contains(message, bad.message);
  }
}

TEST(Spm, RefusalsOfFilesNameTheFile) {
  const auto refusal = [](const char* key, gguf::Value value) {
    const TemporaryGguf file([&](gguf::Writer& writer) {
      SpmTokenizer(vocabulary_of({"a"})).save(writer);
      writer.set(key, std::move(value));
    });
    const std::string message = message_of([&] { load_tokenizer(file.open()); });
    expect_contains(message, file.path());
    expect_contains(message, key);
    return message;
  };
  refusal("tokenizer.ggml.bos_token_id", gguf::Value(uint32_t(0xFFFFFFFF)));
  refusal("tokenizer.ggml.unknown_token_id", gguf::Value(std::string("x")));
  refusal("tokenizer.ggml.scores", gguf::Value(gguf::Array(std::vector<float>(3))));
  refusal("tokenizer.ggml.scores", gguf::Value(gguf::Array(std::vector<int32_t>(260))));
  refusal("tokenizer.ggml.token_type", gguf::Value(gguf::Array(std::vector<int32_t>())));
  refusal("tokenizer.ggml.tokens", gguf::Value(gguf::Array(std::vector<std::string>())));
  refusal("tokenizer.ggml.tokens", gguf::Value(uint32_t(1)));
  refusal("tokenizer.ggml.add_bos_token", gguf::Value(std::string("yes")));
}

TEST(Spm, UserDefinedTokensHaveALimit) {
  SpmVocabulary v = vocabulary_of({std::string(1024, 'x')});
  v.types.back() = int32_t(TokenType::user_defined);
  EXPECT_EQ(SpmTokenizer(v).encode(std::string(1024, 'x')).back(), v.size() - 1);
  v.tokens.back() += 'x';
  expect_contains(message_of([&] { SpmTokenizer{v}; }),
                  "has 1025 bytes; a user-defined or control token has at most 1024");
}

TEST(Spm, LongRunsStayFast) {
  std::vector<std::string> pieces;
  for (size_t n = 1; n <= 64; n *= 2) pieces.push_back(std::string(n, 'a'));
  const SpmTokenizer tokenizer(vocabulary_of(pieces));
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')).size(), (1u << 20) / 64);
  const SpmTokenizer words(vocabulary_of({"a", "b", "ab", "ba", "aba", "  ", "    "}));
  for (const std::string& text : long_runs(1 << 20)) EXPECT_EQ(words.decode(words.encode(text)), text);
}

}  // namespace
}  // namespace toy::spm_test
