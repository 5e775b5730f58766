// The sets of characters that the regular expressions of pre-tokenizers are made of.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace toy {

/// A character is in any number of these.
enum CharClass : uint64_t {
  kLu = 1ull << 0,  // Unicode's categories
  kLl = 1ull << 1,
  kLt = 1ull << 2,
  kLm = 1ull << 3,
  kLo = 1ull << 4,
  kMark = 1ull << 5,
  kNumber = 1ull << 6,
  kPunctuation = 1ull << 7,
  kSymbol = 1ull << 8,
  kSpace = 1ull << 9,   // \s
  kBlank = 1ull << 10,  // U+0020
  kCr = 1ull << 11,
  kLf = 1ull << 12,
  kSlash = 1ull << 13,
  kAsciiLetter = 1ull << 14,
  kAsciiDigit = 1ull << 15,
  kAsciiPunctuation = 1ull << 16,
  kMathSign = 1ull << 17,  // what \p{P} leaves out of ASCII punctuation, but for the backtick
  kBacktick = 1ull << 18,
  kBloomStop = 1ull << 19,       // what ends a word of Bloom
  kDeepSeekLetter = 1ull << 20,  // the long list of letters with case in deepseek-llm
  kAnyChar = 1ull << 21,
  kHan = 1ull << 22,            // \p{Han}
  kDecimal = 1ull << 23,        // \d
  kWordCharacter = 1ull << 24,  // \w
  kJoiner = 1ull << 25,         // zero-width joiner and non-joiner

  // What kHanKanaRegex and so on spell.
  kHanKana = 1ull << 26,
  kDeepSeekCjk = 1ull << 27,
  kDeepSeekPunctuation = 1ull << 28,
  kYoutuHangul = 1ull << 29,
  kYoutuPunctuation = 1ull << 30,
  kBopomofo = 1ull << 31,
  kAfmoeScript = 1ull << 32,  // Han, kana, Thai, Lao, Khmer, Burmese, Hangul

  kLetter = kLu | kLl | kLt | kLm | kLo,
  kBreak = kCr | kLf,
};

/// @{
/// Runs of a class of its own, as the regular expressions of models spell them.
inline constexpr std::string_view kHanKanaRegex = "[一-龥\u3040-ゟ゠-ヿ]+";
inline constexpr std::string_view kDeepSeekCjkRegex = "[一-龥ࠀ-一가-\uD7FF]+";
inline constexpr std::string_view kDeepSeekPunctuationRegex = "[!-/:-~！-／：-～‘-‟　-。]+";
inline constexpr std::string_view kYoutuHangulRegex = "[가-힣ㄱ-ㆎ]+";
inline constexpr std::string_view kYoutuPunctuationRegex = "[！…“”‘’—：；，、-〿︰-﹏]+";
inline constexpr std::string_view kBopomofoRegex = "[ㄅ-ㄯ]+";
inline constexpr std::string_view kAfmoeRegex =
    "[一-鿿㐀-䶿\uf900-\uFAFF\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2FDFเ-\u0E7F\u0E80-\u0EFFក-\u17FF"
    "က-႟ꩠ-ꩿꧠ-\uA9FF가-\uD7AFᄀ-ᇿ]+";
/// @}

/// A set: in one of the classes `any`, in none of `none`.
struct ClassSet {
  uint64_t any = 0, none = 0;
  constexpr bool contains(uint64_t classes) const { return (classes & any) != 0 && (classes & none) == 0; }
  friend constexpr bool operator==(const ClassSet&, const ClassSet&) = default;
};
constexpr ClassSet any_of(uint64_t classes) { return {classes, 0}; }
constexpr ClassSet none_of(uint64_t classes) { return {kAnyChar, classes}; }

/// The classes of every code point, in pages of 256, of which equal ones are kept once.
class CharClasses {
 public:
  /// Made at the first call (some milliseconds).
  static const CharClasses& table();
  /// Below 0x110000.
  uint64_t of(uint32_t code_point) const { return pages_[page_[code_point >> 8]][code_point & 0xFF]; }
  /// Those of 0 to 127, one after the other.
  const uint64_t* ascii() const { return pages_[page_[0]].data(); }

 private:
  using Page = std::array<uint64_t, 256>;
  CharClasses();
  std::vector<Page> pages_;
  std::array<uint16_t, 0x1100> page_;
};

}  // namespace toy
