// Python's textwrap.wrap().
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toy::chat {

struct WrapStyle {
  size_t width = 79;
  bool breaks_words = true, breaks_hyphens = true;
};
/// The lines that a line becomes; none for an empty one.
std::vector<std::string> wrapped(std::string_view line, const WrapStyle& style);

}  // namespace toy::chat
