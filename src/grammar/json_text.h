// How the characters of a string are written in JSON.
#pragma once

#include <string>
#include <string_view>

#include "grammar/expr.h"

namespace toy::grammar {

/// A set of characters as JSON writes them, each in one way: as they are, as a backslash and a letter, or as \u00XX.
struct JsonChars {
  CharSet plain;
  std::string letters;   ///< after the backslash
  std::string controls;  ///< below 0x20, without such a letter
};
JsonChars json_chars(const CharSet& set);

/// The string literal of a text, which is UTF-8.
std::string json_quoted(std::string_view text);

}  // namespace toy::grammar
