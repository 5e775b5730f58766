#include "dialog/call_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dialog/call_text.h"

namespace toy::dialog {
namespace {

// Spaces that may be followed by a call; more are text.
constexpr size_t kMostSpaces = 64;

// Of CallForm::channels. What ends a text usually ends a message, and is not seen.
constexpr std::string_view kStartOfMessage = "<|start|>", kStart = "<|start|>assistant", kMessage = "<|message|>",
                           kFunctions = "functions.";
constexpr std::string_view kEndsOfMessage[] = {"<|end|>", "<|return|>", "<|call|>", kStartOfMessage, "<|channel|>"};
constexpr size_t kMostHeader = 300;

}  // namespace

CallParser::CallParser(const CallForm& form, std::shared_ptr<const std::vector<Tool>> tools, std::string_view salt)
    : form_(form), tools_(std::move(tools)), random_(0, salt) {
  if (form_.kind == CallForm::channels) state_ = in_header;
  if (!form_.reader.empty()) open_unit();  // the prompt has its mark
}

Piece CallParser::push(std::string_view bytes) {
  for (const char c : bytes) push(c);
  return std::exchange(out_, {});
}

// Of a message that has no more than this: nothing is lost. Spaces between messages are none of theirs.
bool CallParser::is_header(std::string_view held) const {
  const std::string_view rest = left_trimmed(held);
  if (rest.empty()) return has_text_[0] || has_text_[1] || calls_ > 0;
  return rest.starts_with(kStartOfMessage) || rest.starts_with(form_.unit.open);
}

Piece CallParser::finish() {
  const bool ends_message =
      form_.own_message && std::ranges::find(form_.inner_marks, trimmed(held_)) != form_.inner_marks.end();
  if (state_ == text && !ends_message && !(calls_ > 0 && trimmed(held_).empty()))
    out_.text += held_;
  else if ((state_ == before_call || state_ == in_call) && tool_ == nullptr && !is_later_)
    out_.text += raw_;
  else if (state_ == in_message || (state_ == in_header && !is_header(held_)))
    write(held_);
  held_.clear(), raw_.clear();
  state_ = text;
  return std::exchange(out_, {});
}

void CallParser::push(char c) {
  if (state_ == text) return in_text(c);
  raw_ += c;
  switch (state_) {
    case text:
      return;
    case before_call:
      if (!is_space(c) && !is_before_list()) begin_call({&c, 1});
      return;
    case in_call:
      return read(c);
    case before_end:
    case after_call:
    case before_close:
      return follow(c);
    case in_header:
      return header(c);
    case in_message:
      return message(c);
    case after_arguments:
      if (is_space(c)) return;
      state_ = in_message;
      return message(c);
  }
}

// Is what came since the mark the fence and the bracket of a list, or a part of them?
bool CallParser::is_before_list() const {
  if (!form_.unit.next || !lists_objects() || is_later_) return false;
  const std::string_view fence = form_.fence(), rest = trimmed(std::string_view(raw_).substr(
                                                    raw_.find(form_.unit.open) + form_.unit.open.size()));
  if (rest.size() <= fence.size()) return fence.starts_with(rest);
  return rest.starts_with(fence) && trimmed(rest.substr(fence.size())) == "[";
}

// With its first bytes.
void CallParser::begin_call(std::string_view bytes) {
  reader_ = call_reader(form_, bytes.front());
  state_ = in_call;
  for (const char c : bytes) read(c);
}

void CallParser::read(char c) {
  const CallReader::Result r = reader_->push(c);
  if (r == CallReader::broken) return give_back(c);
  if (reader_->name() && tool_ == nullptr) {
    if (!form_.reader.empty() && *reader_->name() == form_.reader) {
      raw_.clear();
      state_ = text;
      return;
    }
    if (!announce(*reader_->name())) return give_back(c);
    reader_->set_tool(*tool_);
  }
  if (tool_ != nullptr) argue(reader_->take_arguments());
  if (r == CallReader::done) end_call();
}

// After a call: each of the marks that may follow may be missing, too.
void CallParser::follow(char c) {
  held_ += c;
  const std::string rest(left_trimmed(held_));
  if (rest.empty() && held_.size() < kMostSpaces) return;
  const State after_end = form_.unit.next ? after_call : form_.unit.close.empty() ? text : before_close;
  std::vector<std::string_view> marks{form_.unit.close};
  if (state_ == before_end)
    marks = {left_trimmed(form_.after_arguments())};
  else if (state_ == after_call && !lists_objects())
    marks.push_back(left_trimmed(form_.before_name()));
  else if (state_ == after_call)
    for (const char* mark : {",", "]", "{"})
      if (*mark != '{' || !form_.unit.next->starts_with(',')) marks.push_back(mark);
  if (rest.empty() || std::ranges::none_of(marks, [&](std::string_view m) { return m.starts_with(rest); })) {
    if (state_ == after_call) held_ = rest;
    state_ = state_ == before_end ? after_end : text;
    return again();
  }
  if (std::ranges::find(marks, rest) == marks.end()) return;
  held_.clear();
  if (state_ == before_end) {
    state_ = after_end;
  } else if (state_ != after_call || rest == form_.unit.close || (rest == "]" && form_.unit.close.empty())) {
    state_ = text;
  } else if (rest == "]") {
    state_ = before_close;
  } else {
    raw_ = rest;
    is_later_ = true;
    state_ = before_call;
    if (rest != ",") begin_call(rest);
  }
}

// What was held is read in another state.
void CallParser::again() {
  const std::string held = std::exchange(held_, "");
  for (const char h : held) push(h);
}

void CallParser::in_text(char c) {
  held_ += c;
  if (form_.at_start) return at_beginning();
  if (held_.ends_with(form_.unit.open)) {
    const std::string_view before =
        right_trimmed(std::string_view(held_).substr(0, held_.size() - form_.unit.open.size()));
    out_.text += before;
    raw_ = held_.substr(before.size());
    return open_unit();
  }
  // What stays: the longest end that may begin the mark, and the spaces in front of it.
  size_t from = held_.size() - begun_bytes(held_, form_.unit.open);
  while (from > 0 && is_space(held_[from - 1]) && held_.size() - from < kMostSpaces) --from;
  out_.text += held_.substr(0, from);
  held_.erase(0, from);
}

// A call can only be the complete text.
void CallParser::at_beginning() {
  const std::string_view rest = left_trimmed(held_);
  if (calls_ > 0 || !first_) {
    if (calls_ > 0 && rest.empty()) return;  // spaces after it
    out_.text += std::exchange(held_, "");
  } else if (rest == form_.unit.open || rest == "{") {
    const bool is_open = rest == "{";
    raw_ = held_;
    open_unit();
    if (is_open) begin_call("{");
  } else if (!form_.unit.open.starts_with(rest) || held_.size() > kMostSpaces) {
    first_ = false;
    out_.text += std::exchange(held_, "");
  }
}

void CallParser::open_unit() {
  held_.clear();
  tool_ = nullptr;
  is_later_ = false;
  state_ = before_call;
}

// It is no call: what was not announced is text, and what follows.
void CallParser::give_back(char last) {
  const std::string raw = std::exchange(raw_, "");
  const bool is_announced = std::exchange(tool_, nullptr) != nullptr;
  first_ = false;
  state_ = text;
  if (!is_announced) {
    out_.text += raw;
    return;
  }
  ++calls_;
  if (form_.kind != CallForm::channels) {
    out_.text += last;
    return;
  }
  begin_paragraph(false);
  state_ = after_arguments;
  push(last);
}

bool CallParser::announce(std::string_view name) {
  if (form_.is_numbered() && name.starts_with(kFunctions)) name.remove_prefix(kFunctions.size());
  const std::string_view number = form_.is_numbered() ? name.substr(std::min(name.find(':'), name.size())) : "";
  name.remove_suffix(number.size());
  const auto found = std::ranges::find(*tools_, name, &Tool::name);
  if (found == tools_->end()) return false;
  std::string id = form_.short_ids ? "" : form_.is_numbered() ? numbered_id(name, number) : "call_";
  if (!form_.is_numbered())
    for (size_t i = 0; i < (form_.short_ids ? 9u : 24u); ++i)
      id += "abcdefghijklmnopqrstuvwxyz0123456789"[random_.below(calls_ * 24 + i, 36)];
  tool_ = &*found;
  raw_.clear();
  has_arguments_ = false;
  out_.calls.push_back({calls_, {id, tool_->name, ""}});
  return true;
}

// With the number that the model gave, unless another call has it.
std::string CallParser::numbered_id(std::string_view name, std::string_view given) {
  size_t number = 0;
  for (const char c : given.substr(0, 10))
    if (c >= '0' && c <= '9') number = number * 10 + size_t(c - '0');
  std::string id;
  do id = fmt::format("{}{}:{}", kFunctions, name, number++);
  while (std::ranges::find(ids_, id) != ids_.end());
  return ids_.emplace_back(id);
}

void CallParser::argue(std::string arguments) {
  if (arguments.empty()) return;
  has_arguments_ = true;
  if (out_.calls.empty() || out_.calls.back().index != calls_) out_.calls.push_back({calls_, {}});
  out_.calls.back().added.arguments += arguments;
}

void CallParser::end_call() {
  if (!has_arguments_) argue("{}");
  ++calls_;
  tool_ = nullptr;
  raw_.clear(), held_.clear();
  const bool has_end = !form_.is_object() && !form_.after_arguments().empty();  // which those of pairs read
  if (form_.kind == CallForm::channels)
    begin_paragraph(false), state_ = after_arguments;
  else if (form_.kind == CallForm::json && has_end)
    state_ = before_end;
  else if (form_.unit.next)
    state_ = after_call;
  else
    state_ = form_.unit.close.empty() || form_.at_start || (form_.kind == CallForm::parameters && !has_end)
                 ? text
                 : before_close;
}

// The beginning of a message of CallForm::channels, up to <|message|>.
void CallParser::header(char c) {
  held_ += c;
  if (held_.ends_with(kMessage)) return begin_message();
  std::string_view rest = left_trimmed(held_);
  if (kStart.starts_with(rest)) return;
  if (rest.starts_with(kStart)) rest = left_trimmed(rest.substr(kStart.size()));
  for (const std::string_view part : {form_.unit.open, kMessage, std::string_view("to=")})
    if (part.starts_with(rest) || (rest.starts_with(part) && rest.size() < kMostHeader)) return;
  // It is none.
  begin_paragraph(false);
  raw_.clear();
  write(std::string_view(held_).substr(0, 1));  // the others may hold a mark
  held_.erase(0, 1);
  again();
}

// Its header is held: a channel, and a recipient in front of that or after it.
void CallParser::begin_message() {
  const std::string all = std::exchange(held_, "");
  raw_.clear();
  const std::string_view head = std::string_view(all).substr(0, all.size() - kMessage.size());
  const auto word_after = [&](std::string_view mark) {
    const size_t at = head.find(mark);
    if (at == head.npos) return std::string_view();
    const std::string_view rest = head.substr(at + mark.size());
    return rest.substr(0, std::min(rest.find_first_of(" <\n"), rest.size()));
  };
  std::string_view recipient = word_after(" to="), channel = word_after(form_.unit.open);
  if (recipient.empty() && head.starts_with("to=")) recipient = word_after("to=");
  if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
  if (!recipient.empty() && announce(recipient)) {
    reader_ = arguments_reader(form_, tool_->name);
    state_ = in_call;
    return;
  }
  begin_paragraph(channel == "analysis");
  if (!recipient.empty() && !is_thought_) write(all);  // it calls nothing that there is
}

void CallParser::begin_paragraph(bool is_thought) {
  is_thought_ = is_thought;
  separator_ = has_text_[is_thought] ? "\n\n" : "";
  state_ = in_message;
}

// The content of a message, up to a mark.
void CallParser::message(char c) {
  raw_.clear();
  held_ += c;
  for (const std::string_view mark : kEndsOfMessage) {
    if (!held_.ends_with(mark)) continue;
    write(std::string_view(held_).substr(0, held_.size() - mark.size()));
    held_ = mark == kStartOfMessage || mark == form_.unit.open ? std::string(mark) : "";
    state_ = in_header;
    return;
  }
  size_t keep = 0;
  for (const std::string_view mark : kEndsOfMessage) keep = std::max(keep, begun_bytes(held_, mark));
  write(std::string_view(held_).substr(0, held_.size() - keep));
  held_.erase(0, held_.size() - keep);
}

// A part of the present message.
void CallParser::write(std::string_view bytes) {
  if (bytes.empty()) return;
  std::string& to = is_thought_ ? out_.thought : out_.text;
  to += std::exchange(separator_, {});
  to += bytes;
  has_text_[is_thought_] = true;
}

}  // namespace toy::dialog
