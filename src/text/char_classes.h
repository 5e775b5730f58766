// The sets of characters that the regular expressions of pre-tokenizers are made of.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace toy {

/// A character is in any number of these.
enum CharClass : uint32_t {
  kLu = 1u << 0,  // Unicode's categories
  kLl = 1u << 1,
  kLt = 1u << 2,
  kLm = 1u << 3,
  kLo = 1u << 4,
  kMark = 1u << 5,
  kNumber = 1u << 6,
  kPunctuation = 1u << 7,
  kSymbol = 1u << 8,
  kSpace = 1u << 9,   // \s
  kBlank = 1u << 10,  // U+0020
  kCr = 1u << 11,
  kLf = 1u << 12,
  kSlash = 1u << 13,
  kAsciiLetter = 1u << 14,
  kAsciiDigit = 1u << 15,
  kAsciiPunctuation = 1u << 16,
  kMathSign = 1u << 17,             // [$+<=>^~|], what \p{P} leaves out of ASCII punctuation
  kBacktick = 1u << 18,             // the last one that it leaves out
  kBloomStop = 1u << 19,            // [(|.,!?…。，、।۔،)]
  kHanKana = 1u << 20,              // [一-龥぀-ゟ゠-ヿ]
  kDeepSeekCjk = 1u << 21,          // [一-龥ࠀ-一가-퟿]
  kDeepSeekLetter = 1u << 22,       // the long list of letters with case in deepseek-llm
  kDeepSeekPunctuation = 1u << 23,  // [!-/:-~！-／：-～‘-‟　-。]
  kAnyChar = 1u << 24,

  kLetter = kLu | kLl | kLt | kLm | kLo,
  kBreak = kCr | kLf,
};

/// A set: in one of the classes `any`, in none of `none`.
struct CharSet {
  uint32_t any = 0, none = 0;
  constexpr bool contains(uint32_t classes) const { return (classes & any) != 0 && (classes & none) == 0; }
  friend constexpr bool operator==(const CharSet&, const CharSet&) = default;
};
constexpr CharSet any_of(uint32_t classes) { return {classes, 0}; }
constexpr CharSet none_of(uint32_t classes) { return {kAnyChar, classes}; }

/// The classes of every code point, in pages of 256, of which equal ones are kept once.
class CharClasses {
 public:
  /// Made at the first call (some milliseconds).
  static const CharClasses& table();
  /// Below 0x110000.
  uint32_t of(uint32_t code_point) const { return pages_[page_[code_point >> 8]][code_point & 0xFF]; }
  /// Those of 0 to 127, one after the other.
  const uint32_t* ascii() const { return pages_[page_[0]].data(); }

 private:
  using Page = std::array<uint32_t, 256>;
  CharClasses();
  std::vector<Page> pages_;
  std::array<uint16_t, 0x1100> page_;
};

}  // namespace toy
