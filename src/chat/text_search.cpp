#include "chat/text_search.h"

#include <string>
#include <vector>

namespace toy::chat {
namespace {

constexpr size_t kShort = 16;  // up to here, comparing at every place is as fast

// Knuth, Morris and Pratt.
void each_match_of_long(std::string_view text, std::string_view part, const std::function<bool(size_t)>& f) {
  std::vector<uint32_t> border(part.size(),
                               0);  // of each beginning of `part`: the longest end that is also a beginning
  for (size_t i = 1, n = 0; i < part.size(); ++i) {
    while (n > 0 && part[i] != part[n]) n = border[n - 1];
    if (part[i] == part[n]) ++n;
    border[i] = uint32_t(n);
  }
  for (size_t i = 0, n = 0; i < text.size(); ++i) {
    while (n > 0 && text[i] != part[n]) n = border[n - 1];
    if (text[i] == part[n]) ++n;
    if (n < part.size()) continue;
    if (!f(i + 1 - n)) return;
    n = 0;
  }
}

}  // namespace

void each_match(std::string_view text, std::string_view part, bool from_right, Budget& budget,
                const std::function<bool(size_t)>& f) {
  budget.spend(text.size() / 8 + part.size() / 4 + 1);
  if (part.size() > text.size()) return;
  if (part.size() > kShort) {
    if (!from_right) return each_match_of_long(text, part, f);
    const std::string back_text(text.rbegin(), text.rend()), back_part(part.rbegin(), part.rend());
    return each_match_of_long(back_text, back_part, [&](size_t at) { return f(text.size() - at - part.size()); });
  }
  for (size_t begin = 0; text.size() - begin >= part.size();) {
    const size_t at = from_right ? text.rfind(part) : text.find(part, begin);
    if (at == text.npos || !f(at)) return;
    if (from_right)
      text = text.substr(0, at);
    else
      begin = at + part.size();
  }
}

size_t find_text(std::string_view text, std::string_view part, Budget& budget, bool from_right) {
  if (part.empty()) return from_right ? text.size() : 0;
  size_t found = kNotFound;
  each_match(text, part, from_right, budget, [&](size_t at) {
    found = at;
    return false;
  });
  return found;
}

}  // namespace toy::chat
