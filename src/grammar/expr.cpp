#include "grammar/expr.h"

#include <algorithm>

#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy::grammar {

CharSet normalized(CharSet set) {
  std::sort(set.begin(), set.end(), [](CharRange a, CharRange b) { return a.lo < b.lo; });
  CharSet result;
  for (const CharRange r : set) {
    if (!result.empty() && r.lo <= result.back().hi + 1)
      result.back().hi = std::max(result.back().hi, r.hi);
    else
      result.push_back(r);
  }
  return result;
}

CharSet complement(const CharSet& set) {
  CharSet result;
  uint32_t next = 0;
  for (const CharRange r : set) {
    if (r.lo > next) result.push_back({next, r.lo - 1});
    next = r.hi + 1;
  }
  if (next <= kLastCodePoint) result.push_back({next, kLastCodePoint});
  return result;
}

CharSet intersection(const CharSet& a, const CharSet& b) {
  CharSet result;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const uint32_t lo = std::max(a[i].lo, b[j].lo), hi = std::min(a[i].hi, b[j].hi);
    if (lo <= hi) result.push_back({lo, hi});
    ++(a[i].hi < b[j].hi ? i : j);
  }
  return result;
}

std::vector<uint32_t> code_points(std::string_view text, std::string_view what) {
  std::vector<uint32_t> result;
  for (size_t at = 0; at < text.size();) {
    const size_t n = utf8_character(text.substr(at));
    check(n > 0, "{}: byte {} is not UTF-8", what, at);
    uint32_t c = uint8_t(text[at]);
    if (n > 1) c &= 0x7Fu >> n;
    for (size_t i = 1; i < n; ++i) c = c << 6 | (uint8_t(text[at + i]) & 0x3F);
    result.push_back(c);
    at += n;
  }
  return result;
}

Expr literal(std::string_view text) {
  if (text.empty()) return {};
  return one_of({std::string(text)});
}

Expr one_of(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return {.kind = Expr::texts, .list = std::make_shared<const std::vector<std::string>>(std::move(texts))};
}

}  // namespace toy::grammar
