#include "dialog/call_readers.h"

#include <cstdint>
#include <utility>

#include "dialog/call_forms.h"
#include "dialog/call_text.h"
#include "toy/base/utf8.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

// May this follow a string? What else comes after a quote makes it a part of the string: templates of LFM2 write
// strings without escapes.
bool follows_string(char c) { return is_space(c) || c == ',' || c == ')' || c == ']' || c == '}' || c == ':'; }

constexpr int kDeepest = 100;

// Reads literals from a text.
class Literals {
 public:
  Literals(LiteralCall::Dialect dialect, std::string_view text) : dialect_(dialect), text_(text) {}

  // KEY=VALUE, or KEY:VALUE
  std::optional<std::pair<std::string, ordered_json>> pair() {
    const std::optional<std::string> key = key_before(dialect_ == LiteralCall::python ? '=' : ':');
    if (!key) return std::nullopt;
    std::optional<ordered_json> v = value(0);
    skip_spaces();
    if (!v || at_ != text_.size()) return std::nullopt;
    return std::pair(*key, std::move(*v));
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool take(std::string_view what) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  // A word or a string, and the mark after it.
  std::optional<std::string> key_before(char mark) {
    skip_spaces();
    if (std::optional<std::string> key = string()) return take({&mark, 1}) ? key : std::nullopt;
    const size_t end = text_.find(mark, at_);
    if (end == text_.npos) return std::nullopt;
    std::string key(trimmed(text_.substr(at_, end - at_)));
    at_ = end + 1;
    if (key.empty() || key.find_first_of("\"'{}[]()") != key.npos) return std::nullopt;
    return key;
  }

  std::optional<ordered_json> value(int depth) {
    skip_spaces();
    if (at_ == text_.size() || depth > kDeepest) return std::nullopt;
    if (std::optional<std::string> s = string()) return ordered_json(*s);
    if (take("{")) return members(depth);
    if (take("[")) return items(depth, "]");
    if (dialect_ == LiteralCall::python && take("(")) return items(depth, ")");
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of(",]})", at_), text_.size());
    return word(trimmed(text_.substr(begin, at_ - begin)));
  }

  // A number, a name of a value, or a string without quotes.
  static std::optional<ordered_json> word(std::string_view w) {
    if (w.empty()) return std::nullopt;
    if (w == "True") return true;
    if (w == "False") return false;
    if (w == "None") return nullptr;
    std::optional<ordered_json> j = json_of(w);
    return j && !j->is_structured() ? std::move(j) : std::optional<ordered_json>(std::string(w));
  }

  std::optional<ordered_json> items(int depth, std::string_view end) {
    ordered_json list = ordered_json::array();
    while (!take(end)) {
      std::optional<ordered_json> v = value(depth + 1);
      if (!v) return std::nullopt;
      list.push_back(std::move(*v));
      if (!take(",") && !text_.substr(at_).starts_with(end)) return std::nullopt;
    }
    return list;
  }

  std::optional<ordered_json> members(int depth) {
    ordered_json object = ordered_json::object();
    while (!take("}")) {
      const std::optional<std::string> key = key_before(':');
      if (!key) return std::nullopt;
      std::optional<ordered_json> v = value(depth + 1);
      if (!v) return std::nullopt;
      object[*key] = std::move(*v);
      if (!take(",") && !text_.substr(at_).starts_with('}')) return std::nullopt;
    }
    return object;
  }

  // nullopt: there is none here.
  std::optional<std::string> string() {
    if (dialect_ == LiteralCall::bare) {
      if (!text_.substr(at_).starts_with(kBareQuote)) return std::nullopt;
      const size_t begin = at_ + kBareQuote.size(), end = text_.find(kBareQuote, begin);
      if (end == text_.npos) return std::nullopt;
      at_ = end + kBareQuote.size();
      return std::string(text_.substr(begin, end - begin));
    }
    if (at_ == text_.size() || (text_[at_] != '"' && text_[at_] != '\'')) return std::nullopt;
    const char quote = text_[at_];
    std::string s;
    for (size_t i = at_ + 1; i < text_.size();) {
      if (text_[i] == quote && (i + 1 == text_.size() || follows_string(text_[i + 1]))) {
        at_ = i + 1;
        return s;
      }
      if (text_[i] == '\\' && i + 1 < text_.size())
        escape(i, s);
      else
        s += text_[i++];
    }
    return std::nullopt;
  }

  // The hexadecimal digits after an escape.
  std::optional<uint32_t> code(size_t at, size_t digits) const {
    if (at + digits > text_.size()) return std::nullopt;
    uint32_t c = 0;
    for (const char d : text_.substr(at, digits)) {
      const size_t v = std::string_view("0123456789abcdefABCDEF").find(d);
      if (v == std::string_view::npos) return std::nullopt;
      c = c * 16 + uint32_t(v < 16 ? v : v - 6);
    }
    return c;
  }

  // What a backslash at `i` and the text after it stand for. An unknown escape stands for itself, as in Python.
  void escape(size_t& i, std::string& s) const {
    const char c = text_[i + 1];
    static constexpr std::string_view kLetters = "nrtbf\\'\"/", kMeanings = "\n\r\t\b\f\\'\"/";
    if (const size_t k = kLetters.find(c); k != kLetters.npos) {
      s += kMeanings[k];
      i += 2;
      return;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    std::optional<uint32_t> point = digits > 0 ? code(i + 2, digits) : std::nullopt;
    size_t end = i + 2 + digits;
    if (point && *point >= 0xD800 && *point < 0xDC00 && text_.substr(end).starts_with("\\u"))
      if (const auto low = code(end + 2, 4); low && *low >= 0xDC00 && *low < 0xE000) {
        point = 0x10000 + ((*point - 0xD800) << 10) + (*low - 0xDC00);
        end += 6;
      }
    if (!point || (*point >= 0xD800 && *point < 0xE000) || *point > 0x10FFFF) {
      s += '\\';
      ++i;
      return;
    }
    s += utf8_encode(*point);
    i = end;
  }

  LiteralCall::Dialect dialect_;
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string CallReader::take_arguments() {
  if (!name_) return "";
  return std::exchange(arguments_, "");
}

CallObject::Result CallObject::push(char c) {
  switch (place_) {
    case begin:
      if (is_space(c)) return more;
      place_ = before_key;
      return c == '{' ? more : broken;
    case before_key:
      if (is_space(c)) return more;
      if (c == '}' && first_) return broken;  // a call without a name
      if (c != '"' || (name_key_.empty() && name_)) return broken;
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
        if (name_key_.empty()) name_ = key_ = present_;
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
  if (!name_key_.empty() && present_ == name_key_) {
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

bool LiteralCall::in_string(char c) {
  if (dialect_ == bare) {
    if (!std::string_view(text_).substr(opened_).ends_with(kBareQuote)) return true;
    quote_ = 0;
    return true;
  }
  if (closed_) {
    closed_ = false;
    if (follows_string(c)) {
      quote_ = 0;
      return false;
    }
  }
  closed_ = !escaped_ && c == quote_;
  escaped_ = !escaped_ && c == '\\';
  return true;
}

CallReader::Result LiteralCall::in_name(char c) {
  if (c != (dialect_ == python ? '(' : '{')) {
    text_ += c;
    return text_.size() > 4 * kMostNameBytes ? broken : more;
  }
  std::string_view name = trimmed(text_);
  if (dialect_ == bare) {
    if (!name.starts_with("call:")) return broken;
    name = trimmed(name.substr(5));
  }
  if (name.empty()) return broken;
  name_ = std::string(name);
  brackets_ = dialect_ == python ? ")" : "}";
  text_.clear();
  return more;
}

// Adds an argument, whose text is complete.
bool LiteralCall::end_argument() {
  const std::string text = std::exchange(text_, "");
  if (trimmed(text).empty()) return true;
  const auto pair = Literals(dialect_, text).pair();
  if (!pair) return false;
  arguments_ += (std::exchange(first_, false) ? "{" : ", ") + json_text(ordered_json(pair->first)) + ": " +
                json_text(pair->second);
  return true;
}

CallReader::Result LiteralCall::push(char c) {
  if (!name_) return in_name(c);
  if (quote_ != 0) {
    const bool inside = dialect_ == bare ? (text_ += c, in_string(c)) : in_string(c);
    if (inside) {
      if (dialect_ == python) text_ += c;
      return more;
    }
  }
  const bool is_last = brackets_.size() == 1;
  if (is_last && (c == ',' || c == brackets_.back())) {
    if (!end_argument()) return broken;
    if (c == ',') return more;
    if (!first_) arguments_ += "}";
    return done;
  }
  text_ += c;
  if (dialect_ == python ? c == '"' || c == '\'' : std::string_view(text_).ends_with(kBareQuote)) {
    quote_ = c;
    escaped_ = closed_ = false;
    opened_ = text_.size();
  } else if (c == '{' || c == '[' || (c == '(' && dialect_ == python)) {
    if (brackets_.size() > size_t(kDeepest)) return broken;
    brackets_ += c == '{' ? '}' : c == '[' ? ']' : ')';
  } else if (c == brackets_.back()) {
    brackets_.pop_back();
  } else if (c == '}' || c == ']') {
    return broken;
  }
  return more;
}

}  // namespace toy::dialog
