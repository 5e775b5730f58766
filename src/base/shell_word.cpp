#include "toy/base/shell_word.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>

#include "toy/base/utf8.h"

namespace toy {

std::string shell_quoted(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(uint8_t(c)) || std::string_view("_-./:,=+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  const bool escaped = one_line(text) != text;
  std::string out = escaped ? "$'" : "'";
  for (const char c : text)
    if (escaped && (c < ' ' || c > '~' || c == '\'' || c == '\\'))
      out += fmt::format("\\{:03o}", uint8_t(c));
    else
      out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace toy
