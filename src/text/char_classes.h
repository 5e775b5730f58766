// The sets of characters that the regular expressions of pre-tokenizers are made of.
#pragma once

#include <array>
#include <cstdint>
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
  kMathSign = 1ull << 17,             // [$+<=>^~|], what \p{P} leaves out of ASCII punctuation
  kBacktick = 1ull << 18,             // the last one that it leaves out
  kBloomStop = 1ull << 19,            // [(|.,!?…。，、।۔،)]
  kHanKana = 1ull << 20,              // [一-龥぀-ゟ゠-ヿ]
  kDeepSeekCjk = 1ull << 21,          // [一-龥ࠀ-一가-퟿]
  kDeepSeekLetter = 1ull << 22,       // the long list of letters with case in deepseek-llm
  kDeepSeekPunctuation = 1ull << 23,  // [!-/:-~！-／：-～‘-‟　-。]
  kAnyChar = 1ull << 24,
  kHan = 1ull << 25,               // \p{Han}
  kDecimal = 1ull << 26,           // \d
  kWordCharacter = 1ull << 27,     // \w
  kJoiner = 1ull << 28,            // [\u200C\u200D]
  kYoutuHangul = 1ull << 29,       // [가-힣ㄱ-ㆎ]
  kYoutuPunctuation = 1ull << 30,  // [！…“”‘’—：；，、-〿︰-﹏]
  kBopomofo = 1ull << 31,          // [ㄅ-ㄯ]
  kAfmoeScript = 1ull << 32,       // Han, kana, Thai, Lao, Khmer, Burmese, Hangul

  kLetter = kLu | kLl | kLt | kLm | kLo,
  kBreak = kCr | kLf,
};

/// A set: in one of the classes `any`, in none of `none`.
struct CharSet {
  uint64_t any = 0, none = 0;
  constexpr bool contains(uint64_t classes) const { return (classes & any) != 0 && (classes & none) == 0; }
  friend constexpr bool operator==(const CharSet&, const CharSet&) = default;
};
constexpr CharSet any_of(uint64_t classes) { return {classes, 0}; }
constexpr CharSet none_of(uint64_t classes) { return {kAnyChar, classes}; }

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
