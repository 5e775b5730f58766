// WordPiece against Hugging Face's tokenizers, and by hand.
#include "text/wordpiece.h"

#include <gtest/gtest.h>

#include "golden_testing.h"
#include "text_testing.h"

namespace toy::wordpiece_test {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

WordPieceVocabulary vocabulary_of(const Strings& pieces) {
  WordPieceVocabulary v;
  v.source = "small";
  v.tokens = {"[UNK]", "[CLS]", "[SEP]"};
  v.types = {2, 3, 3};
  for (const std::string& piece : pieces) v.tokens.push_back(piece), v.types.push_back(1);
  v.unknown = 0, v.bos = 1, v.eos = 2;
  v.add_bos = v.add_eos = true;
  return v;
}

TEST(WordPiece, GoldenIds) {
  const TokenizerGolden golden;
  Strings pieces = golden.json()["wordpiece"]["tokens"].get<Strings>();
  pieces.erase(pieces.begin(), pieces.begin() + 3);
  const WordPieceTokenizer tokenizer(vocabulary_of(pieces));
  golden.compare(
      golden.json()["wordpiece"]["ids"],
      [&](const std::string& text) {
        std::vector<int64_t> numbers;
        for (const int32_t id : tokenizer.encode(text)) numbers.push_back(id + 1);
        return numbers;
      },
      1);
}

TEST(WordPiece, KnownAnswers) {
  const WordPieceVocabulary v = vocabulary_of({"\u2581he", "\u2581hello", "llo", "\u2581!", "\u2581\u4E2D", "\u2581É"});
  const WordPieceTokenizer tokenizer(v);
  EXPECT_EQ(tokenizer.encode("Hello HÉLLO!"), (Ids{4, 4, 6}));
  EXPECT_EQ(tokenizer.encode("hellollo hex"), (Ids{4, 5, 0}));
  EXPECT_EQ(tokenizer.encode("he\u4E2Dhe"), (Ids{3, 7, 3}));
  EXPECT_EQ(tokenizer.encode("[CLS]he", {.parse_special = true}), (Ids{1, 3}));
  EXPECT_EQ(tokenizer.encode(" \t\n"), Ids{});
  EXPECT_EQ(tokenizer.encode(std::string(101, 'h')), Ids{0});
  EXPECT_EQ(encode_complete(tokenizer, "he"), (Ids{1, 3, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 4, 5, 6, 2}), "hellollo !");
  WordPieceVocabulary cased = v;
  cased.lowercase = cased.strip_accents = false;
  EXPECT_EQ(WordPieceTokenizer(cased).encode("É Hello hello"), (Ids{8, 0, 4}));
}

TEST(WordPiece, ComesBackFromAFile) {
  WordPieceVocabulary v = vocabulary_of({"\u2581a", "b"});
  v.strip_accents = false;
  const WordPieceTokenizer tokenizer(v);
  const auto loaded = saved_and_loaded(tokenizer);
  EXPECT_EQ(loaded->kind(), "wordpiece");
  EXPECT_EQ(loaded->fingerprint(), tokenizer.fingerprint());
  EXPECT_TRUE(loaded->adds_bos());
  EXPECT_TRUE(loaded->adds_eos());
  EXPECT_EQ(loaded->encode("ab"), (Ids{3, 4}));
}

TEST(WordPiece, TheMarksOfBertItself) {
  const TemporaryGguf file([](gguf::Writer& writer) { WordPieceTokenizer(vocabulary_of({"a", "##b"})).save(writer); });
  EXPECT_EQ(load_tokenizer(file.open())->encode("ab abb b"), (Ids{3, 4, 3, 4, 4, 0}));
}

TEST(WordPiece, NeedsAnUnknownToken) {
  WordPieceVocabulary v = vocabulary_of({"a"});
  v.unknown.reset();
  expect_contains(message_of([&] { WordPieceTokenizer tokenizer(v); }), "unknown_token_id is not set");
}

TEST(WordPiece, LongRunsStayFast) {
  const WordPieceTokenizer tokenizer(vocabulary_of({"\u2581a", "a", "b", "c"}));
  for (const std::string& text : long_runs(1 << 20)) EXPECT_LE(tokenizer.encode(text).size(), 1u);
  std::string words;
  while (words.size() < 1 << 20) words += "abc ";
  EXPECT_EQ(tokenizer.encode(words).size(), words.size() / 4 * 3);
}

}  // namespace
}  // namespace toy::wordpiece_test
