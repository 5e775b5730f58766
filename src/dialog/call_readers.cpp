#include "dialog/call_readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

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
  Literals(CallForm::Kind dialect, std::string_view text) : dialect_(dialect), text_(text) {}

  // KEY=VALUE, or KEY:VALUE
  std::optional<std::pair<std::string, ordered_json>> pair() {
    const std::optional<std::string> key = key_before(dialect_ == CallForm::python ? '=' : ':');
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
    if (take("{")) return list(ordered_json::object(), "}", depth);
    if (take("[")) return list(ordered_json::array(), "]", depth);
    if (dialect_ == CallForm::python && take("(")) return list(ordered_json::array(), ")", depth);
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

  // Of items, or of an object's members.
  std::optional<ordered_json> list(ordered_json all, std::string_view end, int depth) {
    while (!take(end)) {
      std::optional<std::string> key;
      if (all.is_object() && !(key = key_before(':'))) return std::nullopt;
      std::optional<ordered_json> v = value(depth + 1);
      if (!v) return std::nullopt;
      (key ? all[*key] : all.emplace_back()) = std::move(*v);
      if (!take(",") && !text_.substr(at_).starts_with(end)) return std::nullopt;
    }
    return all;
  }

  // nullopt: there is none here.
  std::optional<std::string> string() {
    if (dialect_ == CallForm::bare) {
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
    uint32_t c = 0;
    const std::string_view hex = text_.substr(std::min(at, text_.size()), digits);
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), c, 16);
    return hex.size() == digits && end == hex.data() + digits ? std::optional(c) : std::nullopt;
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

  CallForm::Kind dialect_;
  std::string_view text_;
  size_t at_ = 0;
};

// A value in tags: strings are written as they are, others as JSON; `is_string`: the tag says that it is one.
ordered_json value_in_tags(const Tool& tool, const std::string& key, const std::string& text, bool is_string) {
  if (is_string) return text;
  const ordered_json properties = tool.parameters.value("properties", ordered_json::object());
  const ordered_json property = properties.is_object() ? properties.value(key, ordered_json()) : ordered_json();
  const std::vector<std::string> types = all_types_of(tool.parameters, property);
  std::optional<ordered_json> j = json_of(text);
  if (!types.empty() && (text == "True" || text == "False")) j = text == "True";
  if (!types.empty() && text == "None") j = nullptr;
  const auto is = [&](const char* type) { return std::ranges::find(types, type) != types.end(); };
  if (j && !types.empty() && !is(type_of(*j)) && !(j->is_number() && (is("number") || is("integer")))) j.reset();
  return j ? *j : ordered_json(text);
}

constexpr size_t kMostTag = 1000;  // bytes

// A JSON value byte by byte.
class JsonText {
 public:
  const std::string& text() const { return text_; }
  bool is_object() const { return text_.starts_with('{'); }
  // Is this byte after a value that has no last byte of its own: a number, true, false, null?
  bool ends_word(char c) const {
    return !text_.empty() && !ends_itself() && (is_space(c) || c == ',' || c == '}' || c == ']');
  }
  // True: that was the last byte of a string, an object or an array.
  bool take(char c) {
    text_ += c;
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else {
      in_string_ = c == '"';
      depth_ += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    }
    return depth_ == 0 && !in_string_ && ends_itself();
  }

 private:
  bool ends_itself() const { return text_[0] == '"' || text_[0] == '{' || text_[0] == '['; }
  std::string text_;
  bool in_string_ = false, escaped_ = false;
  int depth_ = 0;
};

// A JSON object that has a name and arguments.
class CallObject : public CallReader {
 public:
  // The keys of both; without one for the name, the only key is the name, and its value the arguments.
  CallObject(std::string_view key, std::string_view name_key) : key_(key), name_key_(name_key) {}

  Result push(char c) override {
    if (place_ == in_key || place_ == in_value) {
      if (!json_.ends_word(c)) {
        const bool is_last = json_.take(c);
        if (place_ == in_value && present_ == key_ && json_.is_object()) arguments_ += c;
        return !is_last || end() ? more : broken;
      }
      if (!end()) return broken;
    }
    if (is_space(c)) return more;
    switch (place_) {
      case begin:
        place_ = before_key;
        return c == '{' ? more : broken;
      case before_key:
        if (c != '"' || (name_key_.empty() && name_)) return broken;
        return enter(in_key, c);
      case colon:
        place_ = before_value;
        return c == ':' ? more : broken;
      case before_value:
        if (c == ',' || c == '}' || c == ']' || c == ':') return broken;
        return enter(in_value, c);
      default:  // after_value
        if (c == '}') return name_ ? done : broken;
        place_ = before_key;
        return c == ',' ? more : broken;
    }
  }

 private:
  enum Place { begin, before_key, in_key, colon, before_value, in_value, after_value };

  Result enter(Place place, char c) {
    place_ = place;
    json_ = {};
    return push(c);
  }

  // Of a key or a value; false: it is none.
  bool end() {
    const bool is_key = place_ == in_key;
    place_ = is_key ? colon : after_value;
    const bool is_name = !is_key && !name_key_.empty() && present_ == name_key_;
    if (!is_key && !is_name && (present_ != key_ || json_.is_object())) return true;
    const auto value = json_of(json_.text());
    if (!value) return false;
    if (is_key) {
      present_ = value->get<std::string>();
      if (name_key_.empty()) name_ = key_ = present_;
    } else if (is_name) {
      if (!value->is_string() || name_) return false;
      name_ = value->get<std::string>();
    } else {  // some models write the object as a string
      arguments_ += value->is_string() ? value->get<std::string>() : json_.text();
    }
    return true;
  }

  std::string key_, name_key_, present_;  // of these, the one that was read
  Place place_ = begin;
  JsonText json_;
};

// A name, and behind it the arguments: an object, or pairs. Of a pair nothing is given before it is complete.
class NamedCall : public CallReader {
 public:
  explicit NamedCall(const CallForm& form) : form_(form), brackets_(form.after_arguments()) {}
  NamedCall(const CallForm& form, const std::string& name) : NamedCall(form) { name_ = name; }

  Result push(char c) override {
    if (!name_) return in_name(c);
    if (form_.kind == CallForm::parameters) return in_tags(c);
    return form_.kind == CallForm::python || form_.kind == CallForm::bare ? in_literals(c) : in_object(c);
  }

 private:
  // A name ends at the text after it, whose last blanks may be others; where there is none, at a blank or the next tag.
  Result in_name(char c) {
    text_ += c;
    const std::string_view rest = left_trimmed(text_), open = form_.before_name();
    std::string_view after = form_.after_name();
    if (!open.starts_with(rest) && !rest.starts_with(open)) return broken;
    if (form_.kind == CallForm::parameters) after = right_trimmed(after);
    std::string_view name = rest.substr(std::min(open.size(), rest.size()));
    const bool at_tag = after.empty() && name.ends_with('<');
    if (name.empty() || !(after.empty() ? at_tag || is_space(name.back()) : name.ends_with(after)))
      return text_.size() <= 4 * kMostNameBytes ? more : broken;
    name.remove_suffix(std::max<size_t>(after.size(), 1));
    if (form_.kind == CallForm::json) name = name.substr(0, name.find('['));  // of an id
    name_ = trimmed(name);
    text_ = at_tag ? "<" : "";
    return name_->empty() ? broken : more;
  }

  Result in_object(char c) {
    if (object_.text().empty() && c != '{') return is_space(c) ? more : broken;
    arguments_ += c;
    return object_.take(c) ? done : more;
  }

  // Up to the end of a tag with a key, of a value with the tag after it, or of the call.
  Result in_tags(char c) {
    text_ += c;
    const std::string_view after_key = form_.after_key(), to_value = after_key.substr(0, after_key.find("BOOL"));
    if (!key_.empty()) {
      const std::string_view after = form_.after_value(), end = trimmed(after);
      if (!text_.ends_with(end)) return more;
      std::string_view value = std::string_view(text_).substr(0, text_.size() - end.size());
      bool is_string = false;
      if (to_value.size() < after_key.size())
        for (const bool says : {true, false})
          if (const std::string type = (says ? "true" : "false") + std::string(after_key.substr(to_value.size() + 4));
              value.starts_with(type))
            is_string = says, value.remove_prefix(type.size());
      if (after_key.ends_with('\n') && value.starts_with('\n')) value.remove_prefix(1);
      if (after.starts_with('\n') && value.ends_with('\n')) value.remove_suffix(1);
      add(key_, value_in_tags(*tool_, key_, std::string(value), is_string));
      key_.clear(), text_.clear();
      return more;
    }
    const std::string_view rest = left_trimmed(text_), tag = form_.before_key(),
                           end = form_.after_arguments().empty() ? form_.unit.close : form_.after_arguments();
    if (rest == end) return end_arguments();
    if (!tag.starts_with(rest) && !rest.starts_with(tag)) return end.starts_with(rest) ? more : broken;
    if (rest.size() <= tag.size()) return more;
    const std::string_view key = rest.substr(tag.size()), after = trimmed(to_value);
    const size_t last = after.rfind('<'), first = after.find('>');
    if (!key.ends_with(after.substr(last == after.npos ? 0 : last))) return rest.size() < kMostTag ? more : broken;
    key_ = key.substr(0, key.find(after.substr(0, first == after.npos ? first : first + 1)));
    text_.clear();
    return key_.empty() ? broken : more;
  }

  void add(const std::string& key, const ordered_json& value) {
    arguments_ += fmt::format("{}{}: {}", first_ ? "{" : ", ", json_text(ordered_json(key)), json_text(value));
    first_ = false;
  }

  Result end_arguments() {
    if (!first_) arguments_ += "}";
    return done;
  }

  // Does the string go on with this byte?
  bool in_string(char c) {
    if (closed_ && follows_string(c)) {
      quote_ = 0;
      return false;
    }
    text_ += c;
    if (form_.kind == CallForm::bare) {
      if (std::string_view(text_).substr(opened_).ends_with(kBareQuote)) quote_ = 0;
    } else {
      closed_ = !escaped_ && c == quote_;
      escaped_ = !escaped_ && c == '\\';
    }
    return true;
  }

  // KEY=VALUE, ... up to a bracket.
  Result in_literals(char c) {
    const bool is_python = form_.kind == CallForm::python;
    if (quote_ != 0 && in_string(c)) return more;
    if (brackets_.size() == 1 && (c == ',' || c == brackets_.back())) {
      if (const std::string text = std::exchange(text_, ""); !trimmed(text).empty()) {
        const auto pair = Literals(form_.kind, text).pair();
        if (!pair) return broken;
        add(pair->first, pair->second);
      }
      return c == ',' ? more : end_arguments();
    }
    text_ += c;
    if (is_python ? c == '"' || c == '\'' : std::string_view(text_).ends_with(kBareQuote)) {
      quote_ = c;
      escaped_ = closed_ = false;
      opened_ = text_.size();
    } else if (c == '{' || c == '[' || (c == '(' && is_python)) {
      if (brackets_.size() > size_t(kDeepest)) return broken;
      brackets_ += c == '{' ? '}' : c == '[' ? ']' : ')';
    } else if (c == brackets_.back()) {
      brackets_.pop_back();
    } else if (c == '}' || c == ']') {
      return broken;
    }
    return more;
  }

  const CallForm& form_;
  std::string brackets_;  // of literals: that are open, and what closes them
  JsonText object_;       // the arguments
  std::string text_;      // of the name or a pair, as far as it has come
  std::string key_;       // in tags: whose value comes
  char quote_ = 0;        // inside a string that this encloses
  bool escaped_ = false, closed_ = false;
  size_t opened_ = 0;  // where the string begins in text_
  bool first_ = true;
};

}  // namespace

std::unique_ptr<CallReader> call_reader(const CallForm& form, char first) {
  if (form.is_object()) return std::make_unique<CallObject>(form.arguments_key(), form.name_key());
  // LFM2 writes JSON, too, where its system message asks for it.
  if (form.kind == CallForm::python && first == '{') return std::make_unique<CallObject>("arguments", "name");
  return std::make_unique<NamedCall>(form);
}

std::unique_ptr<CallReader> arguments_reader(const CallForm& form, const std::string& name) {
  return std::make_unique<NamedCall>(form, name);
}

}  // namespace toy::dialog
