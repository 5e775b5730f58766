#include "chat/py_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <unordered_set>

#include "text/unicode.h"
#include "toy/base/utf8.h"

namespace toy::chat {
namespace {

// Calls f(code point, its bytes) for each.
template <class F>
void each(std::string_view text, const F& f) {
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    f(c.value, text.substr(0, c.bytes));
    text.remove_prefix(c.bytes);
  }
}

bool is_letter_case(uint32_t c) {
  if (c < 0x80) return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  const std::string_view category = category_of(c);
  return category == "Lu" || category == "Ll" || category == "Lt";
}

bool is_upper_case(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  return category_of(c) == "Lu" || (lower_case(c) != c && category_of(c) != "Lt");
}
bool is_lower_case(uint32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return category_of(c) == "Ll" || (upper_case(c) != c && category_of(c) != "Lt" && !is_upper_case(c));
}

// What letters become: mostly one letter, but "SS" for ß.
std::u32string to_lower(uint32_t c) {
  if (c < 0x80) return {char32_t(c >= 'A' && c <= 'Z' ? c + 32 : c)};
  return c == 0x130 ? U"i\u0307" : std::u32string{char32_t(lower_case(c))};
}
std::u32string to_upper(uint32_t c) {
  if (c < 0x80) return {char32_t(c >= 'a' && c <= 'z' ? c - 32 : c)};
  std::u32string letters = case_folded(c);
  if (letters.size() == 1 || category_of(c) == "Lu") return {char32_t(upper_case(c))};
  for (char32_t& letter : letters) letter = upper_case(letter);
  return letters;
}
std::u32string to_title(uint32_t c) {
  if (c < 0x80) return to_upper(c);
  std::u32string letters = case_folded(c);
  if (letters.size() == 1 || is_upper_case(c) || category_of(title_case(c)) == "Lt") return {char32_t(title_case(c))};
  const auto first = std::ranges::find_if(letters, [](char32_t l) { return title_case(l) != l; });
  if (first != letters.end()) *first = title_case(*first);
  return letters;
}

template <class F>
std::string mapped(std::string_view text, const F& to) {
  std::string out;
  out.reserve(text.size());
  each(text, [&](uint32_t c, std::string_view bytes) {
    const std::u32string others = to(c);
    if (others.size() == 1 && others[0] == c) return void(out += bytes);
    for (const char32_t other : others) out += utf8_encode(other);
  });
  return out;
}

bool continues(char byte) { return (uint8_t(byte) & 0xc0) == 0x80; }

// Ranges of characters, each two.
using Ranges = std::initializer_list<uint32_t>;
bool is_within(Ranges ranges, uint32_t c) {
  for (const uint32_t* r = ranges.begin(); r != ranges.end(); r += 2)
    if (c >= r[0] && c <= r[1]) return true;
  return false;
}

}  // namespace

// A character begins at each byte that continues none: the same for all of UTF-8, and somewhere for what is none.
int64_t count_characters(std::string_view text) {
  int64_t n = 0;
  for (const char c : text) n += continues(c) ? 0 : 1;
  return n;
}

size_t character_begin(std::string_view text, int64_t n) {
  size_t at = 0;
  for (; n > 0 && at < text.size(); --n)
    for (++at; at < text.size() && continues(text[at]);) ++at;
  return at;
}

size_t last_characters(std::string_view text, int64_t n) {
  size_t at = text.size();
  for (; n > 0 && at > 0; --n)
    for (--at; at > 0 && continues(text[at]);) --at;
  return at;
}

bool is_alpha(uint32_t c) {
  if (c < 0x80) return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  return category_of(c)[0] == 'L';
}
bool is_decimal(uint32_t c) { return c < 0x80 ? c >= '0' && c <= '9' : category_of(c) == "Nd"; }
// Those of a script stand together, from 0 to 9.
int decimal_value(uint32_t c) {
  uint32_t before = 0;
  while (is_decimal(c - before - 1)) ++before;
  return int(before % 10);
}
// Decimals, and the digits that are raised, lowered or within something (Numeric_Type=Digit).
bool is_digit(uint32_t c) {
  return is_decimal(c) ||
         is_within({0xb2,   0xb3,   0xb9,    0xb9,    0x1369,  0x1371,  0x19da,  0x19da,  0x2070,  0x2070,
                    0x2074, 0x2079, 0x2080,  0x2089,  0x2460,  0x2468,  0x2474,  0x247c,  0x2488,  0x2490,
                    0x24ea, 0x24ea, 0x24f5,  0x24fd,  0x24ff,  0x24ff,  0x2776,  0x277e,  0x2780,  0x2788,
                    0x278a, 0x2792, 0x10a40, 0x10a43, 0x10e60, 0x10e68, 0x11052, 0x1105a, 0x1f100, 0x1f10a},
                   c);
}
// Numbers of any kind, and the common ones of Chinese.
bool is_numeric(uint32_t c) {
  if (c < 0x80) return is_decimal(c);
  if (category_of(c)[0] == 'N') return true;
  constexpr std::u32string_view kHan =
      U"\u3405\u3483\u382a\u3b4d\u4e00\u4e03\u4e07\u4e09\u4e24\u4e5d\u4e8c\u4e94\u4ebf\u4edf\u4ee8\u4f0d\u4f70\u5104"
      U"\u5146"
      U"\u5169\u516b\u516d\u5341\u5343\u5344\u5345\u534c\u53c1\u53c2\u53c3\u53c4\u56db\u58f1\u58f9\u5e7a\u5efe\u5eff"
      U"\u5f0c"
      U"\u5f0d\u5f0e\u5f10\u62fe\u634c\u67d2\u6f06\u7396\u767e\u8086\u842c\u8cae\u8cb3\u8d30\u9621\u9646\u964c\u9678"
      U"\u96f6"
      U"\uf96b\uf973\uf978\uf9b2\uf9d1\uf9d3\uf9fd";
  return kHan.find(char32_t(c)) != kHan.npos;
}
bool is_alnum(uint32_t c) { return is_alpha(c) || is_numeric(c); }
bool is_word(uint32_t c) { return c == '_' || is_alnum(c); }
bool is_printable(uint32_t c) {
  if (c < 0x80) return c >= ' ' && c != 0x7f;
  const char kind = category_of(c)[0];
  return kind != 'C' && kind != 'Z';
}

bool are_all(Letters kind, std::string_view text) {
  bool any = false, all = true, in_word = false;
  each(text, [&](uint32_t c, std::string_view) {
    const bool titled = c >= 0x80 && category_of(c) == "Lt";
    const bool is_upper = titled || is_upper_case(c), is_lower = !is_upper && is_lower_case(c);
    if (kind == Letters::lower) all = all && !is_upper;
    if (kind == Letters::upper) all = all && !is_lower && !titled;
    if (kind == Letters::title) all = all && (is_upper ? !in_word : !is_lower || in_word);
    in_word = is_upper || is_lower;
    any = any || in_word;
  });
  return any && all;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at + character_begin(text.substr(at), 1);
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

namespace {
// Bytes of a line break: \n, \r, \r\n, \v, \f, the separators of ASCII, U+0085, U+2028 and U+2029.
size_t line_break(std::string_view s) {
  if (s.starts_with("\r\n")) return 2;
  const auto c = uint8_t(s[0]);
  if ((c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e)) return 1;
  return s.starts_with("\xc2\x85") ? 2 : s.starts_with("\xe2\x80\xa8") || s.starts_with("\xe2\x80\xa9") ? 3 : 0;
}
}  // namespace

std::vector<std::string_view> lines(std::string_view text, bool with_ends) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at, ending = 0;
    while (end < text.size() && (ending = line_break(text.substr(end))) == 0) ++end;
    out.push_back(text.substr(at, end - at + (with_ends ? ending : 0)));
    at = end + ending;
  }
  return out;
}

// White space, and the four separators of ASCII.
bool is_space(uint32_t c) { return (c >= 0x1c && c <= 0x1f) || is_white_space(c); }

size_t leading_space(std::string_view text) { return text.size() - strip(text, true, false).size(); }

std::string_view strip(std::string_view text, bool left, bool right, const std::string* chars) {
  std::unordered_set<uint32_t> many;  // a search of each character in many would take long
  if (chars && chars->size() > 16) each(*chars, [&](uint32_t c, std::string_view) { many.insert(c); });
  const auto strips = [&](uint32_t c, std::string_view bytes) {
    return !many.empty() ? many.contains(c) : chars ? chars->find(bytes) != std::string::npos : is_space(c);
  };
  while (left && !text.empty()) {
    const CodePoint c = first_code_point(text);
    if (!strips(c.value, text.substr(0, c.bytes))) break;
    text.remove_prefix(c.bytes);
  }
  while (right && !text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && text.size() - at < 4 && (uint8_t(text[at]) & 0xc0) == 0x80) --at;
    if (first_code_point(text.substr(at)).bytes != text.size() - at) at = text.size() - 1;  // not UTF-8
    if (!strips(first_code_point(text.substr(at)).value, text.substr(at))) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

std::string lower(std::string_view text) { return mapped(text, to_lower); }
std::string upper(std::string_view text) { return mapped(text, to_upper); }
std::string casefold(std::string_view text) {
  return mapped(text, [](uint32_t c) { return c < 0x80 ? to_lower(c) : case_folded(c); });
}
std::string swapcase(std::string_view text) {
  return mapped(text, [](uint32_t c) {
    return is_upper_case(c) ? to_lower(c) : is_lower_case(c) ? to_upper(c) : std::u32string{char32_t(c)};
  });
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = first_code_point(text).bytes;
  return mapped(text.substr(0, first), to_title) + lower(text.substr(first));
}

std::string title(std::string_view text, bool by_words) {
  constexpr std::string_view kEnds = "-({[<";
  bool in_word = false;
  return mapped(text, [&](uint32_t c) {
    const bool ends = by_words ? is_space(c) || (c < 0x80 && kEnds.find(char(c)) != kEnds.npos) : !is_letter_case(c);
    const std::u32string out = in_word ? to_lower(c) : by_words ? to_upper(c) : to_title(c);
    in_word = !ends;
    return out;
  });
}

namespace {
// \x41, \u0041
void append_escape(std::string& out, char kind, uint32_t value, int digits) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += {'\\', kind};
  while (digits-- > 0) out += kHex[(value >> (4 * digits)) & 15];
}
}  // namespace

std::string repr(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos, has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  out.reserve(text.size() + 2);
  each(text, [&](uint32_t c, std::string_view bytes) {
    if (c == uint32_t(quote) || c == '\\')
      out += '\\', out += bytes;
    else if (c == '\n' || c == '\r' || c == '\t')
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    else if (is_printable(c))
      out += bytes;
    else if (c < 0x100)
      append_escape(out, 'x', c, 2);
    else
      append_escape(out, c < 0x10000 ? 'u' : 'U', c, c < 0x10000 ? 4 : 8);
  });
  return out + quote;
}

std::string repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string out = fmt::format("{}", number);
  if (out.find_first_not_of("-0123456789") == out.npos) out += ".0";
  return out;
}

std::string json_string(std::string_view text, bool ascii) {
  std::string out = "\"";
  out.reserve(text.size() + 2);
  each(text, [&](uint32_t c, std::string_view bytes) {
    if (c >= ' ' && c < 0x7f && c != '"' && c != '\\') return void(out += char(c));
    constexpr std::string_view kNamed = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
    if (const size_t at = c < 0x80 ? kNamed.find(char(c)) : kNamed.npos; at != kNamed.npos) {
      out += '\\', out += kNames[at];
    } else if (c >= 0x20 && (c < 0x7f || !ascii)) {
      out += bytes;
    } else if (c < 0x10000) {
      append_escape(out, 'u', c, 4);
    } else {
      append_escape(out, 'u', 0xd800 + ((c - 0x10000) >> 10), 4);
      append_escape(out, 'u', 0xdc00 + ((c - 0x10000) & 0x3ff), 4);
    }
  });
  return out + '"';
}

}  // namespace toy::chat
