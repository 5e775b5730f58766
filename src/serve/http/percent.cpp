#include "serve/http/percent.h"

#include <charconv>

namespace toy::serve {

std::string percent_decoded(std::string_view path) {
  std::string text;
  for (size_t i = 0; i < path.size(); ++i) {
    unsigned char byte = 0;
    const std::string_view digits = path.substr(i + 1, 2);
    const char* end = digits.data() + digits.size();
    if (path[i] == '%' && digits.size() == 2 && std::from_chars(digits.data(), end, byte, 16).ptr == end) {
      text += char(byte);
      i += 2;
    } else {
      text += path[i];
    }
  }
  return text;
}

namespace {

struct Target {
  std::string_view host, path;
};

Target parts_of(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  const size_t scheme = target.find("://");
  if (scheme == target.npos || target.front() == '/') return {"", target};
  target.remove_prefix(scheme + 3);
  const size_t path = target.find('/');
  return {target.substr(0, path), path == target.npos ? "/" : target.substr(path)};
}

}  // namespace

std::string target_host(std::string_view target) { return std::string(parts_of(target).host); }

std::string plain_target(std::string_view target) {
  target = parts_of(target).path;
  std::string plain;
  for (const char c : target)
    if (c != '/' || !plain.ends_with('/')) plain += c;
  if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  return percent_decoded(plain);
}

}  // namespace toy::serve
