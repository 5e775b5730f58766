#include "dialog/letters.h"

#include <fmt/format.h>

#include <algorithm>

#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

constexpr uint32_t kFirst = 0x10FFFD, kCount = 4096;  // the end of the last private plane

// Characters of that range in the texts of a value.
void collect(const ordered_json& value, std::vector<bool>& seen) {
  const auto look = [&](std::string_view text) {
    for (size_t i = 0; (i = text.find('\xf4', i)) != text.npos && i + 4 <= text.size(); ++i) {
      const uint32_t c = uint32_t(uint8_t(text[i]) & 7) << 18 | uint32_t(uint8_t(text[i + 1]) & 63) << 12 |
                         uint32_t(uint8_t(text[i + 2]) & 63) << 6 | uint32_t(uint8_t(text[i + 3]) & 63);
      if (c <= kFirst && kFirst - c < kCount) seen[kFirst - c] = true;
    }
  };
  if (value.is_string()) look(value.get_ref<const std::string&>());
  if (!value.is_structured()) return;
  for (const auto& [key, item] : value.items()) {
    if (value.is_object()) look(key);
    collect(item, seen);
  }
}

size_t character_bytes(unsigned char first) { return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4; }

}  // namespace

size_t Unmarked::place(size_t marked_offset) const {
  const auto after = std::ranges::upper_bound(marks, marked_offset, {}, &std::pair<size_t, size_t>::first);
  return after == marks.begin() ? marked_offset : marked_offset - std::prev(after)->second;
}

LetterMarks::LetterMarks(const Tokenizer& tokenizer, std::span<const ordered_json* const> input)
    : tokenizer_(tokenizer) {
  std::vector<bool> seen(kCount);
  for (const ordered_json* value : input) collect(*value, seen);
  const auto take = [&] {
    const auto free = std::ranges::find(seen, false);
    check(free != seen.end(), "the messages have all characters from U+10EFFE to U+10FFFD");
    *free = true;
    return kFirst - uint32_t(free - seen.begin());
  };
  const uint32_t mark = take();
  mark_ = utf8_encode(mark);
  escaped_ = fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((mark - 0x10000) >> 10), 0xdc00 + ((mark - 0x10000) & 0x3ff));
  unused_ = utf8_encode(take());
}

std::string LetterMarks::marked(const std::string& text, std::span<const std::string_view> allowed) {
  std::vector<size_t> names = tokenizer_.control_names(text);
  std::erase_if(names, [&](size_t at) {
    return std::ranges::any_of(
        allowed, [&](std::string_view name) { return std::string_view(text).substr(at).starts_with(name); });
  });
  if (names.empty()) return text;
  any_ = true;
  std::string out;
  size_t done = 0;
  for (const size_t at : names) {
    const size_t end = std::min(at + character_bytes(uint8_t(text[at])), text.size());
    out += std::string_view(text).substr(done, end - done);
    out += mark_;
    done = end;
  }
  return out + text.substr(done);
}

void LetterMarks::mark(ordered_json& value, std::span<const std::string_view> allowed) {
  if (value.is_string()) {
    value = marked(value.get_ref<const std::string&>(), allowed);
  } else if (value.is_array()) {
    for (ordered_json& item : value) mark(item, allowed);
  } else if (value.is_object()) {
    ordered_json copy = ordered_json::object();
    for (auto& [key, item] : value.items()) {
      mark(item, allowed);
      copy[marked(key, allowed)] = std::move(item);
    }
    value = std::move(copy);
  }
}

Unmarked LetterMarks::unmarked(const std::string& rendered) const {
  Unmarked out;
  if (!any_) {
    out.text = rendered;
    return out;
  }
  size_t done = 0;
  while (true) {
    const size_t plain = rendered.find(mark_, done), escaped = rendered.find(escaped_, done),
                 at = std::min(plain, escaped);
    out.text += std::string_view(rendered).substr(done, std::min(at, rendered.size()) - done);
    if (at == rendered.npos) return out;
    const size_t bytes = (at == plain ? mark_ : escaped_).size();
    done = at + bytes;
    size_t begin = out.text.size();
    while (begin > 0 && (uint8_t(out.text[--begin]) & 0xc0) == 0x80) {
    }
    if (!out.text.empty() && (out.letters.empty() || out.letters.back() != begin)) out.letters.push_back(begin);
    out.marks.emplace_back(done, bytes + (out.marks.empty() ? 0 : out.marks.back().second));
  }
}

}  // namespace toy::dialog
