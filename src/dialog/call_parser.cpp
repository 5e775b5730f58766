#include "dialog/call_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dialog/call_text.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

bool begins(std::string_view whole, std::string_view part) { return whole.substr(0, part.size()) == part; }

// Spaces that may be followed by a call; more are text.
constexpr size_t kMostSpaces = 64;

// Of CallForm::channels. What ends a text usually ends a message, and is not seen.
constexpr std::string_view kStartOfMessage = "<|start|>", kStart = "<|start|>assistant", kMessage = "<|message|>",
                           kFunctions = "functions.";
constexpr std::string_view kEndsOfMessage[] = {"<|end|>", "<|return|>", "<|call|>", kStartOfMessage, "<|channel|>"};
constexpr size_t kMostHeader = 300;
// Bytes of a tag.
constexpr size_t kMostTag = 1000;

}  // namespace

CallParser::CallParser(const CallForm& form, std::shared_ptr<const std::vector<Tool>> tools, std::string_view salt)
    : form_(form), tools_(std::move(tools)), random_(0, salt), state_(initial()) {
  if (form_.reader.empty()) return;
  open_unit();  // the prompt has its mark
}

Piece CallParser::push(std::string_view bytes) {
  for (const char c : bytes) push(c);
  return std::exchange(out_, {});
}

// Of a message that has no more than this: nothing is lost. Spaces between messages are none of theirs.
bool CallParser::is_header(std::string_view held) const {
  const std::string_view rest = left_trimmed(held);
  if (rest.empty()) return has_text_[0] || has_text_[1] || calls_ > 0;
  return begins(rest, kStartOfMessage) || begins(rest, form_.open);
}

Piece CallParser::finish() {
  const bool is_later =
      raw_.starts_with(',') || (form_.list && raw_.starts_with('{')) ||
      ((form_.kind == CallForm::named || form_.kind == CallForm::parameters) && form_.list && calls_ > 0);
  const bool ends_message =
      form_.own_message && std::ranges::find(form_.inner_marks, trimmed(held_)) != form_.inner_marks.end();
  if (state_ == text && !ends_message && !(calls_ > 0 && trimmed(held_).empty()))
    out_.text += held_;
  else if ((state_ == before_call || state_ == in_object || state_ == in_named || state_ == in_tags) &&
           tool_ == nullptr && !is_later)
    out_.text += raw_;
  else if (state_ == in_message)
    write(held_);
  else if (state_ == in_header && !is_header(held_))
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
      if (is_space(c) || is_before_list()) return;
      begin_object(c);
      [[fallthrough]];
    case in_object:
      return in_call_object(c);
    case in_named:
      return in_named_call(c);
    case in_tags:
      held_ += c;
      if (!tags()) give_back(c);
      return;
    case after_call:
      return in_section(c);
    case before_end:
    case before_close:
      return in_close(c);
    case in_header:
      return header(c);
    case in_message:
      return message(c);
    case in_arguments:
      return message_arguments(c);
    case after_arguments:
      if (is_space(c)) return;
      state_ = in_message;
      return message(c);
  }
}

// Is what came since the mark the fence and the bracket of a list, or a part of them?
bool CallParser::is_before_list() const {
  if (!form_.list || raw_.starts_with(',')) return false;
  std::string_view rest = trimmed(std::string_view(raw_).substr(raw_.find(form_.open) + form_.open.size()));
  if (rest.size() <= form_.fence.size()) return begins(form_.fence, rest);
  return begins(rest, form_.fence) && trimmed(rest.substr(form_.fence.size())) == "[";
}

// Its first byte is c.
void CallParser::begin_object(char c) {
  if (form_.kind == CallForm::bare)
    reader_ = std::make_unique<LiteralCall>(LiteralCall::bare);
  else if (form_.kind == CallForm::python && c != '{')
    reader_ = std::make_unique<LiteralCall>(LiteralCall::python);
  else  // LFM2 writes JSON, too, where its system message asks for it
    reader_ = std::make_unique<CallObject>(form_.arguments, form_.name_key);
  state_ = in_object;
}

void CallParser::in_call_object(char c) {
  const CallReader::Result r = reader_->push(c);
  if (r == CallReader::broken) return give_back(c);
  if (reader_->name() && tool_ == nullptr && !announce(*reader_->name())) return give_back(c);
  if (tool_ != nullptr) argue(reader_->take_arguments());
  if (r == CallReader::done) end_call();
}

void CallParser::in_named_call(char c) {
  if (tool_ != nullptr) {
    if (!object_->in_value() && !is_space(c) && c != '{') return give_back(c);
    object_->push(c);
    argue(object_->take_arguments());
    if (object_->has_value()) end_call();
    return;
  }
  held_ += c;
  const std::string_view rest = left_trimmed(held_);
  if (held_.size() > 4 * kMostNameBytes || (!begins(rest, form_.begin) && !begins(form_.begin, rest)))
    return give_back(c);
  if (rest.size() < form_.begin.size() + form_.before_arguments.size() || !rest.ends_with(form_.before_arguments))
    return;
  std::string_view name = rest.substr(form_.begin.size());
  name.remove_suffix(form_.before_arguments.size());
  name = trimmed(name.substr(0, name.find('[')));
  if (!form_.reader.empty() && name == form_.reader) {
    raw_.clear(), held_.clear();
    state_ = text;
    return;
  }
  if (!(form_.numbered ? announce_numbered(name) : announce(std::string(name)))) return give_back(c);
  begin_arguments();
}

// Arguments follow, whose object has no braces and keys around it.
void CallParser::begin_arguments() {
  object_.emplace("arguments");
  for (const char o : std::string_view(R"({"name":"","arguments":)")) object_->push(o);
}

void CallParser::in_close(char c) {
  const bool is_end = state_ == before_end;
  const std::string_view mark = left_trimmed(is_end ? form_.end : form_.close);
  held_ += c;
  const std::string_view rest = left_trimmed(held_);
  if (!rest.empty() && rest != mark && begins(mark, rest)) return;
  if (rest.empty() && held_.size() < kMostSpaces) return;
  state_ = is_end && form_.list ? after_call : text;
  if (rest != mark) return again();  // the mark is missing
  held_.clear();
}

// What was held is read in another state.
void CallParser::again() {
  const std::string held = std::exchange(held_, "");
  for (const char h : held) push(h);
}

// After a call of a list.
void CallParser::in_section(char c) {
  held_ += c;
  const std::string_view rest = left_trimmed(held_);
  if (rest.empty() && held_.size() < kMostSpaces) return;
  const bool has_tags = form_.kind == CallForm::parameters, is_named = form_.kind == CallForm::named || has_tags;
  const std::string_view next = has_tags ? form_.tags.name : is_named ? left_trimmed(form_.begin) : ",";
  if (rest == next) {
    raw_ = rest;
    if (!is_named) held_.clear();
    state_ = has_tags ? in_tags : is_named ? in_named : before_call;
  } else if (!is_named && !form_.brackets && rest == "{") {
    raw_ = rest;
    held_.clear();
    begin_object('{'), reader_->push('{');
  } else if (!is_named && rest == "]" && !form_.close.empty()) {
    held_.clear();
    state_ = before_close;
  } else if (!is_named && rest == "]") {
    held_.clear();
    state_ = text;
  } else if (!form_.close.empty() && rest == form_.close) {
    held_.clear();
    state_ = text;
  } else if (rest.empty() || (!begins(next, rest) && !begins(form_.close, rest))) {
    held_ = std::string(rest);
    state_ = text;
    again();
  }
}

void CallParser::in_text(char c) {
  held_ += c;
  if (form_.at_start) return at_beginning();
  if (held_.ends_with(form_.open)) {
    std::string_view before = std::string_view(held_).substr(0, held_.size() - form_.open.size());
    while (!before.empty() && is_space(before.back())) before.remove_suffix(1);
    out_.text += before;
    raw_ = held_.substr(before.size());
    return open_unit();
  }
  // What stays: the longest end that may begin the mark, and the spaces in front of it.
  size_t keep = 0;
  for (size_t n = std::min(form_.open.size() - 1, held_.size()); n > keep; --n)
    if (held_.ends_with(form_.open.substr(0, n))) keep = n;
  size_t from = held_.size() - keep;
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
  } else if (rest == form_.open || rest == "{") {
    const bool is_open = rest == "{";
    raw_ = held_;
    open_unit();
    if (is_open) begin_object('{'), reader_->push('{');
  } else if (!begins(form_.open, rest) || held_.size() > kMostSpaces) {
    first_ = false;
    out_.text += std::exchange(held_, "");
  }
}

void CallParser::open_unit() {
  held_.clear();
  tool_ = nullptr;
  state_ = form_.kind == CallForm::named ? in_named : form_.kind == CallForm::parameters ? in_tags : before_call;
}

// It is no call: what was not announced is text, and what follows.
void CallParser::give_back(char last) {
  if (tool_ == nullptr)
    out_.text += raw_;
  else
    out_.text += last, ++calls_;
  raw_.clear(), held_.clear(), parameter_.clear();
  tool_ = nullptr;
  first_ = false;
  state_ = text;
}

bool CallParser::announce(const std::string& name) {
  const auto found = std::ranges::find(*tools_, name, &Tool::name);
  if (found == tools_->end()) return false;
  std::string id = form_.short_ids ? "" : "call_";
  for (size_t i = 0; i < (form_.short_ids ? 9u : 24u); ++i)
    id += "abcdefghijklmnopqrstuvwxyz0123456789"[random_.below(calls_ * 24 + i, 36)];
  begin_call(*found, id);
  return true;
}

// functions.NAME:NUMBER, which is the id, unless another call has it.
bool CallParser::announce_numbered(std::string_view id) {
  if (id.starts_with(kFunctions)) id.remove_prefix(kFunctions.size());
  const std::string name(id.substr(0, id.find(':')));
  const auto found = std::ranges::find(*tools_, name, &Tool::name);
  if (found == tools_->end()) return false;
  size_t number = 0;
  for (const char c : id.substr(std::min(id.size(), name.size() + 1), 9))
    if (c >= '0' && c <= '9') number = number * 10 + size_t(c - '0');
  std::string unique;
  do unique = fmt::format("{}{}:{}", kFunctions, name, number++);
  while (std::ranges::find(ids_, unique) != ids_.end());
  ids_.push_back(unique);
  begin_call(*found, unique);
  return true;
}

void CallParser::begin_call(const Tool& tool, const std::string& id) {
  tool_ = &tool;
  raw_.clear();
  parameters_ = false;
  out_.calls.push_back({calls_, {id, tool.name, ""}});
}

void CallParser::argue(std::string arguments) {
  if (arguments.empty()) return;
  parameters_ = true;
  if (out_.calls.empty() || out_.calls.back().index != calls_) out_.calls.push_back({calls_, {}});
  out_.calls.back().added.arguments += arguments;
}

void CallParser::end_call() {
  if (!parameters_) argue("{}");
  ++calls_;
  tool_ = nullptr;
  raw_.clear(), held_.clear();
  state_ = !form_.end.empty()                      ? before_end
           : form_.list                            ? after_call
           : form_.close.empty() || form_.at_start ? text
                                                   : before_close;
}

// The beginning of a message of CallForm::channels, up to <|message|>.
void CallParser::header(char c) {
  held_ += c;
  if (held_.ends_with(kMessage)) return begin_message();
  std::string_view rest = left_trimmed(held_);
  if (begins(kStart, rest)) return;
  if (begins(rest, kStart)) rest = left_trimmed(rest.substr(kStart.size()));
  for (const std::string_view part : {form_.open, kMessage, std::string_view("to=")})
    if (begins(part, rest) || (begins(rest, part) && rest.size() < kMostHeader)) return;
  // It is none.
  is_thought_ = false;
  separator_ = has_text_[0] ? "\n\n" : "";
  state_ = in_message;
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
  std::string_view recipient = word_after(" to="), channel = word_after(form_.open);
  if (recipient.empty() && head.starts_with("to=")) recipient = word_after("to=");
  if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
  if (!recipient.empty() && announce(std::string(recipient))) {
    begin_arguments();
    state_ = in_arguments;
    return;
  }
  is_thought_ = channel == "analysis";
  separator_ = has_text_[is_thought_] ? "\n\n" : "";
  if (!recipient.empty() && !is_thought_) write(all);  // it calls nothing that there is
  state_ = in_message;
}

// The content of a message, up to a mark.
void CallParser::message(char c) {
  raw_.clear();
  held_ += c;
  for (const std::string_view mark : kEndsOfMessage) {
    if (!held_.ends_with(mark)) continue;
    write(std::string_view(held_).substr(0, held_.size() - mark.size()));
    held_ = mark == kStartOfMessage || mark == form_.open ? std::string(mark) : "";
    state_ = in_header;
    return;
  }
  size_t keep = 0;
  for (const std::string_view mark : kEndsOfMessage)
    for (size_t n = std::min(mark.size() - 1, held_.size()); n > keep; --n)
      if (held_.ends_with(mark.substr(0, n))) keep = n;
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

void CallParser::message_arguments(char c) {
  const bool is_other = !object_->in_value() && !is_space(c) && c != '{';
  if (!is_other) {
    object_->push(c);
    argue(object_->take_arguments());
    if (!object_->has_value()) return;
  }
  if (!is_other && !parameters_) argue("{}");
  ++calls_;
  tool_ = nullptr;
  raw_.clear(), held_.clear();
  is_thought_ = false;
  separator_ = has_text_[0] ? "\n\n" : "";
  state_ = after_arguments;
  if (is_other) push(c);
}

// The tags in held_, of which the last is perhaps not complete. False: they are none.
bool CallParser::tags() {
  if (!parameter_.empty()) return value();
  const CallTags& t = form_.tags;
  const std::string_view rest = left_trimmed(held_), end = t.end.empty() ? form_.close : t.end;
  if (tool_ != nullptr && rest == end) {
    if (parameters_) argue("}");
    end_call();
    if (t.end.empty()) state_ = text;
    return true;
  }
  const std::string_view tag = tool_ == nullptr ? t.name : t.key;
  if (!begins(tag, rest) && !begins(rest, tag)) return tool_ != nullptr && begins(end, rest);
  if (rest.size() <= tag.size()) return true;
  std::string_view after = trimmed(tool_ == nullptr ? t.after_name : t.after_key);
  std::string_view name = rest.substr(tag.size());
  if (after.empty()) {  // a name ends at a blank or at the next tag
    const bool at_tag = name.back() == '<';
    if (!at_tag && !is_space(name.back())) return rest.size() < kMostTag;
    name.remove_suffix(1);
    const std::string known(trimmed(name));
    held_ = at_tag ? "<" : "";
    return announce(known);
  }
  if (!name.ends_with(after.substr(after.rfind('<') == after.npos ? 0 : after.rfind('<'))))
    return rest.size() < kMostTag;
  const std::string key(
      name.substr(0, name.find(after.substr(0, after.find('>') == after.npos ? after.npos : after.find('>') + 1))));
  held_.clear();
  if (tool_ == nullptr) return announce(key);
  parameter_ = key;
  return !key.empty();
}

// The value of a parameter in held_, perhaps with the tag after it.
bool CallParser::value() {
  const std::string_view end = trimmed(form_.tags.after_value);
  if (!held_.ends_with(end)) return true;
  std::string value = held_.substr(0, held_.size() - end.size());
  const std::string_view string = form_.tags.is_string, other = form_.tags.is_other;
  const bool is_string = !string.empty() && value.starts_with(string);
  if (is_string || (!other.empty() && value.starts_with(other))) value.erase(0, (is_string ? string : other).size());
  if (form_.tags.after_key.ends_with('\n') && value.starts_with('\n')) value.erase(0, 1);
  if (form_.tags.after_value.starts_with('\n') && value.ends_with('\n')) value.pop_back();
  end_parameter(std::exchange(parameter_, ""), value, is_string);
  held_.clear();
  return true;
}

// Strings are written as they are, other values as JSON; `is_string`: the tag says that it is one.
void CallParser::end_parameter(const std::string& name, const std::string& value, bool is_string) {
  const ordered_json properties = tool_->parameters.value("properties", ordered_json::object());
  const ordered_json property = properties.is_object() ? properties.value(name, ordered_json()) : ordered_json();
  const std::vector<std::string> types = all_types_of(tool_->parameters, property);
  std::optional<ordered_json> j = is_string ? std::nullopt : json_of(value);
  for (const auto& [name_in_python, meant] :
       {std::pair("True", ordered_json(true)), std::pair("False", ordered_json(false)),
        std::pair("None", ordered_json())})
    if (!is_string && !types.empty() && value == name_in_python) j = meant;
  const auto is = [&](const char* type) { return std::ranges::find(types, type) != types.end(); };
  if (j && !types.empty() && !is(type_of(*j)) && !(j->is_number() && (is("number") || is("integer")))) j.reset();
  argue(fmt::format("{}{}: {}", parameters_ ? ", " : "{", json_text(ordered_json(name)),
                    json_text(j ? *j : ordered_json(value))));
}

}  // namespace toy::dialog
