// A text in parts gives the ids of the whole, for every tokenizer and however it is cut.
#include <gtest/gtest.h>

#include "text/bpe/bpe.h"
#include "text/bpe/byte_level.h"
#include "text/spm/spm.h"
#include "text/wordpiece.h"
#include "text_testing.h"
#include "toy/base/utf8.h"

namespace toy::encode_stream_test {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;

// In random parts, with chunks small enough that every part is an occasion to cut.
Ids in_parts(const Tokenizer& tokenizer, std::string_view text, RandomText& random, size_t chunk,
             EncodeOptions options = {}) {
  EncodeStream stream(tokenizer, chunk, options);
  Ids ids;
  while (!text.empty()) {
    const size_t bytes = std::min<size_t>(text.size(), random.below(uint32_t(3 * chunk)));
    stream.push(text.substr(0, bytes), ids);
    text.remove_prefix(bytes);
  }
  stream.finish(ids);
  return ids;
}

enum class Takes { any_bytes, utf8 };

void expect_same(const Tokenizer& tokenizer, const std::string& what, Takes takes = Takes::any_bytes) {
  RandomText random(11);
  for (int i = 0; i < 60; ++i) {
    std::string text = i % 3 == 0 ? random.bytes(400) : random.unicode(200);
    if (takes == Takes::utf8) text = valid_utf8(text);
    for (const size_t chunk : {1, 7, 64})
      ASSERT_EQ(in_parts(tokenizer, text, random, chunk), tokenizer.encode(text)) << what << ", text " << i;
  }
  const std::string lines = training_text(3, 60000);  // unigram cuts behind 4096 bytes
  EXPECT_EQ(in_parts(tokenizer, lines, random, 5000), tokenizer.encode(lines)) << what;
}

SpmVocabulary bare_vocabulary() {
  SpmVocabulary v;
  v.source = "small";
  v.tokens = {"<unk>", "ab", "a", "b", "\xE2\x96\x81", "\n", "e", "er", "\xE2\x96\x81the", "<|x|>", "<|x|>y", "h", "t"};
  for (size_t i = 0; i < v.tokens.size(); ++i) v.scores.push_back(-float(i)), v.types.push_back(1);
  v.types[0] = 2, v.types[9] = v.types[10] = 4;
  v.unknown = 0;
  v.add_bos = v.add_space_prefix = false;
  return v;
}

TEST(EncodeStream, PartsGiveTheIdsOfTheWhole) {
  expect_same(*make_byte_tokenizer(), "bytes");
  const std::string text = training_text(5, 30000);
  expect_same(*train_spm(text, {.vocab_size = 400}), "spm");
  expect_same(*train_unigram(text, {.vocab_size = 400}), "unigram");
  expect_same(*train_bpe(text, 400), "bpe");
}

// Tokens written out in the text, which a cut may go through; WordPiece, whose words end with spaces.
TEST(EncodeStream, TokensWrittenOut) {
  const std::vector<std::string> literals = {"<|x|>", "<|x|>y", "  ", "[CLS]", "<|"};
  BpeVocabulary bpe;
  bpe.source = "small";
  for (int byte = 0; byte < 256; ++byte) bpe.tokens.push_back(byte_level_name(uint8_t(byte)));
  bpe.merges = {"t h", "Ġ th", "Ġth e"};
  for (const char* made : {"th", "Ġth", "Ġthe"}) bpe.tokens.push_back(made);
  WordPieceVocabulary bert;
  bert.source = "small";
  bert.tokens = {"[UNK]", "\u2581the", "\u2581", "a", "t", "h"};
  bert.unknown = 0;
  for (Vocabulary* v : std::initializer_list<Vocabulary*>{&bpe, &bert}) {
    v->types.assign(v->tokens.size(), 1);
    for (size_t i = 0; i < literals.size(); ++i)
      v->tokens.push_back(literals[i]), v->types.push_back(i % 2 == 0 ? 3 : 4);
  }
  const WordPieceTokenizer wordpiece(bert);
  expect_same(wordpiece, "wordpiece");
  for (const char* pre : {"gpt-2", "llama-bpe", "smollm", "deepseek-llm", "default", "tekken"}) {
    bpe.pre = pre;
    const BpeTokenizer tokenizer(bpe);
    expect_same(tokenizer, pre);
    RandomText random(2);
    for (int round = 0; round < 50; ++round) {
      std::string text;
      for (int i = 0; i < 30; ++i)
        text += std::vector<std::string>{"<|x|>", "y", " the", "<|x", " ", "[CLS", "1", "\n", "\xC3"}[random.below(9)];
      for (const bool special : {false, true})
        for (const Tokenizer* t : std::initializer_list<const Tokenizer*>{&tokenizer, &wordpiece})
          ASSERT_EQ(in_parts(*t, text, random, 3, {special}), t->encode(text, {special})) << pre << " " << text;
    }
  }
}

// Runs of unknown characters give one token, also across a cut; user-defined tokens and the prefix cross none.
TEST(EncodeStream, UnknownRunsLiteralsAndThePrefix) {
  for (const SpmModel model : {SpmModel::bpe, SpmModel::unigram})
    for (const bool prefix : {false, true})
      for (const bool trim : {false, true}) {
        SpmVocabulary v = bare_vocabulary();
        v.model = model;
        v.add_space_prefix = prefix;
        v.remove_extra_whitespaces = trim;
        const SpmTokenizer tokenizer(v);
        expect_same(tokenizer, fmt::format("model {}, prefix {}, trim {}", int(model), prefix, trim), Takes::utf8);
        RandomText random(2);
        std::string text;
        for (int i = 0; i < 300; ++i)
          text += std::vector<std::string>{"<|x|>", "y", "ab", "<|x", "~~", " the"}[random.below(6)];
        EXPECT_EQ(in_parts(tokenizer, text, random, 3), tokenizer.encode(text));
      }
}

// Gemma 4's, which takes a run of line breaks as a whole, however it arrives.
TEST(EncodeStream, RunsOfLineBreaks) {
  SpmVocabulary v = bare_vocabulary();
  v.model = SpmModel::ranked;
  v.scores.clear();
  v.tokens.insert(v.tokens.end(), {"\n\n", "\n\n\n", "th", "the"});
  v.types.resize(v.tokens.size(), 1);
  v.merges = {"t h", "th e", "\u2581 the", "a b", "\n \n"};
  const SpmTokenizer tokenizer(v);
  expect_same(tokenizer, "gemma4", Takes::utf8);
  RandomText random(2);
  for (int round = 0; round < 50; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i)
      text += std::vector<std::string>{"\n", "\n\n", " the", "<|x", "<|x|>", "\u00e9", "ab"}[random.below(7)];
    for (const size_t chunk : {1, 3, 20})
      ASSERT_EQ(in_parts(tokenizer, text, random, chunk), tokenizer.encode(text)) << text;
  }
}

// What is held back is a chunk and no more, where a tokenizer has places to cut in.
TEST(EncodeStream, GivesIdsAsTheTextComes) {
  const std::string text = training_text(7, 200000);
  for (const char* spec : {"bytes", "bpe:400", "spm:400", "unigram:400"}) {
    const auto tokenizer = make_tokenizer(spec, training_text(5, 30000));
    EncodeStream stream(*tokenizer, 20000);
    Ids ids;
    size_t most = 0;
    for (size_t at = 0; at < text.size(); at += 1000) {
      stream.push(std::string_view(text).substr(at, 1000), ids);
      most = std::max(most, at + 1000 - std::min(at + 1000, tokenizer->decode(ids).size()));
    }
    EXPECT_LT(most, 30000u) << spec;
  }
}

TEST(EncodeStream, AnErrorHasTheOffsetInTheWholeText) {
  SpmVocabulary v = bare_vocabulary();
  v.unknown.reset();
  const SpmTokenizer tokenizer(v);
  std::string text(500, 'a');
  for (size_t i = 0; i < text.size(); i += 3) text[i] = '\n';
  text += "z and so on";
  EncodeStream stream(tokenizer, 16);
  expect_contains(message_of([&] {
                    Ids ids;
                    for (const char c : text) stream.push(std::string(1, c), ids);
                    stream.finish(ids);
                  }),
                  "the character at byte 500 of the text");
}

TEST(Fingerprint, TellsTokenizersApart) {
  const std::string text = training_text(5, 30000);
  const auto spm = train_spm(text, {.vocab_size = 400});
  EXPECT_EQ(spm->fingerprint(), saved_and_loaded(*spm)->fingerprint());
  EXPECT_EQ(spm->fingerprint(), train_spm(text, {.vocab_size = 400})->fingerprint());
  EXPECT_NE(spm->fingerprint(), train_spm(text, {.vocab_size = 401})->fingerprint());
  EXPECT_NE(spm->fingerprint(), make_byte_tokenizer()->fingerprint());
  EXPECT_NE(spm->fingerprint(), train_bpe(text, 400)->fingerprint());
  SpmVocabulary v = bare_vocabulary();
  const uint64_t before = SpmTokenizer(v).fingerprint();
  v.scores[3] += 1;
  EXPECT_NE(before, SpmTokenizer(v).fingerprint());
}

}  // namespace
}  // namespace toy::encode_stream_test
