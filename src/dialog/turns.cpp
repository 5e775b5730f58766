#include "dialog/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "dialog/many_turns.h"
#include "toy/base/error.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

constexpr const char* kOther = "\xee\x80\x80?\xee\x80\x80";  // U+E000, which no answer begins or ends with
constexpr size_t kFew = 32;                                  // turns that are found one by one, however it goes
constexpr size_t kMost = 1000;                               // the same takes rendering all of it for each

bool is_result(const ordered_json& message) { return message.value("role", "") == "tool"; }

ordered_json first_messages(const ordered_json& messages, size_t n) {
  return ordered_json(messages.begin(), messages.begin() + int64_t(n));
}

}  // namespace

size_t common_prefix(std::string_view a, std::string_view b) {
  return size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}
size_t common_suffix(std::string_view a, std::string_view b) {
  return size_t(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
}

TurnFinder::TurnFinder(const Tokenizer& tokenizer, const RenderedTurns& rendered, Render render)
    : tokenizer_(tokenizer), r_(rendered), render_(std::move(render)), ends_(tokenizer.end_of_generation()) {}

bool TurnFinder::is_answer(size_t i) const { return r_.messages[i].value("role", "") == "assistant"; }

std::vector<size_t> TurnFinder::wanted() const {
  std::vector<size_t> list;
  for (size_t i = 0; i < r_.messages.size(); ++i)
    if (is_answer(i) && r_.learned[i].any()) list.push_back(i);
  check(!list.empty(),
        "no message is the assistant's, so there is nothing to learn; add one (toy data show prints rows)");
  return list;
}

std::vector<TextSpan> TurnFinder::turns() {
  const std::vector<size_t> list = wanted();
  if (list.size() > kFew)
    if (auto spans = together(list)) return std::move(*spans);
  check(list.size() <= kMost,
        "it has {} turns of the assistant, and the chat template does not show each message by itself; cut it into "
        "conversations of at most {}, or use a template with {{% generation %}}",
        list.size(), kMost);
  return one_by_one(list);
}

std::vector<TextSpan> TurnFinder::one_by_one(const std::vector<size_t>& turns) {
  std::vector<TextSpan> spans;
  for (const size_t i : turns) find(i, spans);
  return spans;
}

std::vector<TextSpan> TurnFinder::generated(const std::vector<TextSpan>& spans) {
  wanted();
  std::vector<TextSpan> out = spans;
  for (size_t i = 0; i < r_.messages.size(); ++i) {
    if (!is_answer(i) || r_.learned[i].any()) continue;
    const std::optional<Change> its = turn(i);
    check(its.has_value(), "message {}: its place cannot be found in what the template renders", i + 1);
    std::erase_if(out, [&](const TextSpan& s) { return s.begin < its->end && its->begin < s.end; });
  }
  return out;
}

// What differs in the text where the messages are these; nullopt: the template refuses them, or nothing does.
std::optional<TurnFinder::Change> TurnFinder::change(const json& other) const {
  const auto changed = render_(other, false);
  if (!changed || *changed == r_.text) return std::nullopt;
  const size_t begin = common_prefix(r_.text, *changed);
  const size_t same = std::min(std::min(r_.text.size(), changed->size()) - begin, common_suffix(r_.text, *changed));
  return Change{begin, r_.text.size() - same};
}

// Where another answer makes a difference.
std::optional<TurnFinder::Change> TurnFinder::turn(size_t i) const {
  const json other_message{{"role", "assistant"}, {"content", kOther}};
  json other = r_.messages;
  other[i] = other_message;
  if (const auto its = change(other)) return its;
  // What a tool answers may need its call.
  while (i + 1 < other.size() && is_result(other[i + 1])) other.erase(other.begin() + int64_t(i + 1));
  if (other.size() < r_.messages.size())
    if (const auto its = change(other)) return its;
  // Conversations that stop here.
  const auto compared = render_(first_messages(r_.messages, i + 1), false);
  json stopped = first_messages(r_.messages, i + 1);
  stopped.back() = other_message;
  const auto changed = render_(stopped, false);
  if (!compared || !changed || *changed == *compared) return std::nullopt;
  const size_t begin = common_prefix(*compared, *changed);
  const size_t end = compared->size() -
                     std::min(std::min(compared->size(), changed->size()) - begin, common_suffix(*compared, *changed));
  if (!r_.text.starts_with(std::string_view(*compared).substr(0, end))) return std::nullopt;
  return Change{begin, end};
}

// As turn(), without all that follows up to the next question: the change begins where the turn does, and ends behind
// what was left out. For templates in which turns alternate, calls and their results aside.
std::optional<TurnFinder::Change> TurnFinder::rounds(size_t i) const {
  json other = r_.messages;
  other[i] = {{"role", "assistant"}, {"content", kOther}};
  while (i + 1 < other.size() && other[i + 1].value("role", "") != "user") other.erase(other.begin() + int64_t(i + 1));
  return change(other);
}

// What tools answered to the calls of a message; nullopt: nothing, or it is not found.
std::optional<TurnFinder::Change> TurnFinder::results(size_t i) const {
  json other = r_.messages;
  if (other[i].contains("tool_responses")) {
    other[i].erase("tool_responses");
    return change(other);
  }
  while (i + 1 < other.size() && is_result(other[i + 1])) other.erase(other.begin() + int64_t(i + 1));
  if (other.size() == r_.messages.size()) return std::nullopt;
  if (const auto its = change(other)) return its;
  const auto stopped = render_(first_messages(r_.messages, i + 1), false);
  if (!stopped) return std::nullopt;
  return Change{common_prefix(*stopped, r_.text), r_.text.size()};
}

// After the prompt that asks for the answer, where the conversation begins with that. Else in front of what answers to
// a first question begin with.
size_t TurnFinder::begin(size_t i, size_t differs) {
  json before = first_messages(r_.messages, i);
  auto asked = render_(before, true);
  if (asked && !r_.text.starts_with(*asked)) {  // thoughts that the complete conversation does not show any more
    for (json& message : before) message.erase("reasoning_content"), message.erase("thinking");
    asked = render_(before, true);
  }
  if (asked && r_.text.starts_with(*asked)) return std::min(differs, asked->size());
  return std::string_view(r_.text).substr(0, differs).ends_with(head()) ? differs - head().size() : differs;
}

const std::string& TurnFinder::head() {
  if (head_) return *head_;
  json messages = json::array({json{{"role", "user"}, {"content", "?"}}});
  const auto asked = render_(messages, true);
  messages.push_back({{"role", "assistant"}, {"content", kOther}});
  const auto answered = render_(messages, false);
  const bool begins = asked && answered && answered->starts_with(*asked);
  const size_t at = begins ? answered->find(kOther, asked->size()) : std::string::npos;
  return head_.emplace(at == std::string::npos ? "" : answered->substr(asked->size(), at - asked->size()));
}

size_t TurnFinder::token_at(size_t place) const {
  return size_t(std::lower_bound(r_.begins.begin(), r_.begins.end() - 1, place) - r_.begins.begin());
}

// A token that stands for more than its letters: control tokens, and others that vocabularies write as <...>.
bool TurnFinder::is_mark(int32_t id) const {
  const std::string written = tokenizer_.written(id);
  return tokenizer_.token_bytes(id) != written || std::binary_search(ends_.begin(), ends_.end(), id) ||
         (written.size() > 2 && written.starts_with('<') && written.ends_with('>'));
}

// Behind the mark that ends the turn: of several, the first that ends a generation, else the first. Without marks,
// behind what a conversation that stops there ends with.
size_t TurnFinder::end(size_t i, size_t last) {
  size_t mark = 0, first = token_at(last);
  if (first > 0 && r_.begins[first] > last && is_mark(r_.ids[first - 1])) --first;  // they differ within a mark
  for (size_t t = first; t < r_.ids.size(); ++t) {
    const bool ends = std::binary_search(ends_.begin(), ends_.end(), r_.ids[t]);
    if (ends) return r_.begins[t + 1];
    if (is_mark(r_.ids[t])) {
      if (mark == 0) mark = r_.begins[t + 1];
    } else if (tokenizer_.written(r_.ids[t]).find_first_not_of(" \t\n") != std::string::npos) {
      break;
    }
  }
  note(
      "no token that is learned ends a generation, so the model would not stop by itself; use a chat template whose "
      "turns end with such a token");
  if (mark > 0) return mark;
  size_t end = last + common_prefix(std::string_view(r_.text).substr(last), tail(i));
  while (end > last && std::string_view(" \t\n").find(r_.text[end - 1]) != std::string_view::npos) --end;
  return end;
}

// What a conversation that stops after an answer ends with, found with this one.
const std::string& TurnFinder::tail(size_t i) {
  if (tail_) return *tail_;
  json stopped = first_messages(r_.messages, i + 1), other = stopped;
  other.back() = {{"role", "assistant"}, {"content", kOther}};
  const auto one = render_(stopped, false), two = render_(other, false);
  return tail_.emplace(one && two ? one->substr(one->size() - common_suffix(*one, *two)) : "");
}

void TurnFinder::find(size_t i, std::vector<TextSpan>& out) {
  const std::optional<Change> answers = results(i);
  std::optional<Change> its = turn(i);
  if (!its && answers) its = rounds(i);
  check(
      its.has_value(),
      "message {}: its place cannot be found in what the template renders; use a template with {{% generation %}}, or "
      "--train-on all",
      i + 1);
  const size_t from = begin(i, its->begin);
  if (!answers || answers->begin >= its->end || answers->end <= from) {
    out.push_back({from, std::max(end(i, its->end), its->end)});
    return;
  }
  const TextSpan call = {from, call_end(i, from, answers->begin)};
  if (r_.learned[i].turn) out.push_back(call);
  const bool goes_on = r_.messages[i].contains("tool_responses") && answers->end < its->end;
  if (goes_on && r_.learned[i].answer) out.push_back({answers->end, std::max(end(i, its->end), its->end)});
}

// Where a call ends that the tools' answers follow. Both texts that were compared have the beginning of what stands
// there: marks, or a part of one.
size_t TurnFinder::call_end(size_t i, size_t from, size_t answers) {
  size_t last = answers;
  while (last > from && std::string_view("<[|").find(r_.text[last - 1]) != std::string_view::npos) --last;
  size_t token = token_at(last);
  if (r_.begins[token] > last && token > 0) last = std::max(r_.begins[--token], from);
  for (size_t t = token; t > 0 && r_.begins[t - 1] >= from && is_mark(r_.ids[t - 1]); --t)
    if (std::binary_search(ends_.begin(), ends_.end(), r_.ids[t - 1])) return r_.begins[t];
  return std::max(end(i, last), last);
}

// As one_by_one(), with a few renderings for all. What stands in front of a turn and behind it must be the same for
// all turns after the same role; the first and the last ones show whether it is.
std::optional<std::vector<TextSpan>> TurnFinder::together(const std::vector<size_t>& turns) {
  const std::optional<std::vector<TextSpan>> places = places_of_turns(r_, turns, render_);
  if (!places) return std::nullopt;
  constexpr size_t kExact = 3;
  std::vector<TextSpan> spans;
  std::map<std::string, std::string> heads;  // what a turn begins with, by the role in front of it
  for (size_t k = 0; k < turns.size(); ++k) {
    const TextSpan place = (*places)[k];
    const std::string before = turns[k] > 0 ? r_.messages[turns[k] - 1].value("role", "") : "";
    const auto head = heads.find(before);
    const bool has_head =
        head != heads.end() && std::string_view(r_.text).substr(0, place.begin).ends_with(head->second);
    const TextSpan its{place.begin - (has_head ? head->second.size() : 0), end(turns[k], place.end)};
    const bool is_last = k + kExact >= turns.size();  // whose thoughts may stay
    if (k >= 2 * kExact && head != heads.end() && !is_last) {
      spans.push_back(its);
      continue;
    }
    const size_t n = spans.size();
    find(turns[k], spans);
    if (spans.size() != n + 1 || spans[n].begin > place.begin || spans[n].end < place.end) return std::nullopt;
    if (k >= kExact && head != heads.end() && !is_last && (spans[n].begin != its.begin || spans[n].end != its.end))
      return std::nullopt;
    if (head == heads.end()) heads[before] = r_.text.substr(spans[n].begin, place.begin - spans[n].begin);
  }
  return spans;
}

void TurnFinder::note(const std::string& text) {
  if (std::ranges::find(notes_, text) == notes_.end()) notes_.push_back(text);
}

}  // namespace toy::dialog
