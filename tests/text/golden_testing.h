// What tests/golden/tokenizers.golden.json holds, and the random texts that its hashes are of.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "testing/files.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::testing {

class TokenizerGolden {
 public:
  TokenizerGolden() : json_(parse_json<nlohmann::json>(slurp(TOY_SOURCE_DIR "/tests/golden/tokenizers.golden.json"))) {}

  const nlohmann::json& json() const { return json_; }

  static constexpr uint64_t kRandomTexts = 10'000, kBlock = 1'000;

  /// random_text() of make_tokenizer_golden.py.
  std::string random_text(uint64_t seed) const {
    const auto below = [&seed](uint64_t n) {  // splitmix64
      uint64_t z = seed += 0x9E3779B97F4A7C15;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
      return (z ^ (z >> 31)) % n;
    };
    const auto& fragments = json_["fragments"];
    const auto& ranges = json_["ranges"];
    std::string text;
    for (uint64_t n = 1 + below(24); n > 0; --n) {
      const uint64_t kind = below(4);
      if (kind == 0) {
        const auto& range = ranges[below(ranges.size())];
        const uint32_t first = range[0], last = range[1];
        for (uint64_t i = 1 + below(3); i > 0; --i) text += utf8_encode(first + uint32_t(below(last - first + 1)));
      } else {
        const std::string fragment = fragments[below(fragments.size())];
        for (uint64_t i = kind == 1 ? 1 + below(3) : 1; i > 0; --i) text += fragment;
      }
    }
    return text;
  }

  /// Compares numbers(text), which none is 0, with what `expected` says of the texts and of the random ones.
  template <class F>
  void compare(const nlohmann::json& expected, const F& numbers, int64_t less = 0) const {
    const auto& texts = json_["texts"];
    for (size_t i = 0; i < texts.size(); ++i) {
      std::istringstream in(expected["texts"][i].get<std::string>());
      std::vector<int64_t> wanted;
      for (int64_t n; in >> n;) wanted.push_back(n + less);
      EXPECT_EQ(numbers(texts[i].get<std::string>()), wanted) << "text " << i << ": " << texts[i];
    }
    for (uint64_t block = 0; block < kRandomTexts / kBlock; ++block) {
      Sum sum;
      for (uint64_t i = 0; i < kBlock; ++i) sum.add(numbers(random_text(block * kBlock + i)));
      EXPECT_EQ(sum.text(), expected["hashes"][block].get<std::string>()) << "block " << block;
    }
  }

  /// The same for a text with each character that Unicode 14 assigns.
  template <class F>
  void compare_each_character(const nlohmann::json& expected, const F& numbers) const {
    Sum sum;
    const auto& runs = json_["assigned"];
    for (size_t i = 0; i < runs.size(); i += 2) {
      for (uint32_t c = runs[i]; c <= runs[i + 1].get<uint32_t>(); ++c) {
        const std::string character = utf8_encode(c);
        sum.add(numbers("a" + character + character + " " + character + "1"));
      }
    }
    EXPECT_EQ(sum.text(), expected["each"].get<std::string>());
  }

 private:
  /// hashes() of make_tokenizer_golden.py: FNV-1a with numbers in place of bytes.
  class Sum {
   public:
    void add(const std::vector<int64_t>& numbers) {
      for (const int64_t n : numbers) fold(n);
      fold(0);
    }
    std::string text() const { return fmt::format("{:016x}", sum_); }

   private:
    void fold(int64_t n) { sum_ = (sum_ ^ uint64_t(n)) * 1099511628211u; }
    uint64_t sum_ = 14695981039346656037u;
  };
  nlohmann::json json_;
};

}  // namespace toy::testing
