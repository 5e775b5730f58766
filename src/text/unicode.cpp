#include "text/unicode.h"

#include <utf8proc.h>

#include "toy/base/utf8.h"

namespace toy {

CodePoint first_code_point(std::string_view text) {
  const size_t bytes = utf8_character(text);
  if (bytes == 0) return {0xFFFD, 1};
  uint32_t value = bytes == 1 ? uint8_t(text[0]) : uint8_t(text[0]) & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) value = value << 6 | (uint8_t(text[i]) & 0x3Fu);
  return {value, bytes};
}

std::string_view category_of(uint32_t code_point) { return utf8proc_category_string(int32_t(code_point)); }

bool is_white_space(uint32_t c) { return (c >= 9 && c <= 13) || c == 0x85 || category_of(c)[0] == 'Z'; }

uint32_t lower_case(uint32_t code_point) { return uint32_t(utf8proc_tolower(int32_t(code_point))); }

uint32_t upper_case(uint32_t code_point) { return uint32_t(utf8proc_toupper(int32_t(code_point))); }

uint32_t title_case(uint32_t code_point) { return uint32_t(utf8proc_totitle(int32_t(code_point))); }

namespace {
std::u32string parts_of(uint32_t code_point, utf8proc_option_t how) {
  constexpr int kMost = 8;  // the longest canonical decomposition has 4 characters
  int32_t parts[kMost];
  int boundary = 0;
  const auto n = utf8proc_decompose_char(int32_t(code_point), parts, kMost, how, &boundary);
  if (n <= 0 || n > kMost) return {char32_t(code_point)};
  return {parts, parts + n};
}
}  // namespace

std::u32string decomposed(uint32_t code_point) { return parts_of(code_point, UTF8PROC_DECOMPOSE); }

std::u32string case_folded(uint32_t code_point) { return parts_of(code_point, UTF8PROC_CASEFOLD); }

}  // namespace toy
