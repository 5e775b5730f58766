#include "dialog/token_begins.h"

#include <algorithm>
#include <optional>

namespace toy {
namespace {

// By the bytes of each token. Some tokenizers add a space in front, and some tokens take the spaces after them.
std::optional<std::vector<size_t>> by_bytes(const Tokenizer& tokenizer, std::string_view text,
                                            std::span<const int32_t> ids) {
  std::vector<size_t> out;
  size_t at = 0;
  for (const int32_t id : ids) {
    const std::string bytes = tokenizer.written(id);
    std::string_view rest = text.substr(at);
    size_t length = bytes.size();
    if (!rest.starts_with(bytes)) {
      const size_t spaces = std::min(rest.find_first_not_of(" \t\n\r"), rest.size());
      if (bytes.starts_with(' ') && rest.starts_with(std::string_view(bytes).substr(1)))
        --length;
      else if (rest.substr(spaces).starts_with(bytes))
        at += spaces;
      else
        return std::nullopt;
    }
    out.push_back(at);
    at += length;
  }
  if (text.find_first_not_of(" \t\n\r", at) != text.npos) return std::nullopt;
  out.push_back(text.size());
  return out;
}

// Of a tokenizer that changes the text: a token begins where the shortest prefix ends whose ids share those before it.
std::vector<size_t> by_prefixes(const Tokenizer& tokenizer, std::string_view text, std::span<const int32_t> ids,
                                std::span<const size_t> letters) {
  std::vector<size_t> out(ids.size() + 1, 0);
  size_t known = 0;
  for (size_t end = 1; end <= text.size() && known < ids.size(); ++end) {
    if (end < text.size() && (uint8_t(text[end]) & 0xc0) == 0x80) continue;  // inside a character
    const std::vector<int32_t> part =
        tokenizer.encode(text.substr(0, end), {.parse_special = true, .letters = letters});
    const size_t same = size_t(std::mismatch(part.begin(), part.end(), ids.begin(), ids.end()).first - part.begin());
    for (; known < same; ++known) out[known + 1] = end;
  }
  std::fill(out.begin() + int64_t(known) + 1, out.end(), text.size());
  out.back() = text.size();
  return out;
}

}  // namespace

std::vector<size_t> token_begins(const Tokenizer& tokenizer, const std::string& text, std::span<const int32_t> ids,
                                 std::span<const size_t> letters) {
  if (auto exact = by_bytes(tokenizer, text, ids)) return std::move(*exact);
  return by_prefixes(tokenizer, text, ids, letters);
}

}  // namespace toy
