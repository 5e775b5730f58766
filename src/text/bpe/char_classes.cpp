#include "text/bpe/char_classes.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "text/unicode.h"

namespace toy {
namespace {

struct CodeRange {
  uint32_t first, last;
  uint64_t classes;
};

/// What is in a class by its number, not by its category.
constexpr CodeRange kCodeRanges[] = {
    {' ', ' ', kBlank},
    {'\t', '\r', kSpace},
    {0x85, 0x85, kSpace},
    {'\r', '\r', kCr},
    {'\n', '\n', kLf},
    {'/', '/', kSlash},
    {'A', 'Z', kAsciiLetter},
    {'a', 'z', kAsciiLetter},
    {'0', '9', kAsciiDigit},
    {'!', '/', kAsciiPunctuation},
    {':', '@', kAsciiPunctuation},
    {'[', '`', kAsciiPunctuation},
    {'{', '~', kAsciiPunctuation},
    {0x200C, 0x200D, kJoiner},
    // What else \w has: circled and squared letters (Other_Alphabetic), and in Oniguruma these numbers of Latin-1.
    {0xB2, 0xB3, kWordCharacter},
    {0xB9, 0xB9, kWordCharacter},
    {0xBC, 0xBE, kWordCharacter},
    {0x24B6, 0x24E9, kWordCharacter},
    {0x1F130, 0x1F149, kWordCharacter},
    {0x1F150, 0x1F169, kWordCharacter},
    {0x1F170, 0x1F189, kWordCharacter},
    // Script=Han of Unicode 15 (Scripts.txt).
    {0x2E80, 0x2E99, kHan},
    {0x2E9B, 0x2EF3, kHan},
    {0x2F00, 0x2FD5, kHan},
    {0x3005, 0x3005, kHan},
    {0x3007, 0x3007, kHan},
    {0x3021, 0x3029, kHan},
    {0x3038, 0x303B, kHan},
    {0x3400, 0x4DBF, kHan},
    {0x4E00, 0x9FFF, kHan},
    {0xF900, 0xFA6D, kHan},
    {0xFA70, 0xFAD9, kHan},
    {0x16FE2, 0x16FE3, kHan},
    {0x16FF0, 0x16FF1, kHan},
    {0x20000, 0x2A6DF, kHan},
    {0x2A700, 0x2B739, kHan},
    {0x2B740, 0x2B81D, kHan},
    {0x2B820, 0x2CEA1, kHan},
    {0x2CEB0, 0x2EBE0, kHan},
    {0x2F800, 0x2FA1D, kHan},
    {0x30000, 0x3134A, kHan},
    {0x31350, 0x323AF, kHan},
};

struct CharList {
  std::u32string_view characters;
  uint64_t classes;
};
constexpr CharList kCharLists[] = {
    {U"$+<=>^~|", kMathSign},
    {U"`", kBacktick},
    {U"(|.,!?…。，、।۔،)", kBloomStop},
};

struct SpelledRuns {
  std::string_view regex;
  uint64_t classes;
};
constexpr SpelledRuns kSpelledRuns[] = {
    {kHanKanaRegex, kHanKana},
    {kDeepSeekCjkRegex, kDeepSeekCjk},
    {kDeepSeekPunctuationRegex, kDeepSeekPunctuation},
    {kYoutuHangulRegex, kYoutuHangul},
    {kYoutuPunctuationRegex, kYoutuPunctuation},
    {kBopomofoRegex, kBopomofo},
    {kAfmoeRegex, kAfmoeScript},
};

/// The regular expression of deepseek-llm spells them out.
constexpr uint32_t kDeepSeekLetters[][2] = {
    {0x41, 0x5A},       {0x61, 0x7A},       {0xB5, 0xB5},       {0xC0, 0xD6},       {0xD8, 0xF6},
    {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},     {0x295, 0x2AF},     {0x370, 0x373},
    {0x376, 0x377},     {0x37B, 0x37D},     {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},
    {0x38C, 0x38C},     {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},
    {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},
    {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},
    {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},
    {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},
    {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},
    {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},
    {0x210A, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},
    {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},
    {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},   {0xA722, 0xA76F},
    {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},
    {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
    {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
};

uint64_t class_of_category(std::string_view category) {
  switch (category[0]) {
    case 'L':
      return kWordCharacter | (category[1] == 'u'   ? kLu
                               : category[1] == 'l' ? kLl
                               : category[1] == 't' ? kLt
                               : category[1] == 'm' ? kLm
                                                    : kLo);
    case 'M':
      return kMark | kWordCharacter;
    case 'N':
      return category[1] == 'd'   ? kNumber | kDecimal | kWordCharacter
             : category[1] == 'l' ? kNumber | kWordCharacter
                                  : kNumber;
    case 'P':
      return category[1] == 'c' ? kPunctuation | kWordCharacter : kPunctuation;
    case 'S':
      return kSymbol;
    case 'Z':
      return kSpace;
    default:
      return 0;
  }
}

/// Calls add(first, last) for each character and range in the brackets of "[...]+".
template <class Add>
void each_range(std::string_view regex, Add add) {
  std::string_view rest = regex.substr(1, regex.size() - 3);
  const auto next = [&rest] {
    const CodePoint c = first_code_point(rest);
    rest.remove_prefix(c.bytes);
    return c.value;
  };
  while (!rest.empty()) {
    const uint32_t first = next();
    const bool range = rest.starts_with('-');
    if (range) rest.remove_prefix(1);
    add(first, range ? next() : first);
  }
}

}  // namespace

const CharClasses& CharClasses::table() {
  static const CharClasses table;
  return table;
}

CharClasses::CharClasses() {
  constexpr uint32_t kCodePoints = 0x110000;
  std::vector<uint64_t> all(kCodePoints, kAnyChar);  // as it stays where nothing is assigned, or for private use
  for (uint32_t c = 0; c < 0xE1000; c += c == 0x3FFFF ? 0xA0001 : 1)
    all[c] = kAnyChar | class_of_category(category_of(c));
  const auto add = [&](uint32_t first, uint32_t last, uint64_t classes) {
    for (uint32_t c = first; c <= last; ++c) all[c] |= classes;
  };
  for (const CodeRange& r : kCodeRanges) add(r.first, r.last, r.classes);
  for (const CharList& list : kCharLists)
    for (const char32_t c : list.characters) add(c, c, list.classes);
  for (const SpelledRuns& runs : kSpelledRuns)
    each_range(runs.regex, [&](uint32_t first, uint32_t last) { add(first, last, runs.classes); });
  for (const auto& [first, last] : kDeepSeekLetters) add(first, last, kDeepSeekLetter);

  std::map<Page, uint16_t> seen;
  for (size_t i = 0; i < page_.size(); ++i) {
    Page page;
    std::copy_n(all.begin() + ptrdiff_t(256 * i), 256, page.begin());
    const auto [found, is_new] = seen.emplace(page, uint16_t(pages_.size()));
    if (is_new) pages_.push_back(page);
    page_[i] = found->second;
  }
}

}  // namespace toy
