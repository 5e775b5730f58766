#include "chat/py_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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
  const std::string_view category = category_of(c);
  return category == "Lu" || category == "Ll" || category == "Lt";
}

bool is_printable(uint32_t c) {
  const char kind = category_of(c)[0];
  return c == ' ' || (kind != 'C' && kind != 'Z');
}

std::string mapped(std::string_view text, uint32_t (*to)(uint32_t)) {
  std::string out;
  each(text, [&](uint32_t c, std::string_view bytes) {
    const uint32_t other = to(c);
    out += other == c ? std::string(bytes) : utf8_encode(other);
  });
  return out;
}

}  // namespace

int64_t count_characters(std::string_view text) {
  int64_t n = 0;
  each(text, [&](uint32_t, std::string_view) { ++n; });
  return n;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  each(text, [&](uint32_t, std::string_view bytes) { out.push_back(bytes); });
  return out;
}

// White space, and the four separators of ASCII.
bool is_space(uint32_t c) { return (c >= 0x1c && c <= 0x1f) || is_white_space(c); }

size_t leading_space(std::string_view text) { return text.size() - strip(text, true, false).size(); }

std::string_view strip(std::string_view text, bool left, bool right, const std::string* chars) {
  const auto strips = [&](uint32_t c, std::string_view bytes) {
    return chars ? chars->find(bytes) != std::string::npos : is_space(c);
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

std::string lower(std::string_view text) { return mapped(text, lower_case); }
std::string upper(std::string_view text) { return mapped(text, upper_case); }

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = first_code_point(text).bytes;
  return upper(text.substr(0, first)) + lower(text.substr(first));
}

std::string title(std::string_view text, bool by_words) {
  constexpr std::string_view kEnds = "-({[<";
  std::string out;
  bool in_word = false;
  each(text, [&](uint32_t c, std::string_view bytes) {
    out += in_word ? lower(bytes) : upper(bytes);
    in_word = by_words ? !is_space(c) && kEnds.find(bytes) == kEnds.npos : is_letter_case(c);
  });
  return out;
}

std::string repr(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos, has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  each(text, [&](uint32_t c, std::string_view bytes) {
    if (c == uint32_t(quote) || c == '\\')
      out += '\\', out += bytes;
    else if (c == '\n' || c == '\r' || c == '\t')
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    else if (is_printable(c))
      out += bytes;
    else
      out += c < 0x100     ? fmt::format("\\x{:02x}", c)
             : c < 0x10000 ? fmt::format("\\u{:04x}", c)
                           : fmt::format("\\U{:08x}", c);
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
  each(text, [&](uint32_t c, std::string_view bytes) {
    constexpr std::string_view kNamed = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
    if (const size_t at = c < 0x80 ? kNamed.find(char(c)) : kNamed.npos; at != kNamed.npos) {
      out += '\\', out += kNames[at];
    } else if (c >= 0x20 && (c < 0x7f || !ascii)) {
      out += bytes;
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
    }
  });
  return out + '"';
}

}  // namespace toy::chat
