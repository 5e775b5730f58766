// Follow one call byte by byte, in the forms where a call ends by itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace toy::dialog {

/// One call of a function.
class CallReader {
 public:
  virtual ~CallReader() = default;
  enum Result { more, done, broken };
  virtual Result push(char c) = 0;
  /// Once it is known.
  const std::optional<std::string>& name() const { return name_; }
  /// What has come of the arguments since the last call of this, as JSON; nothing before the name is known.
  std::string take_arguments();

 protected:
  std::optional<std::string> name_;
  std::string arguments_;
};

/// A JSON object that has a name and arguments.
class CallObject : public CallReader {
 public:
  /// The keys of both; without one for the name, the only key is the name, and its value the arguments.
  explicit CallObject(std::string_view key, std::string_view name_key = "name") : key_(key), name_key_(name_key) {}
  Result push(char c) override;
  /// Is a value being read, or was the last byte that of a value?
  bool in_value() const { return place_ == inside_value; }
  bool has_value() const { return place_ == after_value; }

 private:
  enum Place { begin, before_key, in_key, colon, before_value, inside_value, after_value };
  bool ends_word(char c) const;
  void take(char c);
  bool is_complete() const;
  bool end_value();

  std::string key_, name_key_, present_, value_;
  Place place_ = begin;
  bool first_ = true, in_string_ = false, escaped_ = false;
  int depth_ = 0;
};

/// A name and arguments as literals: name(key="value", other=[True, None]) in Python, or
/// call:name{key:<|"|>value<|"|>,other:[true,null]}. An argument is complete before any of it is given.
class LiteralCall : public CallReader {
 public:
  enum Dialect { python, bare };
  explicit LiteralCall(Dialect dialect) : dialect_(dialect) {}
  Result push(char c) override;

 private:
  bool in_string(char c);
  Result in_name(char c);
  bool end_argument();

  Dialect dialect_;
  std::string text_;  // of the name, or of an argument
  char quote_ = 0;    // inside a string that this encloses
  bool escaped_ = false, closed_ = false;
  size_t opened_ = 0;     // where the string begins in text_
  std::string brackets_;  // that are open, and what closes them
  bool first_ = true;
};

}  // namespace toy::dialog
