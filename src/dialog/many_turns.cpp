#include "dialog/many_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "dialog/call_text.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kOpen = "\xee\x80\x80", kClose = "\xee\x80\x81";  // U+E000, U+E001

std::string number_text(size_t i) { return fmt::format("{}{}{}", kOpen, i, kClose); }

bool is_answer(const ordered_json& message) { return message.value("role", "") == "assistant"; }

// A rendering where messages are numbers: what stands between these.
struct Pieces {
  std::vector<std::string_view> texts;  // one more than numbers
  std::vector<size_t> numbers;
};
std::optional<Pieces> pieces_of(std::string_view text, size_t messages) {
  Pieces p;
  for (size_t at = 0;;) {
    const size_t open = text.find(kOpen, at);
    p.texts.push_back(text.substr(at, open == text.npos ? text.npos : open - at));
    if (open == text.npos) return p;
    const size_t begin = open + kOpen.size(), close = text.find(kClose, begin);
    size_t number = 0;
    if (close == text.npos) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data() + begin, text.data() + close, number);
    if (error != std::errc() || end != text.data() + close || number >= messages) return std::nullopt;
    p.numbers.push_back(number);
    at = close + kClose.size();
  }
}

// The content as the text has it here, where `next` follows: as it is, or without blanks.
std::optional<size_t> content_bytes(std::string_view text, std::string_view content, std::string_view next) {
  std::string_view right = content;
  while (!right.empty() && is_space(right.back())) right.remove_suffix(1);
  for (const std::string_view as : {content, trimmed(content), right, left_trimmed(content)})
    if (text.starts_with(as) && text.substr(as.size()).starts_with(next)) return as.size();
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<TextSpan>> places_of_turns(const RenderedTurns& r, const std::vector<size_t>& turns,
                                                     const TurnFinder::Render& render) {
  if (r.text.find(kOpen) != r.text.npos || r.text.find(kClose) != r.text.npos) return std::nullopt;
  ordered_json others = r.messages, all = r.messages;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].contains("tool_responses")) return std::nullopt;
    if (is_answer(all[i]))
      all[i] = {{"role", "assistant"}, {"content", number_text(i)}};
    else
      all[i]["content"] = others[i]["content"] = number_text(i);
  }
  const auto with_answers = render(others, false), numbered = render(all, false);
  if (!with_answers || !numbered) return std::nullopt;
  const auto shown = pieces_of(*with_answers, all.size()), pattern = pieces_of(*numbered, all.size());
  if (!shown || !pattern) return std::nullopt;

  std::vector<TextSpan> places;
  std::string_view rest = r.text;
  size_t wanted = 0, k = 0;  // of turns; of pattern
  for (size_t j = 0; j < shown->texts.size(); ++j) {
    const std::string_view text = shown->texts[j];
    const size_t here = r.text.size() - rest.size();
    if (!rest.starts_with(text)) return std::nullopt;
    rest.remove_prefix(text.size());
    // One answer may stand between two other messages.
    if (k < pattern->numbers.size() && is_answer(r.messages[pattern->numbers[k]])) {
      const std::string_view before = pattern->texts[k], after = pattern->texts[k + 1];
      const size_t front = common_prefix(text, before),
                   back = std::min(common_suffix(text, after), text.size() - std::min(front, text.size()));
      const size_t number = pattern->numbers[k++];
      if (wanted < turns.size() && turns[wanted] == number) {
        places.push_back({here + front, here + text.size() - back});
        ++wanted;
      }
    } else if (pattern->texts[k] != text) {
      return std::nullopt;
    }
    if (j == shown->numbers.size()) break;
    const size_t number = shown->numbers[j];
    if (k >= pattern->numbers.size() || pattern->numbers[k] != number) return std::nullopt;
    ++k;
    const auto bytes = content_bytes(rest, r.messages[number].value("content", ""), shown->texts[j + 1]);
    if (!bytes) return std::nullopt;
    rest.remove_prefix(*bytes);
  }
  if (!rest.empty() || wanted != turns.size()) return std::nullopt;
  return places;
}

}  // namespace toy::dialog
