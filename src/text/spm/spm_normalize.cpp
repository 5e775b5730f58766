// What happens to a text before it is cut into pieces, as in the library (normalizer.cc, Normalizer::Normalize), except
// that a space stays a space and that bytes which are not UTF-8 stay what they are.
#include <algorithm>

#include "text/spm/spm.h"
#include "toy/base/utf8.h"

namespace toy {

std::string SpmTokenizer::normalized(std::string_view text, uint64_t offset) const {
  if (!has_all_bytes_ && !is_utf8(text)) {  // said here, where the bytes are those of the text that was given
    size_t at = 0;
    while (const size_t bytes = utf8_character(text.substr(at))) at += bytes;
    throw not_utf8(offset + at);
  }
  const bool trim = vocabulary_.remove_extra_whitespaces;
  const std::string prefix(vocabulary_.add_space_prefix ? 1 : 0, ' ');
  if (!trim && chars_map_.empty()) return text.empty() ? "" : prefix + std::string(text);

  // What the text begins with, and what it becomes: a user-defined token stays, then the longest rule counts. (The
  // library looks for its user-defined tokens with U+2581 in them, which it does not find in a text with spaces.)
  const auto next = [&](std::string_view rest) -> CharsMap::Match {
    const std::string_view literal = rest.substr(0, user_defined_.at(rest).bytes);
    if (!literal.empty() && literal.find(' ') == literal.npos) return {literal.size(), literal};
    if (const CharsMap::Match rule = chars_map_.longest(rest); rule.bytes > 0) return rule;
    const size_t bytes = uint8_t(rest[0]) < 0x80 ? 1 : std::max<size_t>(utf8_character(rest), 1);
    return {bytes, rest.substr(0, bytes)};
  };
  while (trim && !text.empty()) {
    const CharsMap::Match step = next(text);
    if (step.replacement != " ") break;
    text.remove_prefix(step.bytes);
  }
  if (text.empty()) return "";
  std::string out = prefix;
  out.reserve(prefix.size() + text.size());
  bool after_space = trim;
  while (!text.empty()) {
    auto [bytes, part] = next(text);
    while (after_space && part.starts_with(' ')) part.remove_prefix(1);
    out += part;
    if (!part.empty()) after_space = trim && part.ends_with(' ');
    text.remove_prefix(bytes);
  }
  while (trim && out.ends_with(' ')) out.pop_back();
  return out;
}

}  // namespace toy
