// How texts are cut into words, against Hugging Face's tokenizers.
#include "text/bpe/splitter.h"

#include <gtest/gtest.h>

#include <chrono>

#include "golden_testing.h"
#include "text_testing.h"

namespace toy::splitter_test {
namespace {

using namespace testing;
using Words = std::vector<std::string>;

Splitter splitter(std::string_view name) {
  const PreTokenizer* rules = find_pre_tokenizer(name);
  check(rules != nullptr, "no pre-tokenizer {}", name);
  return Splitter(*rules);
}

Words words_of(const Splitter& s, std::string_view text) {
  Words words;
  EXPECT_EQ(s.split(text, true, [&](std::string_view word) { words.emplace_back(word); }), text.size());
  return words;
}

/// Every regular expression once.
std::vector<std::string> rows(const TokenizerGolden& golden) {
  std::vector<std::string> names;
  for (const auto& [name, value] : golden.json()["words"].items()) names.push_back(name);
  return names;
}

TEST(Splitter, GoldenWords) {
  const TokenizerGolden golden;
  for (const std::string& name : rows(golden)) {
    SCOPED_TRACE(name);
    const Splitter s = splitter(name);
    const auto lengths_of = [&](const std::string& text) {
      std::vector<int64_t> lengths;
      s.split(text, true, [&](std::string_view word) { lengths.push_back(int64_t(word.size())); });
      return lengths;
    };
    golden.compare(golden.json()["words"][name], lengths_of);
    golden.compare_each_character(golden.json()["words"][name], lengths_of);
  }
}

TEST(Splitter, ReadableExamples) {
  EXPECT_EQ(words_of(splitter("gpt-2"), "I'll say  1234 times:\n\n \"no\"!"),
            (Words{"I", "'ll", " say", " ", " 1234", " times", ":", "\n\n", " \"", "no", "\"!"}));
  EXPECT_EQ(words_of(splitter("llama3"), "I'LL say  1234 times:\n\n \"no\"!"),
            (Words{"I", "'LL", " say", " ", " ", "123", "4", " times", ":\n\n", " \"", "no", "\"!"}));
  EXPECT_EQ(words_of(splitter("gpt-4o"), "HTTPServer's McDONALD"), (Words{"HTTPServer's", " Mc", "DONALD"}));
  EXPECT_EQ(words_of(splitter("smollm"), " 12"), (Words{" ", "1", "2"}));
  EXPECT_EQ(words_of(splitter("superbpe"), "all of 1234567 men"), (Words{"all of ", "1", "234", "567", " men"}));
  EXPECT_EQ(words_of(splitter("tiny_aya"), "1234567 1234567x"),
            (Words{"1", "234", "567", " ", "123", "456", "7", "x"}));
  EXPECT_EQ(words_of(splitter("exaone-moe"), "two words, //x"), (Words{"two words", ",", " //", "x"}));
  EXPECT_EQ(words_of(splitter("kimi-k2"), "HelloWorld\u4e2d\u6587Abc"),
            (Words{"Hello", "World", "\u4e2d\u6587", "Abc"}));
  EXPECT_EQ(words_of(splitter("jais-2"), "a" + std::string(7, ' ') + "b"), (Words{"a", "    ", "  ", " b"}));
  EXPECT_EQ(words_of(splitter("jais-2"), std::string(700, ' ')),
            (Words{std::string(512, ' '), std::string(128, ' '), std::string(32, ' '), std::string(16, ' '),
                   std::string(8, ' '), std::string(4, ' ')}));
}

// A byte that is no UTF-8 is cut as U+FFFD would be.
TEST(Splitter, BrokenUtf8IsOneStrangeCharacterAByte) {
  RandomText random(5);
  for (const std::string& name : rows(TokenizerGolden())) {
    const Splitter s = splitter(name);
    for (int round = 0; round < 300; ++round) {
      const std::string text = round % 2 == 0 ? random.bytes(40) : random.unicode(10) + random.bytes(5);
      Words replaced;
      for (const std::string& word : words_of(s, text)) replaced.push_back(valid_utf8(word));
      ASSERT_EQ(replaced, words_of(s, valid_utf8(text))) << name;
    }
  }
}

// What is certain early is what the complete text gives.
TEST(Splitter, PartsGiveTheWordsOfTheWhole) {
  const TokenizerGolden golden;
  RandomText random(8);
  for (const std::string& name : rows(golden)) {
    const Splitter s = splitter(name);
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const std::string text = golden.random_text(seed) + (seed % 3 == 0 ? random.bytes(6) : "");
      Words words;
      std::string pending;
      for (const char byte : text) {
        pending += byte;
        pending.erase(0, s.split(pending, false, [&](std::string_view word) { words.emplace_back(word); }));
      }
      s.split(pending, true, [&](std::string_view word) { words.emplace_back(word); });
      ASSERT_EQ(words, words_of(s, text)) << name << " " << text;
    }
  }
}

// English never waits for long.
TEST(Splitter, WordsComeEarly) {
  for (const std::string& name : rows(TokenizerGolden())) {
    const Splitter s = splitter(name);
    const std::string text = "a word, and then 12 others; I'm sure.\n";
    if (name == "superbpe") continue;  // only numbers cut its texts
    const size_t given = s.split(text, false, [](std::string_view) {});
    EXPECT_GE(given, text.size() - 6) << name;
  }
}

// Together 200 MB. A rule that looks at the rest of a run from each of its places would take 9e9 steps a case.
TEST(Splitter, LongRunsTakeLinearTime) {
  const size_t n = size_t(1) << 17;
  const auto repeated = [&](std::string_view part) {
    std::string text;
    while (text.size() < n) text += part;
    return text;
  };
  const auto begin = std::chrono::steady_clock::now();
  for (const char* part : {"a", "A", " ", "\n", "1", "'", "\xE4\xB8\xAD", "\xCC\x81", "\xFF", "\xC2\xA0", " \n",
                           "\xCA\xB0"
                           "A",
                           "!"}) {
    for (const char* end : {"", "x", "\xE4\xB8\xAD"}) {
      const std::string text = repeated(part) + end;
      for (const std::string& name : rows(TokenizerGolden())) {
        const Splitter s = splitter(name);
        EXPECT_EQ(s.split(text, true, [](std::string_view) {}), text.size());
        if (text.size() > n) s.split(text, false, [](std::string_view) {});
      }
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 120);
}

TEST(PreTokenizers, EveryNameIsThereOnce) {
  std::istringstream names(pre_tokenizer_names());
  std::vector<std::string> all;
  for (std::string name; names >> name;) {
    if (name.back() == ',') name.pop_back();
    EXPECT_NE(find_pre_tokenizer(name), nullptr) << name;
    all.push_back(name);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
  EXPECT_EQ(find_pre_tokenizer("gpt"), nullptr);
  EXPECT_EQ(find_pre_tokenizer(""), nullptr);
  EXPECT_EQ(find_pre_tokenizer("gpt-2 phi-2"), nullptr);
}

}  // namespace
}  // namespace toy::splitter_test
