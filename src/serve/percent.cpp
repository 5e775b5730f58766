#include "serve/percent.h"

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

}  // namespace toy::serve
