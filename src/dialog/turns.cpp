#include "dialog/turns.h"

#include <fmt/format.h>

#include <algorithm>

#include "dialog/call_history.h"
#include "dialog/call_text.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/chat/chat_input.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

constexpr const char* kOther = "\xee\x80\x80?\xee\x80\x80";  // U+E000, which no answer begins or ends with
constexpr const char* kBlanks = " \t\n";
constexpr size_t kTurnsInWindow = 3;
constexpr size_t kMostExact = 1000;  // turns for each of which all messages are rendered

ordered_json first_messages(const ordered_json& messages, size_t n) {
  return ordered_json(messages.begin(), messages.begin() + int64_t(n));
}

ordered_json with_other_answer(ordered_json messages, size_t i) {
  messages[i] = {{"role", "assistant"}, {"content", kOther}};
  return messages;
}

size_t common_prefix(std::string_view a, std::string_view b) {
  return size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}
bool is_inside_character(std::string_view text, size_t at) { return at < text.size() && (text[at] & 0xC0) == 0x80; }

// Complete characters.
size_t common_suffix(std::string_view a, std::string_view b) {
  size_t n = size_t(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
  while (n > 0 && is_inside_character(a, a.size() - n)) --n;
  return n;
}

// What of the first text the other has not.
TextSpan difference(std::string_view text, std::string_view other) {
  const size_t begin = common_prefix(text, other);
  return {begin, text.size() - std::min(std::min(text.size(), other.size()) - begin, common_suffix(text, other))};
}

// Each once.
std::vector<std::string> role_names(const ordered_json& messages) {
  std::vector<std::string> names;
  for (const ordered_json& message : messages)
    if (const std::string role = message.value("role", ""); std::ranges::find(names, role) == names.end())
      names.push_back(role);
  return names;
}

}  // namespace

TurnFinder::TurnFinder(const Tokenizer& tokenizer, const RenderedTurns& rendered, Render render, size_t few)
    : tokenizer_(tokenizer), r_(rendered), render_(std::move(render)), few_(few), ends_(tokenizer.end_of_generation()) {
  for (const json& message : r_.messages) {
    const std::string role = message.value("role", "");
    roles_ += role == "user" ? 'u' : role == "assistant" ? 'a' : role == "tool" ? 't' : '-';
  }
}

std::vector<size_t> TurnFinder::answers(bool learned) const {
  std::vector<size_t> list;
  for (size_t i = 0; i < r_.messages.size(); ++i)
    if (roles_[i] == 'a' && r_.learned[i].any() == learned) list.push_back(i);
  check(!list.empty() || !learned, "{}, so there is nothing to learn (toy data show prints rows)",
        roles_.find('a') != roles_.npos
            ? "no message of the assistant is learned"
            : fmt::format("no message is the assistant's (the roles are {})",
                          one_line(fmt::format("{}", fmt::join(role_names(r_.messages), ", ")))));
  return list;
}

std::vector<TextSpan> TurnFinder::turns() {
  return spans_of(answers(true), [this](const Part& part, size_t at, size_t i, std::vector<TextSpan>& spans) {
    return find(part, at, r_.learned[i], spans);
  });
}

std::vector<TextSpan> TurnFinder::generated(const std::vector<TextSpan>& spans) {
  answers(true);
  const std::vector<TextSpan> unlearned =
      spans_of(answers(false), [this](const Part& part, size_t at, size_t, std::vector<TextSpan>& all) {
        const std::optional<TextSpan> its = turn(part, at);
        if (its) all.push_back(*its);
        return its;
      });
  std::vector<TextSpan> out = spans;
  for (const TextSpan& its : unlearned)
    std::erase_if(out, [&](const TextSpan& s) { return s.begin < its.end && its.begin < s.end; });
  return out;
}

std::vector<TextSpan> TurnFinder::spans_of(const std::vector<size_t>& turns, const Each& each) {
  std::vector<TextSpan> spans;
  if (turns.size() > few_ && in_windows(turns, each, spans)) return spans;
  check(turns.size() <= kMostExact,
        "it has {} turns of the assistant, and the chat template shows a few messages in another way than all; cut it "
        "into conversations of at most {} turns, or use another template",
        turns.size(), kMostExact);
  spans.clear(), notes_.clear();
  for (const size_t i : turns) {
    if (each({r_.messages, r_.text}, i, i, spans).has_value()) continue;
    const std::string said = r_.messages[i].value("content", ""), content(trimmed(said));
    check(content.empty() || r_.text.find(content) != std::string::npos,
          "message {}: the chat template does not show it, so it cannot be learned; use another --chat-template",
          i + 1);
    fail(
        "message {}: its place cannot be found in what the template renders; use a template with {{% generation %}}, "
        "or "
        "--train-on all",
        i + 1);
  }
  return spans;
}

// Finds turns where a few messages are rendered. From each turn to the next their text must be that of all messages;
// false: it is not.
bool TurnFinder::in_windows(const std::vector<size_t>& turns, const Each& each, std::vector<TextSpan>& spans) {
  size_t known = 0;  // where the last turn that was found begins
  for (size_t k = 0; k < turns.size();) {
    const size_t n = std::min(k + kTurnsInWindow, turns.size());
    const std::vector<size_t> shown = window(k > 0 ? turns[k - 1] : 0, turns[n - 1]);
    const auto at = [&](size_t i) { return size_t(std::ranges::lower_bound(shown, i) - shown.begin()); };
    json messages = json::array();
    for (const size_t i : shown) messages.push_back(r_.messages[i]);
    const std::optional<std::string> text = render_(messages, false);
    if (!text) return false;
    size_t first = 0;  // where that turn begins here
    if (k > 0) {
      const Part alone{messages, *text};
      const std::optional<TextSpan> its = turn(alone, at(turns[k - 1]));
      const std::optional<size_t> begins = its ? its->begin : rounds(alone, at(turns[k - 1]));
      if (!begins) return false;
      first = *begins;
    }
    const size_t until =
        known + common_prefix(std::string_view(*text).substr(first), std::string_view(r_.text).substr(known));
    const Part part{messages, *text, known - first};
    for (; k < n; ++k) {
      const std::optional<TextSpan> its = each(part, at(turns[k]), turns[k], spans);
      if (!its || (its->end >= until && until < r_.text.size())) return false;
      known = its->begin;
    }
  }
  return true;
}

// Messages among which those from one turn to another are shown as among all: what begins the conversation, the
// question before them, one turn more at either side, the last turn before the next question, and the last question
// with the last turn.
std::vector<size_t> TurnFinder::window(size_t first, size_t last) const {
  const size_t n = roles_.size(), question = roles_.rfind('u', first);
  size_t from = 0;
  for (const size_t i : {question, first > 0 ? roles_.rfind('a', first - 1) : 0})
    if (i != roles_.npos) from = std::max(from, i);
  const size_t to = std::min(roles_.find_first_not_of('t', std::min(roles_.find('a', last + 1), n - 1) + 1), n),
               next = std::min(roles_.find('u', to), n), asked = roles_.rfind('u');
  std::vector<size_t> list;
  const auto add = [&](size_t begin, size_t end) {
    for (size_t i = list.empty() ? begin : std::max(begin, list.back() + 1); i < end; ++i) list.push_back(i);
  };
  add(0, std::min(roles_.find_first_of("ua"), from));
  if (question < from) add(question, question + 1);
  add(from, to);
  add(roles_.rfind('a', next - 1), next);
  if (next == n) return list;
  add(asked, asked + 1);
  add(std::max(asked, roles_.rfind('a')), n);
  return list;
}

// What differs in the text where the messages are these; nullopt: the template refuses them, or nothing does.
std::optional<TextSpan> TurnFinder::change(const Part& part, const json& other) const {
  const auto changed = render_(other, false);
  if (!changed || *changed == part.text) return std::nullopt;
  const TextSpan its = difference(part.text, *changed);
  return TextSpan{place(part, its.begin), place(part, its.end)};
}

// Where another answer makes a difference.
std::optional<TextSpan> TurnFinder::turn(const Part& part, size_t i) const {
  json other = with_other_answer(part.messages, i);
  if (const auto its = change(part, other)) return its;
  // What a tool answers may need its call.
  while (i + 1 < other.size() && is_result(other[i + 1])) other.erase(other.begin() + int64_t(i + 1));
  if (other.size() < part.messages.size())
    if (const auto its = change(part, other)) return its;
  // Conversations that stop here.
  const json stopped = first_messages(part.messages, i + 1);
  const auto compared = render_(stopped, false), changed = render_(with_other_answer(stopped, i), false);
  if (!compared || !changed || *changed == *compared) return std::nullopt;
  const TextSpan its = difference(*compared, *changed);
  if (!part.text.starts_with(std::string_view(*compared).substr(0, its.end))) return std::nullopt;
  return TextSpan{place(part, its.begin), place(part, its.end)};
}

// Where a turn begins, as turn(), without all that follows up to the next question. For templates in which turns
// alternate, calls and their results aside.
std::optional<size_t> TurnFinder::rounds(const Part& part, size_t i) const {
  json other = with_other_answer(part.messages, i);
  while (i + 1 < other.size() && other[i + 1].value("role", "") != "user") other.erase(other.begin() + int64_t(i + 1));
  const auto its = change(part, other);
  return its ? std::optional(its->begin) : std::nullopt;
}

// What tools answered to the calls of a message; nullopt: nothing, or it is not found.
std::optional<TextSpan> TurnFinder::results(const Part& part, size_t i) const {
  json other = part.messages;
  if (other[i].contains("tool_responses")) {
    other[i].erase("tool_responses");
    return change(part, other);
  }
  while (i + 1 < other.size() && is_result(other[i + 1])) other.erase(other.begin() + int64_t(i + 1));
  if (other.size() == part.messages.size()) return std::nullopt;
  if (i + 1 == other.size()) {  // a template may show the last message in another way: here an answer is
    json answered = part.messages;
    for (json* messages : {&answered, &other}) messages->push_back({{"role", "assistant"}, {"content", kOther}});
    const auto with = render_(answered, false), without = render_(other, false);
    other.erase(other.end() - 1);
    if (with && without && *with != *without) {
      const TextSpan its = difference(*with, *without);
      const size_t same = common_prefix(*with, part.text);
      if (its.begin < same) return TextSpan{place(part, its.begin), place(part, std::min(its.end, same))};
    }
  }
  if (const auto its = change(part, other)) return its;
  const auto stopped = render_(first_messages(part.messages, i + 1), false);
  if (!stopped) return std::nullopt;
  return TextSpan{place(part, common_prefix(*stopped, part.text)), place(part, part.text.size())};
}

// What a message says beside its calls, or behind `tool_responses`; nullopt: nothing, or it is not found.
std::optional<TextSpan> TurnFinder::said_beside(const Part& part, size_t i, const TextSpan& its,
                                                const TextSpan& results) const {
  const json& message = part.messages[i];
  if (message.contains("content") && message["content"].is_string() && message["content"] != "") {
    json other = part.messages;
    other[i]["content"] = kOther;
    return change(part, other);
  }
  if (!message.contains("tool_responses") || results.end >= its.end) return std::nullopt;
  return TextSpan{results.end, its.end};
}

// After the prompt that asks for the answer, where the conversation begins with that. Else in front of what answers to
// a first question begin with.
size_t TurnFinder::begin(const Part& part, size_t i, size_t differs) {
  json before = first_messages(part.messages, i);
  auto asked = render_(before, true);
  if (asked && !part.text.starts_with(*asked)) {  // thoughts that the complete conversation does not show any more
    for (json& message : before) message.erase("reasoning_content"), message.erase("thinking");
    asked = render_(before, true);
  }
  if (asked && part.text.starts_with(*asked)) return std::min(differs, place(part, asked->size()));
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
// behind what a conversation that stops there ends with; blanks are a part of that only where there is nothing else.
size_t TurnFinder::end(size_t last) {
  size_t mark = 0, first = token_at(last);
  if (first > 0 && r_.begins[first] > last && is_mark(r_.ids[first - 1])) --first;  // they differ within a mark
  for (size_t t = first; t < r_.ids.size(); ++t) {
    const bool ends = std::binary_search(ends_.begin(), ends_.end(), r_.ids[t]);
    if (ends) return r_.begins[t + 1];
    if (is_mark(r_.ids[t])) {
      if (mark == 0) mark = r_.begins[t + 1];
    } else if (tokenizer_.written(r_.ids[t]).find_first_not_of(kBlanks) != std::string::npos) {
      break;
    }
  }
  note(
      "no token that is learned ends a generation, so the model would not stop by itself; use a chat template whose "
      "turns end with such a token, or a stop text");
  if (mark > 0) return mark;
  std::string_view written = std::string_view(r_.text).substr(last);
  written = written.substr(0, common_prefix(written, tail()));
  if (tail().find_first_not_of(kBlanks) != std::string::npos)
    written = written.substr(0, written.find_last_not_of(kBlanks) + 1);
  return last + written.size();
}

// What a conversation that stops after an answer ends with.
const std::string& TurnFinder::tail() {
  if (tail_) return *tail_;
  json messages = json::array({{{"role", "user"}, {"content", "?"}}, {{"role", "assistant"}, {"content", "x"}}});
  const auto one = render_(messages, false), two = render_(with_other_answer(messages, 1), false);
  return tail_.emplace(one && two ? one->substr(one->size() - common_suffix(*one, *two)) : "");
}

std::optional<TextSpan> TurnFinder::find(const Part& part, size_t i, Learned learned, std::vector<TextSpan>& out) {
  const std::optional<TextSpan> its = turn(part, i), answers = results(part, i);
  const std::optional<size_t> differs = its ? its->begin : answers ? rounds(part, i) : std::nullopt;
  if (!differs) return std::nullopt;
  // Text that the template cuts from its call has no head of its own.
  const size_t from = learned.end ? begin(part, i, *differs) : *differs;
  const auto behind = [&](size_t last, bool with_end) { return with_end ? std::max(end(last), last) : last; };
  if (!answers || (its && (answers->begin >= its->end || answers->end <= from))) {
    out.push_back({from, behind(its->end, learned.end)});
    return TextSpan{*differs, out.back().end};
  }
  const TextSpan call = {from, call_end(from, answers->begin)};
  if (learned.turn) out.push_back(call);
  const auto said = its ? said_beside(part, i, *its, *answers) : std::nullopt;
  if (!said || said->begin < call.end) return TextSpan{*differs, call.end};
  // This is the end of the turn only where a question follows.
  size_t next = i + 1;
  while (next < part.messages.size() && is_result(part.messages[next])) ++next;
  const bool ends = part.messages[i].contains("tool_responses") ||
                    (next < part.messages.size() && part.messages[next].value("role", "") != "assistant");
  const TextSpan text = {said->begin, behind(said->end, ends)};
  if (learned.answer) out.push_back(text);
  return TextSpan{*differs, text.end};
}

// Where a call ends that the tools' answers follow. Both texts that were compared have the beginning of what stands
// there: marks, or a part of one.
size_t TurnFinder::call_end(size_t from, size_t answers) {
  size_t last = answers;
  while (last > from && std::string_view("<[|").find(r_.text[last - 1]) != std::string_view::npos) --last;
  size_t token = token_at(last);
  if (r_.begins[token] > last && token > 0) last = std::max(r_.begins[--token], from);
  for (size_t t = token; t > 0 && r_.begins[t - 1] >= from && is_mark(r_.ids[t - 1]); --t)
    if (std::binary_search(ends_.begin(), ends_.end(), r_.ids[t - 1])) return r_.begins[t];
  return std::max(end(last), last);
}

void TurnFinder::note(const std::string& text) {
  if (std::ranges::find(notes_, text) == notes_.end()) notes_.push_back(text);
}

}  // namespace toy::dialog
