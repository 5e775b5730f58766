// Training byte-level BPE.
#include <gtest/gtest.h>

#include <map>

#include "text/bpe/byte_level.h"
#include "text/bpe/splitter.h"
#include "text_testing.h"

namespace toy::bpe_train_test {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;

TEST(TrainBpe, LayoutOfTheVocabulary) {
  const auto tokenizer = train_bpe(training_text(5, 30000), 400);
  EXPECT_EQ(tokenizer->kind(), "bpe");
  EXPECT_EQ(tokenizer->vocab_size(), 400);
  for (int32_t byte = 0; byte < 256; ++byte) EXPECT_EQ(tokenizer->token_bytes(byte), std::string(1, char(byte)));
  EXPECT_EQ(tokenizer->bos(), 399);
  EXPECT_EQ(tokenizer->eos(), 399);
  EXPECT_EQ(tokenizer->end_of_generation(), Ids{399});
  EXPECT_EQ(tokenizer->token_bytes(399), "");
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_FALSE(tokenizer->adds_eos());
  EXPECT_EQ(tokenizer->encode("<|endoftext|>", {.parse_special = true}), Ids{399});
  EXPECT_GT(tokenizer->encode("<|endoftext|>").size(), 1u);
}

TEST(TrainBpe, EveryTextComesBack) {
  const auto tokenizer = train_bpe(training_text(5, 30000), 400);
  RandomText random(9);
  for (int round = 0; round < 1000; ++round) {
    const std::string text = round % 2 == 0 ? random.bytes(60) : random.unicode(20);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(TrainBpe, LearnsTheText) {
  const std::string text = training_text(5, 60000);
  const auto small = train_bpe(text, 300), large = train_bpe(text, 700);
  EXPECT_LT(large->encode(text).size(), small->encode(text).size());
  EXPECT_LT(large->encode(text).size() * 3, text.size());
  EXPECT_EQ(large->fingerprint(), train_bpe(text, 700)->fingerprint());
  // A larger vocabulary goes on where the smaller one ends.
  for (int32_t id = 0; id < 299; ++id) EXPECT_EQ(small->token_bytes(id), large->token_bytes(id));
}

/// The definition: count all pairs again after each merge.
std::vector<std::string> trained_by_hand(std::string_view text, size_t merges) {
  using Word = std::vector<int32_t>;
  std::map<Word, int64_t> words;
  Splitter(*find_pre_tokenizer("qwen2")).split(text, true, [&](std::string_view word) {
    Word symbols;
    for (const char byte : word) symbols.push_back(uint8_t(byte));
    ++words[symbols];
  });
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, char(byte));
  for (size_t n = 0; n < merges; ++n) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const auto& [word, count] : words)
      for (size_t i = 1; i < word.size(); ++i) counts[{word[i - 1], word[i]}] += count;
    const auto best = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto [left, right] = best->first;
    const std::string token = tokens[size_t(left)] + tokens[size_t(right)];
    const auto known = std::find(tokens.begin(), tokens.end(), token);
    const int32_t id = int32_t(known - tokens.begin());
    if (known == tokens.end()) tokens.push_back(token);
    std::map<Word, int64_t> after;
    for (const auto& [word, count] : words) {
      Word merged;
      for (size_t i = 0; i < word.size(); ++i) {
        const bool here = i + 1 < word.size() && word[i] == left && word[i + 1] == right;
        merged.push_back(here ? id : word[i]);
        i += here;
      }
      after[merged] += count;
    }
    words = std::move(after);
  }
  return tokens;
}

TEST(TrainBpe, GivesWhatCountingAgainGives) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    RandomText random(seed);
    std::string text = training_text(seed, 8000);
    for (int i = 0; i < 200; ++i)
      text += std::string(1 + random.below(9), char('a' + random.below(2))) + " \n"[random.below(2)];
    const std::vector<std::string> expected = trained_by_hand(text, 300);
    const auto tokenizer = train_bpe(text, int32_t(expected.size()) + 1);
    for (size_t id = 0; id < expected.size(); ++id)
      ASSERT_EQ(tokenizer->token_bytes(int32_t(id)), expected[id]) << seed << ", token " << id;
  }
}

TEST(TrainBpe, ComesBackFromAFile) {
  const auto tokenizer = train_bpe(training_text(5, 30000), 400);
  const auto loaded = saved_and_loaded(*tokenizer);
  EXPECT_EQ(loaded->fingerprint(), tokenizer->fingerprint());
  const std::string text = training_text(6, 10000);
  EXPECT_EQ(loaded->encode(text), tokenizer->encode(text));
}

TEST(TrainBpe, SaysWhatIsWrong) {
  expect_contains(message_of([] { train_bpe("text", 299); }),
                  "bpe:299: the number of tokens must be within 300 and 1000000");
  expect_contains(message_of([] { train_bpe("", 300); }), "bpe:300: there is no text to train the tokenizer on");
  expect_contains(message_of([] { train_bpe("the cat and the dog", 300); }),
                  "bpe:300: the text is too small: it gives 259 tokens. Give more text, or take the tokenizer bytes");
}

// One word of a megabyte, and few words that come often.
TEST(TrainBpe, OddTextsTakeNoTime) {
  std::string digits;
  for (uint32_t i = 0; i < 1u << 20; ++i) digits += char(uint32_t('a') + i * i / 7 % 26);
  EXPECT_EQ(train_bpe(digits, 2000)->vocab_size(), 2000);
  expect_contains(message_of([] { train_bpe(std::string(1 << 20, 'a'), 1000); }), "the text is too small");
}

}  // namespace
}  // namespace toy::bpe_train_test
