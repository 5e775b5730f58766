// What the model writes, as text and calls.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/call_forms.h"
#include "serve/reply_format.h"

namespace toy::serve {

/// Follows one JSON object that has a name and arguments, byte by byte.
class CallObject {
 public:
  /// `key` is that of the arguments.
  explicit CallObject(std::string_view key) : key_(key) {}
  enum Result { more, done, broken };
  Result push(char c);
  /// Once it is known.
  const std::optional<std::string>& name() const { return name_; }
  /// What has come of the arguments since the last call of this; nothing before the name is known.
  std::string take_arguments();
  /// Is a value being read, or was the last byte that of a value?
  bool in_value() const { return place_ == inside_value; }
  bool has_value() const { return place_ == after_value; }

 private:
  enum Place { begin, before_key, in_key, colon, before_value, inside_value, after_value };
  bool ends_word(char c) const;
  void take(char c);
  bool is_complete() const;
  bool end_value();

  std::string key_, present_, value_;
  Place place_ = begin;
  std::optional<std::string> name_;
  std::string arguments_;
  bool first_ = true, in_string_ = false, escaped_ = false;
  int depth_ = 0;
};

/// Splits a text into what is for the reader and calls, in one form. The result does not depend on how the text is cut.
/// What looks like a call and is none, or calls an unknown function, stays text. Spaces around calls are dropped.
class CallParser {
 public:
  /// `tools` are the functions that may be called. `salt` makes the ids of calls differ from those of other texts.
  CallParser(const CallForm& form, std::shared_ptr<const std::vector<Tool>> tools, std::string salt);
  /// What these bytes add.
  Piece push(std::string_view bytes);
  /// The remainder at the end of the text. A call that was cut off keeps the arguments that came.
  Piece finish();

 private:
  enum State { text, before_call, in_object, in_named, in_tags, after_call, before_close };
  void push(char c);
  void in_text(char c);
  void at_beginning();
  void open_unit();
  void in_call_object(char c);
  void in_named_call(char c);
  void in_close(char c);
  void give_back(char last);
  bool announce(const std::string& name);
  void argue(std::string arguments);
  void end_call();
  bool tags();
  void end_parameter(const std::string& name, const std::string& value);

  const CallForm& form_;
  std::shared_ptr<const std::vector<Tool>> tools_;
  std::string salt_;
  State state_ = text;
  std::string held_;  // text that may begin a call, or spaces in front of one; of tags: what is not complete
  std::string raw_;   // of a call that is not announced: all of it
  std::optional<CallObject> object_;
  const Tool* tool_ = nullptr;  // that is being called
  bool first_ = true;           // nothing but spaces has come
  bool parameters_ = false;     // the present call has some
  std::string parameter_;       // whose value comes
  size_t calls_ = 0;
  Piece out_;
};

}  // namespace toy::serve
