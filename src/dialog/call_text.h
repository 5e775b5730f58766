// What the readers of calls share.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::dialog {

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/// The text without spaces at its beginning.
inline std::string_view left_trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}
/// The text without spaces at its end.
inline std::string_view right_trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}
/// The text without spaces at both ends.
inline std::string_view trimmed(std::string_view text) { return right_trimmed(left_trimmed(text)); }

/// The longest end of the text that may begin the mark.
inline size_t begun_bytes(std::string_view text, std::string_view mark) {
  if (mark.empty()) return 0;
  size_t n = std::min(mark.size() - 1, text.size());
  while (n > 0 && !mark.starts_with(text.substr(text.size() - n))) --n;
  return n;
}

/// nullopt: it is no JSON.
inline std::optional<nlohmann::ordered_json> json_of(std::string_view text) {
  try {
    return read_json<nlohmann::ordered_json>("a value", text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace toy::dialog
