// What the tests of tokenizers share: vocabularies in files that come and go, random texts.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/base/utf8.h"
#include "toy/formats/gguf.h"
#include "toy/text/tokenizer.h"

namespace toy::testing {

/// A GGUF file that is gone at the end of the scope.
class TemporaryGguf {
 public:
  explicit TemporaryGguf(const std::function<void(gguf::Writer&)>& fill) {
    gguf::Writer writer("llama");
    fill(writer);
    writer.finish(path());
  }

  std::string path() const { return folder_.path("vocabulary.gguf"); }
  gguf::File open() const { return gguf::File::open(path()); }

 private:
  Folder folder_;
};

/// The tokenizer after a trip through a file.
inline std::shared_ptr<const Tokenizer> saved_and_loaded(const Tokenizer& tokenizer) {
  const TemporaryGguf file([&](gguf::Writer& writer) { tokenizer.save(writer); });
  return load_tokenizer(file.open());
}

/// Random texts: equal on every machine for the same seed.
class RandomText {
 public:
  explicit RandomText(uint32_t seed) : random_(seed) {}

  uint32_t below(uint32_t n) { return uint32_t(random_() % n); }  // distributions of std differ between libraries

  std::string bytes(uint32_t most) {
    std::string text(below(most + 1), '\0');
    for (char& c : text) c = char(below(256));
    return text;
  }

  /// Valid UTF-8 without U+2581: words, runs of spaces, line breaks, several scripts, emoji, control
  /// characters.
  std::string unicode(uint32_t most) {
    std::string text;
    for (uint32_t n = below(most + 1); n > 0; --n) text += fragment();
    return text;
  }

 private:
  std::string fragment() {
    static const std::vector<std::string> kWords = {" the",
                                                    " and",
                                                    "ing",
                                                    "er",
                                                    " of",
                                                    "tion",
                                                    "Hello",
                                                    " World",
                                                    "'s",
                                                    " \xD0\xBD\xD0\xB0",
                                                    "123",
                                                    " 7",
                                                    "...",
                                                    "\n\n",
                                                    "  ",
                                                    " \t",
                                                    "\xF0\x9F\xA6\x99",
                                                    "\xE6\x88\x91",
                                                    "</s>",
                                                    "<0x41>",
                                                    "<unk>",
                                                    "\xEF\xBF\xBD"};
    switch (below(6)) {
      case 0:
        return std::string(below(6), ' ');
      case 1:
        return utf8_encode(below(0x80));
      case 2:
        return kWords[below(uint32_t(kWords.size()))];
      case 3:
        return std::string(1 + below(3), char('a' + below(26)));
      case 4:
        return utf8_encode(0x80 + below(0x700));
      default:
        return any_character();
    }
  }
  std::string any_character() {
    const uint32_t c = below(0x110000);
    const bool excluded = (c >= 0xD800 && c < 0xE000) || c == 0x2581;
    return utf8_encode(excluded ? 0x1F600 + c % 64 : c);
  }

  std::mt19937 random_;
};

/// What takes the square of its length if anything does: one letter, spaces, and a word, all of this many bytes.
inline std::vector<std::string> long_runs(size_t bytes) {
  RandomText random(1);
  std::string word(bytes, 'a');
  for (char& c : word) c = char('a' + random.below(3));
  return {std::string(bytes, 'a'), std::string(bytes, ' '), std::string(bytes, '\n'), word};
}

/// Text of made-up words in two scripts, enough to train on: the frequent ones come often.
inline std::string training_text(uint32_t seed, size_t bytes) {
  RandomText random(seed);
  static const std::vector<std::string> kSyllables = {"ba",
                                                      "ne",
                                                      "ti",
                                                      "lo",
                                                      "shu",
                                                      "ran",
                                                      "el",
                                                      "mi",
                                                      "the",
                                                      "and",
                                                      "ou",
                                                      "qu",
                                                      "x",
                                                      "\xC3\xA9",
                                                      "\xD0\xBD\xD0\xB0",
                                                      "\xD1\x81\xD0\xBA",
                                                      "\xE4\xB8\xAD",
                                                      "\xF0\x9F\xA6\x99"};
  std::vector<std::string> words(400);
  for (std::string& word : words) {
    for (uint32_t n = 1 + random.below(4); n > 0; --n) word += kSyllables[random.below(uint32_t(kSyllables.size()))];
  }
  std::string text;
  while (text.size() < bytes) {
    text += words[random.below(1 + random.below(uint32_t(words.size())))];
    const uint32_t what = random.below(20);
    text += what == 0 ? "\n" : what == 1 ? ". " : what == 2 ? "   " : " ";
  }
  return text;
}

}  // namespace toy::testing
