#include "cli/scripts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "toy/base/utf8.h"

namespace toy::cli {

std::string fill_in(std::string text, std::initializer_list<std::pair<std::string, std::string>> values) {
  for (const auto& [key, value] : values) {
    const std::string mark = "@" + key + "@";
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size())
      text.replace(at, mark.size(), value);
  }
  return text;
}

std::string own_path() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "toy" : path.string();
}

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

}  // namespace toy::cli
