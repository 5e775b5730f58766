// How the characters of a string are written in JSON.
#pragma once

#include <map>
#include <string>

#include "grammar/expr.h"

namespace toy::grammar {

/// A set of characters as JSON writes them: as they are, or escaped, each in one way.
struct JsonChars {
  CharSet plain;
  std::map<uint32_t, std::string> escaped;  ///< `"`, `\` and control characters
};
JsonChars json_chars(const CharSet& set);

/// The inside of the string literal of a text, which is UTF-8.
std::string json_inside(std::string_view text);

}  // namespace toy::grammar
