#include "grammar/json_text.h"

#include <fmt/format.h>

#include "toy/base/utf8.h"

namespace toy::grammar {
namespace {

std::string escape(uint32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\u{:04x}", c);
  }
}

const CharSet kEscaped{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};

}  // namespace

JsonChars json_chars(const CharSet& set) {
  JsonChars result{intersection(set, complement(kEscaped)), {}};
  for (const CharRange r : intersection(set, kEscaped))
    for (uint32_t c = r.lo; c <= r.hi; ++c) result.escaped[c] = escape(c);
  return result;
}

std::string json_inside(std::string_view text) {
  std::string result;
  for (const uint32_t c : code_points(text, "a text"))
    result += c < 0x20 || c == '"' || c == '\\' ? escape(c) : utf8_encode(c);
  return result;
}

}  // namespace toy::grammar
