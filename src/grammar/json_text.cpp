#include "grammar/json_text.h"

#include <fmt/format.h>

#include "toy/base/utf8.h"

namespace toy::grammar {
namespace {

// The letter after a backslash that stands for a character; 0: there is none.
char letter_of(uint32_t c) {
  switch (c) {
    case '"':
    case '\\':
      return char(c);
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

const CharSet kEscaped{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};

}  // namespace

JsonChars json_chars(const CharSet& set) {
  JsonChars result{intersection(set, complement(kEscaped)), {}, {}};
  for (const CharRange r : intersection(set, kEscaped))
    for (uint32_t c = r.lo; c <= r.hi; ++c)
      if (const char letter = letter_of(c); letter != 0)
        result.letters += letter;
      else
        result.controls += char(c);
  return result;
}

std::string json_quoted(std::string_view text) {
  std::string result(1, '"');
  for (const uint32_t c : code_points(text, "a text")) {
    if (const char letter = letter_of(c); letter != 0)
      (result += '\\') += letter;
    else
      result += c < 0x20 ? fmt::format("\\u{:04x}", c) : utf8_encode(c);
  }
  result += '"';
  return result;
}

}  // namespace toy::grammar
