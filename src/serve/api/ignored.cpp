#include "serve/api/ignored.h"

#include <fmt/format.h>

#include <cctype>
#include <string_view>

namespace toy::serve {
namespace {

std::string written(const std::string& name) {
  constexpr size_t kLongest = 100;
  std::string text;
  for (const unsigned char c : name) {
    if (text.size() >= kLongest) return text + "...";
    if (c < 0x80 && (std::isalnum(c) || std::string_view(".$[]_-").find(char(c)) != std::string_view::npos))
      text += char(c);
    else
      text += fmt::format("%{:02X}", c);
  }
  return text;
}

}  // namespace

std::string ignored_text(const std::vector<std::string>& names) {
  constexpr size_t kLongest = 1000;
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string one = written(names[i]);
    if (text.size() + one.size() > kLongest) return text + fmt::format(", and {} more", names.size() - i);
    text += (text.empty() ? "" : ", ") + one;
  }
  return text;
}

}  // namespace toy::serve
