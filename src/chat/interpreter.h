// Runs a template.
#pragma once

#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat/ast.h"
#include "chat/value.h"
#include "toy/chat/chat_input.h"
#include "toy/chat/chat_template.h"

namespace toy::chat {

/// The variables of a scope. What is not there is looked up in the one around it.
struct Scope {
  std::shared_ptr<Scope> around;
  Table<std::string> variables;
};

/// The `loop` of a for.
struct Loop {
  std::vector<Value> items;
  size_t index = 0;
  int64_t level = 1;
  // To call it, in a recursive one: what goes through it, as long as it runs.
  const Statement* statement = nullptr;
  std::weak_ptr<Scope> scope;
  mutable std::optional<Value> changed;
};

class Interpreter {
 public:
  Interpreter(const Program& program, const ChatLimits& limits, const ChatInput& input);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter();

  /// Throws Error{bad_input} naming the place.
  RenderedChat run();

  Budget& budget() { return budget_; }
  std::time_t now() const { return now_; }
  Value new_namespace(Table<std::string> table);
  /// The items of a list, to be changed. What it may hold afterwards: depth_around().
  List& to_change(const std::shared_ptr<const List>& list);
  /// a.name and a[index], as Jinja looks them up.
  Value attribute(const Value& of, const std::string& name);
  Value item(const Value& of, const Value& index);

 private:
  using ScopePtr = std::shared_ptr<Scope>;
  /// What a statement does to the loop around it.
  enum class Jump { none, next, leave };
  class Deeper;
  class Inside;
  class Capture;

  // Statements: execute.cpp.
  Jump execute(const Block& block);
  Jump execute(const Statement& s);
  Jump choose(const Statement& s);
  Jump loop(const Statement& s, const Value& over, int64_t level);
  void print(const Value& v);
  void assign(const Expression& target, const Value& value);
  std::string captured(const Block& block);
  void set_block(const Statement& s);
  void call_block(const Statement& s);
  void with(const Statement& s);
  void generation(const Statement& s);
  void part(const Statement& s);
  /// `self`: has the blocks of the template by name, to be called.
  Value parts();
  Value macro_of(const Statement& s, std::string name);
  Value call_macro(const Statement& s, const ScopePtr& scope, Arguments& arguments);

  // Expressions: evaluate.cpp.
  Value evaluate(const Expression& e);
  Value lookup(const std::string& name);
  void set(const std::string& name, Value value) { scope_->variables.set(name, std::move(value), budget_); }
  Value unary(const Expression& e);
  Value binary(const Expression& e);
  Value compare(const Expression& e);
  Value slice(const Expression& e);
  Value dict(const Expression& e);
  Value call(const Expression& e, const Value* caller = nullptr);
  Value call_loop(const Loop& loop, Arguments& arguments);
  Value filter(const Expression& e, const Value* input = nullptr);
  Value test(const Expression& e);
  Arguments arguments(const Expression& e);

  const Program& program_;
  const ChatLimits& limits_;
  const ChatInput& input_;
  Budget budget_;
  std::time_t now_;
  SourcePlace place_;  // for messages
  int64_t depth_ = 0;
  ScopePtr scope_, global_;
  TextBuilder root_;
  TextBuilder* out_;
  std::deque<Namespace> namespaces_;
  std::vector<ScopePtr> captured_;                    // by macros, which they hold
  std::vector<std::shared_ptr<const List>> changed_;  // they may hold each other
  std::vector<TextSpan> generated_;
};

/// @{
/// What templates know by name; nullptr: not this one.
using Filter = Value (*)(Interpreter&, const Value& input, Arguments& arguments);
using Test = bool (*)(Interpreter&, const Value& input, Arguments& arguments);
using FilterTable = std::unordered_map<std::string_view, Filter>;
Filter find_filter(std::string_view name);
const FilterTable& list_filters();
const FilterTable& text_filters();
Test find_test(std::string_view name);
std::vector<std::pair<std::string, Value>> global_functions();
/// @}
/// The method of a text, list or dict; undefined where it has none of this name.
Value method(const Value& of, const std::string& name);
/// @{
/// Where method() finds them: text_methods.cpp, list_methods.cpp.
Value text_method(const Value::Text& text, const std::string& name);
Value list_method(const std::shared_ptr<const List>& list, const std::string& name);
Value dict_method(const std::shared_ptr<const Dict>& dict, const std::string& name);
/// @}
/// What can be called, by this name.
Value callable(const std::string& name, std::function<Value(Interpreter&, Arguments&)> call);
/// a op b for + - * / // % **.
Value arithmetic(std::string_view op, const Value& a, const Value& b, Budget& budget);

/// Arguments by the names of parameters, in the order of these; undefined where there is none. Throws Problem for
/// others, and where one of the first `required` is missing.
std::vector<Value> bind(std::string_view function, Arguments& arguments, std::initializer_list<std::string_view> names,
                        size_t required = 0);

}  // namespace toy::chat
