#include "serve/call_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/philox.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

constexpr const char* kSpaces = " \n\t\r";

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// The text without spaces at both ends.
std::string trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

bool begins(std::string_view whole, std::string_view part) { return whole.substr(0, part.size()) == part; }

std::optional<ordered_json> json_of(std::string_view text) {
  try {
    return read_json<ordered_json>("a value", text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

const char* type_of(const ordered_json& j) {
  if (j.is_number()) return j.is_number_float() ? "number" : "integer";
  return j.is_object()    ? "object"
         : j.is_array()   ? "array"
         : j.is_string()  ? "string"
         : j.is_boolean() ? "boolean"
                          : "null";
}

// Spaces that may be followed by a call; more are text.
constexpr size_t kMostSpaces = 64;

}  // namespace

CallObject::Result CallObject::push(char c) {
  switch (place_) {
    case begin:
      if (is_space(c)) return more;
      place_ = before_key;
      return c == '{' ? more : broken;
    case before_key:
      if (is_space(c)) return more;
      if (c == '}' && first_) return broken;  // a call without a name
      if (c != '"') return broken;
      place_ = in_key;
      present_ = c;
      in_string_ = true, escaped_ = false, first_ = false;
      return more;
    case in_key:
      present_ += c;
      if (!escaped_ && c == '"') {
        const auto key = json_of(present_);
        if (!key) return broken;
        present_ = key->get<std::string>();
        place_ = colon;
      }
      escaped_ = !escaped_ && c == '\\';
      return more;
    case colon:
      if (is_space(c)) return more;
      place_ = before_value;
      return c == ':' ? more : broken;
    case before_value:
      if (is_space(c)) return more;
      if (c == ',' || c == '}' || c == ']' || c == ':') return broken;
      place_ = inside_value;
      value_.clear();
      depth_ = 0, in_string_ = escaped_ = false;
      [[fallthrough]];
    case inside_value:
      if (!ends_word(c)) {
        take(c);
        if (!is_complete()) return more;
        place_ = after_value;
        return end_value() ? more : broken;
      }
      if (!end_value()) return broken;
      place_ = after_value;
      [[fallthrough]];
    case after_value:
      if (is_space(c)) return more;
      if (c == '}') return name_ ? done : broken;
      place_ = before_key;
      return c == ',' ? more : broken;
  }
  return broken;
}

// Is this byte after a value that has no last byte of its own: a number, true, false, null?
bool CallObject::ends_word(char c) const {
  const bool word = !value_.empty() && value_[0] != '"' && value_[0] != '{' && value_[0] != '[';
  return word && (is_space(c) || c == ',' || c == '}' || c == ']');
}

void CallObject::take(char c) {
  value_ += c;
  if (present_ == key_ && value_[0] == '{') arguments_ += c;
  if (in_string_) {
    in_string_ = escaped_ || c != '"';
    escaped_ = !escaped_ && c == '\\';
  } else if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '}' || c == ']') {
    --depth_;
  }
}

// Was that the last byte of a string, an object or an array?
bool CallObject::is_complete() const {
  return depth_ == 0 && !in_string_ && (value_[0] == '"' || value_[0] == '{' || value_[0] == '[');
}

bool CallObject::end_value() {
  if (present_ == "name") {
    const auto name = json_of(value_);
    if (!name || !name->is_string() || name_) return false;
    name_ = name->get<std::string>();
  } else if (present_ == key_ && value_.front() != '{') {
    const auto text = json_of(value_);  // some models write the object as a string
    if (!text) return false;
    arguments_ += text->is_string() ? text->get<std::string>() : value_;
  }
  return true;
}

std::string CallObject::take_arguments() {
  if (!name_) return "";
  return std::exchange(arguments_, "");
}

CallParser::CallParser(const CallForm& form, std::shared_ptr<const std::vector<Tool>> tools, std::string salt)
    : form_(form), tools_(std::move(tools)), salt_(std::move(salt)) {}

Piece CallParser::push(std::string_view bytes) {
  for (const char c : bytes) push(c);
  return std::exchange(out_, {});
}

Piece CallParser::finish() {
  if (state_ == text && !(calls_ > 0 && trimmed(held_).empty()))
    out_.text += held_;
  else if (state_ != text && state_ != after_call && state_ != before_close && tool_ == nullptr &&
           !raw_.starts_with(','))
    out_.text += raw_;
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
    case before_call:  // of a list, perhaps its bracket
      if (is_space(c)) return;
      if (c == '[' && form_.list && !raw_.starts_with(',') &&
          trimmed(raw_.substr(raw_.find(form_.open) + form_.open.size())) == "[")
        return;
      object_.emplace(form_.arguments);
      state_ = in_object;
      [[fallthrough]];
    case in_object:
      return in_call_object(c);
    case in_named:
      return in_named_call(c);
    case in_tags:
      held_ += c;
      if (!tags()) give_back(c);
      return;
    case after_call:  // of a list
      if (is_space(c)) return;
      held_.clear();
      raw_ = c;
      state_ = c == ',' ? before_call : c == ']' && !form_.close.empty() ? before_close : text;
      if (c != ',' && c != ']') in_text(c);
      return;
    case before_close:
      return in_close(c);
  }
}

void CallParser::in_call_object(char c) {
  const CallObject::Result r = object_->push(c);
  if (r == CallObject::broken) return give_back(c);
  if (object_->name() && tool_ == nullptr && !announce(*object_->name())) return give_back(c);
  if (tool_ != nullptr) argue(object_->take_arguments());
  if (r == CallObject::done) end_call();
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
  if (held_.size() > 4 * kMostNameBytes) return give_back(c);
  if (!held_.ends_with("[ARGS]")) return;
  if (!announce(trimmed(std::string_view(held_).substr(0, held_.find('['))))) return give_back(c);
  object_.emplace("arguments");  // its braces and keys are not written
  for (const char o : std::string_view(R"({"name":"","arguments":)")) object_->push(o);
}

void CallParser::in_close(char c) {
  held_ += c;
  const std::string rest = held_.substr(std::min(held_.find_first_not_of(kSpaces), held_.size()));
  if (!rest.empty() && rest != form_.close && begins(form_.close, rest)) return;
  if (rest.empty() && held_.size() < kMostSpaces) return;
  state_ = text;
  const std::string text_again = std::exchange(held_, "");
  if (rest == form_.close) return;
  for (const char h : text_again) push(h);  // the mark is missing
}

void CallParser::in_text(char c) {
  held_ += c;
  if (form_.at_start) return at_beginning();
  if (held_.ends_with(form_.open)) {
    const size_t n = held_.size() - form_.open.size(), last = held_.substr(0, n).find_last_not_of(kSpaces);
    const size_t spaces = last == held_.npos ? 0 : last + 1;
    out_.text += held_.substr(0, spaces);
    raw_ = held_.substr(spaces);
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
  const std::string rest = held_.substr(std::min(held_.find_first_not_of(kSpaces), held_.size()));
  if (calls_ > 0 || !first_) {
    if (calls_ > 0 && rest.empty()) return;  // spaces after it
    out_.text += std::exchange(held_, "");
  } else if (rest == form_.open || rest == "{") {
    raw_ = held_;
    open_unit();
    if (rest == "{") object_.emplace(form_.arguments), object_->push('{'), state_ = in_object;
  } else if (!begins(form_.open, rest) || held_.size() > kMostSpaces) {
    first_ = false;
    out_.text += std::exchange(held_, "");
  }
}

void CallParser::open_unit() {
  held_.clear();
  tool_ = nullptr;
  state_ = form_.kind == CallForm::json ? before_call : form_.kind == CallForm::named ? in_named : in_tags;
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
  tool_ = &*found;
  raw_.clear();
  parameters_ = false;
  const Philox random(0, salt_);
  std::string id = form_.short_ids ? "" : "call_";
  for (size_t i = 0; i < (form_.short_ids ? 9u : 24u); ++i)
    id += "abcdefghijklmnopqrstuvwxyz0123456789"[random.below(calls_ * 24 + i, 36)];
  out_.calls.push_back({calls_, {id, name, ""}});
  return true;
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
  state_ = form_.list ? after_call : form_.close.empty() || form_.at_start ? text : before_close;
}

// The tags in held_, of which the last is perhaps not complete. False: they are none.
bool CallParser::tags() {
  const std::string rest = held_.substr(std::min(held_.find_first_not_of(kSpaces), held_.size()));
  if (!parameter_.empty()) {
    constexpr std::string_view kEnd = "</parameter>";
    if (!held_.ends_with(kEnd)) return true;
    std::string value = held_.substr(0, held_.size() - kEnd.size());
    if (value.starts_with('\n')) value.erase(0, 1);
    if (value.ends_with('\n')) value.pop_back();
    end_parameter(std::exchange(parameter_, ""), value);
    held_.clear();
    return true;
  }
  const std::string_view tag = tool_ == nullptr ? "<function=" : "<parameter=";
  if (tool_ != nullptr && rest == "</function>") {
    if (parameters_) argue("}");
    end_call();
    return true;
  }
  if (!begins(tag, rest) && !begins(rest, tag)) return tool_ != nullptr && begins("</function>", rest);
  if (rest.size() <= tag.size() || !rest.ends_with('>')) return rest.size() < 1000;
  const std::string name = rest.substr(tag.size(), rest.size() - tag.size() - 1);
  held_.clear();
  if (tool_ == nullptr) return announce(name);
  parameter_ = name;
  return !name.empty();
}

// Strings are written as they are, other values as JSON.
void CallParser::end_parameter(const std::string& name, const std::string& value) {
  const ordered_json properties = tool_->parameters.value("properties", ordered_json::object());
  const ordered_json property = properties.is_object() ? properties.value(name, ordered_json()) : ordered_json();
  std::vector<std::string> types = types_of(property);
  if (types.empty() && property.is_object() && property.contains("enum") && property["enum"].is_array())
    for (const auto& v : property["enum"]) types.push_back(type_of(v));
  std::optional<ordered_json> j = json_of(value);
  const auto is = [&](const char* type) { return std::ranges::find(types, type) != types.end(); };
  if (j && !types.empty() && !is(type_of(*j)) && !(j->is_number() && (is("number") || is("integer")))) j.reset();
  argue(fmt::format("{}{}: {}", parameters_ ? ", " : "{", json_text(ordered_json(name)),
                    json_text(j ? *j : ordered_json(value))));
}

}  // namespace toy::serve
