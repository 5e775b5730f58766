// How the characters of a string are written in JSON.
#pragma once

#include <string>
#include <string_view>

#include "grammar/expr.h"

namespace toy::grammar {

/// A set of characters as JSON writes them, each in one way: as they are, or as a backslash and a letter. Control
/// characters without such a letter are left out.
struct JsonChars {
  CharSet plain;
  std::string letters;  ///< after the backslash
};
JsonChars json_chars(const CharSet& set);

/// The string literal of a text, which is UTF-8.
std::string json_quoted(std::string_view text);

}  // namespace toy::grammar
