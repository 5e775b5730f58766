#include "toy/base/error.h"

#include <fmt/format.h>

namespace toy {
namespace {

// Names in files may be as long as the file, and hold what ends a text of C.
std::string readable(std::string text) {
  constexpr size_t kBegin = 3000, kEnd = 900, kMost = 4000;
  if (text.size() > kMost) {
    const auto begins_character = [&](size_t i) { return (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80; };
    size_t begin = kBegin, end = text.size() - kEnd;
    while (begin > kBegin - 4 && !begins_character(begin)) --begin;
    while (end < text.size() - kEnd + 4 && !begins_character(end)) ++end;
    text = text.substr(0, begin) + " ... " + text.substr(end);
  }
  for (size_t at; (at = text.find('\0')) != text.npos;) text.replace(at, 1, "\\0");
  return text;
}

}  // namespace

void throw_error(ErrorCode code, fmt::string_view format, fmt::format_args args) {
  throw Error(code, readable(fmt::vformat(format, args)));
}

void throw_disk_full(fmt::string_view format, fmt::format_args args) {
  throw DiskFull(readable(fmt::vformat(format, args)));
}

}  // namespace toy
