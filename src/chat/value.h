// What templates compute with: Python's values, as far as they need them. All but namespaces and lists are immutable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "chat/budget.h"
#include "chat/table.h"

namespace toy::chat {

struct Undefined {
  Undefined() = default;
  explicit Undefined(std::string missing) : name_(std::make_shared<const std::string>(std::move(missing))) {}
  /// Of what is not there, for messages.
  std::string_view name() const { return name_ ? std::string_view(*name_) : std::string_view(); }

 private:
  std::shared_ptr<const std::string> name_;  // small, as there are many values
};
struct None {};
struct List;
struct Dict;
struct Function;
struct Namespace;
struct Loop;

/// A value. Copies share what they hold.
class Value {
 public:
  using Text = std::shared_ptr<const std::string>;
  using Data = std::variant<Undefined, None, bool, int64_t, double, Text, std::shared_ptr<const List>,
                            std::shared_ptr<const Dict>, std::shared_ptr<const Function>, Namespace*,
                            std::shared_ptr<const Loop>>;
  Value() = default;                                                                  // undefined
  Value(Undefined v) : data_(std::move(v)) {}                                         // NOLINT: all of them are values
  Value(None v) : data_(v) {}                                                         // NOLINT
  Value(bool v) : data_(v) {}                                                         // NOLINT
  Value(int64_t v) : data_(v) {}                                                      // NOLINT
  Value(double v) : data_(v) {}                                                       // NOLINT
  Value(std::string v) : data_(std::make_shared<const std::string>(std::move(v))) {}  // NOLINT
  Value(Text v) : data_(std::move(v)) {}                                              // NOLINT
  Value(std::shared_ptr<const List> v) : data_(std::move(v)) {}                       // NOLINT
  Value(std::shared_ptr<const Dict> v) : data_(std::move(v)) {}                       // NOLINT
  Value(std::shared_ptr<const Function> v) : data_(std::move(v)) {}                   // NOLINT
  Value(Namespace* v) : data_(v) {}                                                   // NOLINT
  Value(std::shared_ptr<const Loop> v) : data_(std::move(v)) {}                       // NOLINT
  Value(const char*) = delete;

  /// @{
  /// What it is, and what it holds; nullptr for another kind.
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const std::string* text() const { return held<Text>(); }
  const List* list() const { return held<std::shared_ptr<const List>>(); }
  const Dict* dict() const { return held<std::shared_ptr<const Dict>>(); }
  const Function* function() const { return held<std::shared_ptr<const Function>>(); }
  const Loop* loop() const { return held<std::shared_ptr<const Loop>>(); }
  Namespace* space() const {
    const auto* p = std::get_if<Namespace*>(&data_);
    return p ? *p : nullptr;
  }
  /// @}
  const Data& data() const { return data_; }
  /// true, 1 and 1.5 are numbers, as in Python.
  bool is_number() const { return boolean() || integer() || real(); }
  /// Of a number.
  double as_real() const;
  /// Of true, false and integers; throws Problem for others.
  int64_t as_integer(std::string_view what) const;
  /// Throws Problem for what is no text.
  const std::string& as_text(std::string_view what) const;
  /// "a string", "undefined", ...
  std::string_view kind() const;

 private:
  template <class Pointer>
  auto held() const -> const typename Pointer::element_type* {
    const auto* p = std::get_if<Pointer>(&data_);
    return p ? p->get() : nullptr;
  }
  Data data_;
};

/// A list, a tuple, or what can only be gone through.
struct List {
  enum Kind {
    list,
    tuple,
    group,      ///< of groupby: a tuple whose parts are also `grouper` and `list`
    generator,  ///< what a filter such as map yields: once, and true even where it is empty
    dict_keys,
    dict_values,
    dict_items,
  } kind = list;
  std::vector<Value> items;
  int depth = 1;             ///< of lists and dicts in each other, when it was made
  bool changed = false;      ///< the interpreter knows of it
  mutable size_t taken = 0;  ///< generator: how many are gone

  bool is_tuple() const { return kind == tuple || kind == group; }
  /// Can its items be had by numbers?
  bool has_numbers() const { return kind <= group; }
};
/// In order of insertion.
struct Dict {
  Table<Value> table;
  int depth = 1;
  const std::vector<std::pair<Value, Value>>& items() const { return table.items(); }
};
/// Throws Problem where values lie too deep in each other.
Value make_list(std::vector<Value> items, Budget& budget, List::Kind kind = List::list);
Value make_tuple(Value first, Value second, Budget& budget, List::Kind kind = List::tuple);
Value make_dict(Table<Value> table, Budget& budget);
/// Throws Problem where a list or dict is too deep in others.
int depth_around(const Value& inner);

/// What namespace() makes. The interpreter owns it.
struct Namespace {
  Table<std::string> table;
};

class Interpreter;
/// Arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};
/// What can be called: a macro, a method of a value, a global function.
struct Function {
  std::string name;
  std::function<Value(Interpreter&, Arguments&)> call;  ///< missing: it cannot
  std::function<Value(const std::string& name)> attribute = {};
  std::string shown = {};  ///< str() of it; "": that of a function
};

/// @{
/// Python's bool(), str(), repr(), ==, <, in and json.dumps().
bool is_true(const Value& v);
void append_str(const Value& v, TextBuilder& out);
void append_repr(const Value& v, TextBuilder& out);
bool equals(const Value& a, const Value& b, Budget& budget);
bool is_less(const Value& a, const Value& b, Budget& budget);
bool contains(const Value& all, const Value& one, Budget& budget);
struct JsonStyle {
  bool ascii = false, sort_keys = false, lines = false;
  std::string indent, item_separator = ", ", key_separator = ": ";
};
void append_json(const Value& v, const JsonStyle& style, TextBuilder& out, int depth = 0);
/// @}
/// str(), which copies nothing that is a text.
Value::Text str(const Value& v, Budget& budget);
/// The items of a list, keys of a dict, characters of a text; none of what is undefined. Throws Problem for others.
std::vector<Value> items_of(const Value& v, Budget& budget);
/// Throws Problem for what has no length.
int64_t length_of(const Value& v, Budget& budget);
Value value_of(const nlohmann::ordered_json& json, Budget& budget);

}  // namespace toy::chat
