// Unigram vocabularies with answers worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "text/spm/spm.h"
#include "text_testing.h"

namespace toy::unigram_test {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;

const std::string kSpace = "\xE2\x96\x81";

struct Piece {
  std::string text;
  float score;
  int32_t type = 1;
};

/// <unk> and these; no byte tokens.
SpmVocabulary vocabulary_of(const std::vector<Piece>& pieces) {
  SpmVocabulary v;
  v.source = "small";
  v.model = SpmModel::unigram;
  v.tokens = {"<unk>"}, v.scores = {0}, v.types = {2};
  for (const Piece& piece : pieces) {
    v.tokens.push_back(piece.text), v.scores.push_back(piece.score), v.types.push_back(piece.type);
  }
  v.unknown = 0;
  v.add_bos = v.add_space_prefix = false;
  return v;
}

std::string encoded(const SpmVocabulary& v, std::string_view text) {
  std::string out;
  for (const int32_t id : SpmTokenizer(v).encode(text)) out += (out.empty() ? "" : "|") + v.tokens.at(size_t(id));
  return out;
}

TEST(Unigram, TakesTheLargestSum) {
  const SpmVocabulary v = vocabulary_of({{"a", -1}, {"b", -1}, {"c", -1}, {"ab", -3}, {"bc", -1.5f}, {"abc", -2.4f}});
  EXPECT_EQ(encoded(v, ""), "");
  EXPECT_EQ(encoded(v, "ab"), "a|b");   // -2 against -3
  EXPECT_EQ(encoded(v, "abc"), "abc");  // -2.4 against a|bc with -2.5
  EXPECT_EQ(encoded(v, "bcb"), "bc|b");
}

TEST(Unigram, OfEqualSumsTheOneWithTheLongerLastPiece) {
  const SpmVocabulary v = vocabulary_of({{"a", -1}, {"aa", -2}, {"aaa", -3}});
  EXPECT_EQ(encoded(v, "aa"), "aa");
  EXPECT_EQ(encoded(v, "aaaa"), "a|aaa");  // that way was found first: it begins earlier
}

// The unknown costs 10 more than the least score. A run of them is one token.
TEST(Unigram, Unknown) {
  const SpmVocabulary v = vocabulary_of({{"a", -1}, {"xa", -11.9f}, {"xyaa", -30}, {kSpace, -2}});
  EXPECT_EQ(encoded(v, "axyza"), "a|<unk>|a");
  EXPECT_EQ(encoded(v, "xa"), "xa");
  EXPECT_EQ(encoded(v, "xyaa"), "xyaa");                            // -30 against two unknown with -40 each
  EXPECT_EQ(encoded(v, "a\n\nx\n a"), "a|<unk>|" + kSpace + "|a");  // across line breaks, too
  expect_contains(message_of([&] { SpmTokenizer(v).encode("ax\xe2\x82"); }), "not UTF-8 at byte 2 of the text");
  SpmVocabulary without = v;
  without.unknown.reset(), without.types[0] = 3;
  expect_contains(message_of([&] { SpmTokenizer(without).encode("a\nax"); }),
                  "for the character at byte 1 of the text");
}

TEST(Unigram, BytesInPlaceOfTheUnknown) {
  std::vector<Piece> pieces = {{"a", -1}, {kSpace, -2}};
  for (int byte = 0; byte < 256; ++byte) pieces.push_back({fmt::format("<0x{:02X}>", byte), 0, 6});
  const SpmVocabulary v = vocabulary_of(pieces);
  EXPECT_EQ(encoded(v, "a\xC3\xA9 a\n"), "a|<0xC3>|<0xA9>|" + kSpace + "|a|<0x0A>");
  EXPECT_EQ(encoded(v,
                    "\xE4"
                    "a" +
                        kSpace),
            "<0xE4>|a|<0xE2>|<0x96>|<0x81>");
}

TEST(Unigram, UserDefinedTokensWinOverPieces) {
  const SpmVocabulary v = vocabulary_of({{"a", -1}, {"b", -1}, {"ab", -2}, {"bab", 0, 4}, {" a", 0, 4}, {"ba", 0, 5}});
  EXPECT_EQ(encoded(v, "abab"), "a|bab");
  EXPECT_EQ(encoded(v, "ba"), "b|a");  // "ba" is unused
  EXPECT_EQ(encoded(v, "b a"), "b| a");
}

// Sums of floats over a long text are too coarse; by lines they are not.
TEST(Unigram, ALongTextIsCutAsItsLines) {
  const SpmVocabulary v =
      vocabulary_of({{"a", -7.001f}, {"b", -7.002f}, {"ab", -14.002f}, {"ba", -14.004f}, {"\n", -3}, {kSpace, -2}});
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "abba baab\n";
  const Ids ids = SpmTokenizer(v).encode(text), line = SpmTokenizer(v).encode("abba baab\n");
  ASSERT_EQ(ids.size(), 100000 * line.size());
  for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], line[i % line.size()]) << i;
}

TEST(Unigram, APieceMayReachAcrossLines) {
  const SpmVocabulary v = vocabulary_of({{"a", -1}, {"\n", -3}, {"a\na", -4}, {"\n\n", -3}});
  EXPECT_EQ(encoded(v, "a\na"), "a\na");
  EXPECT_EQ(encoded(v, "\n\n\n"), "\n|\n\n");
}

TEST(Unigram, SaveAndLoadKeepEverything) {
  SpmVocabulary v = vocabulary_of({{"a", -1}, {kSpace, -2}, {"<x>", 0, 4}, {"</s>", 0, 3}});
  v.eos = 4, v.add_space_prefix = v.remove_extra_whitespaces = true;
  v.chars_map = std::string("\4\0\0\0\0\0\0\0x\0", 10);
  const TemporaryGguf file([&](gguf::Writer& writer) { SpmTokenizer(v).save(writer); });
  const gguf::File in = file.open();
  EXPECT_EQ(in.get_string("tokenizer.ggml.model"), "t5");
  EXPECT_FALSE(in.get_bool("tokenizer.ggml.add_eos_token", true));  // llama.cpp would add one
  EXPECT_TRUE(in.has("tokenizer.ggml.precompiled_charsmap"));
  const auto loaded = load_tokenizer(in);
  EXPECT_EQ(loaded->kind(), "unigram");
  EXPECT_EQ(loaded->bos(), std::nullopt);
  EXPECT_EQ(loaded->eos(), 4);
  EXPECT_EQ(loaded->encode(" a  a<x>"), SpmTokenizer(v).encode(" a  a<x>"));
  EXPECT_EQ(loaded->decode(loaded->encode("a a")), "a a");
}

TEST(Unigram, RefusesScoresThatCannotBeAdded) {
  SpmVocabulary v = vocabulary_of({{"a", -INFINITY}});
  expect_contains(message_of([&] { SpmTokenizer tokenizer(v); }), "scores[1] (token \"a\") is not a finite number");
  v.scores[1] = -1;
  const TemporaryGguf file([&](gguf::Writer& writer) {
    writer.set("tokenizer.ggml.model", gguf::Value(std::string("t5")));
    writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(v.tokens)));
  });
  expect_contains(message_of([&] { load_tokenizer(file.open()); }), "tokenizer.ggml.scores is missing");
}

TEST(Unigram, LongRunsStayFast) {
  const SpmTokenizer tokenizer(
      vocabulary_of({{"a", -1}, {"b", -1}, {"c", -1}, {kSpace, -1}, {"\n", -1}, {"aa", -3}, {"aaaaaaaa", -3}}));
  for (const std::string& text : long_runs(1 << 20)) EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

}  // namespace
}  // namespace toy::unigram_test
