#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "chat/nesting.h"

namespace toy::chat {

Interpreter::Jump Interpreter::execute(const Block& block) {
  for (const Statement& s : block)
    if (const Jump jump = execute(s); jump != Jump::none) return jump;
  return Jump::none;
}

Interpreter::Jump Interpreter::execute(const Statement& s) {
  const Deeper deeper(*this);
  budget_.spend(1);
  place_ = s.place;
  switch (s.kind) {
    case Statement::text:
      *out_ += s.text_;
      break;
    case Statement::print:
      print(evaluate(*s.expression));
      break;
    case Statement::choose:
      return choose(s);
    case Statement::loop:
      return loop(s, evaluate(*s.expression), 1);
    case Statement::set:
      assign(*s.target, evaluate(*s.expression));
      break;
    case Statement::set_block:
      set_block(s);
      break;
    case Statement::macro:
      set(s.text_, macro_of(s, s.text_));
      break;
    case Statement::call:
      call_block(s);
      break;
    case Statement::filter: {
      const Value text = captured(s.blocks[0]);
      print(filter(*s.expression, &text));
      break;
    }
    case Statement::with:
      with(s);
      break;
    case Statement::generation:
      generation(s);
      break;
    case Statement::part:
      part(s);
      break;
    case Statement::jump_break:
      return Jump::leave;
    case Statement::jump_continue:
      return Jump::next;
  }
  return Jump::none;
}

void Interpreter::print(const Value& v) { append_str(v, *out_); }

Interpreter::Jump Interpreter::choose(const Statement& s) {
  for (size_t i = 0; i < s.conditions.size(); ++i)
    if (is_true(evaluate(*s.conditions[i]))) return execute(s.blocks[i]);
  return execute(s.otherwise);
}

Interpreter::Jump Interpreter::loop(const Statement& s, const Value& over, int64_t level) {
  auto loop = std::make_shared<Loop>();
  loop->items = items_of(over, budget_);
  loop->level = level;
  if (s.recursive) loop->statement = &s, loop->scope = scope_;
  if (s.condition)
    std::erase_if(loop->items, [&](const Value& v) {
      const Inside inside(*this, scope_);
      assign(*s.target, v);
      return !is_true(evaluate(*s.condition));
    });
  for (; loop->index < loop->items.size(); ++loop->index) {
    budget_.spend(2);
    const Inside inside(*this, scope_);
    set("loop", std::shared_ptr<const Loop>(loop));
    assign(*s.target, loop->items[loop->index]);
    if (execute(s.blocks[0]) == Jump::leave) break;
  }
  if (!loop->items.empty()) return Jump::none;
  const Inside inside(*this, scope_);
  return execute(s.otherwise);
}

void Interpreter::assign(const Expression& target, const Value& value) {
  place_ = target.place;
  if (target.kind == Expression::name) {
    budget_.spend(4);
    return set(target.text, value);
  }
  if (target.kind == Expression::attribute) {
    Namespace* space = lookup(target.kids[0]->text).space();
    if (!space) throw Problem(fmt::format("'{}' is no namespace, so its parts cannot be set", target.kids[0]->text));
    if (target.text.starts_with("_"))
      throw Problem(fmt::format("'{}': names in a namespace begin with no _", target.text));
    space->table.set(target.text, value, budget_);
    budget_.spend(4);
    return;
  }
  const std::vector<Value> parts = items_of(value, budget_);
  if (parts.size() != target.kids.size())
    throw Problem(fmt::format("{} values for {} names", parts.size(), target.kids.size()));
  for (size_t i = 0; i < parts.size(); ++i) assign(*target.kids[i], parts[i]);
}

std::string Interpreter::captured(const Block& block) {
  const Inside inside(*this, scope_);
  Capture capture(*this);
  execute(block);
  return capture.take();
}

void Interpreter::set_block(const Statement& s) {
  Value value = captured(s.blocks[0]);
  if (s.expression) value = filter(*s.expression, &value);
  assign(*s.target, value);
}

void Interpreter::with(const Statement& s) {
  std::vector<Value> values;
  for (size_t i = 1; i < s.conditions.size(); i += 2) values.push_back(evaluate(*s.conditions[i]));
  const Inside inside(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) assign(*s.conditions[2 * i], values[i]);
  execute(s.blocks[0]);
}

// Marks count in the text itself; in what is captured nobody knows where it goes.
void Interpreter::generation(const Statement& s) {
  const size_t begin = root_.text().size();
  const Inside inside(*this, scope_);
  execute(s.blocks[0]);
  if (out_ == &root_) generated_.push_back({begin, root_.text().size()});
}

// A block that no other template replaces. Without `scoped` it sees what stands around all blocks only.
void Interpreter::part(const Statement& s) {
  const Inside inside(*this, s.recursive ? scope_ : global_);
  execute(s.blocks[0]);
}

void Interpreter::call_block(const Statement& s) {
  const Value caller = macro_of(s, "caller");
  print(call(*s.expression, &caller));
}

Value Interpreter::parts() {
  Function out{.name = "self", .call = nullptr};
  out.attribute = [this](const std::string& name) -> Value {
    const auto found = program_.parts.find(name);
    if (found == program_.parts.end()) return Undefined{"self." + name};
    return callable(name, [&s = *found->second](Interpreter& self, Arguments& a) -> Value {
      bind("a block", a, {});
      const Inside inside(self, self.global_);
      Capture capture(self);
      self.execute(s.blocks[0]);
      return capture.take();
    });
  };
  out.shown = "<TemplateReference None>";
  return std::make_shared<const Function>(std::move(out));
}

Value Interpreter::macro_of(const Statement& s, std::string name) {
  captured_.push_back(scope_);
  budget_.spend(8);
  const bool named = s.kind == Statement::macro;
  auto function = std::make_shared<Function>();
  function->name = std::move(name);
  function->call = [&s, scope = scope_](Interpreter& self, Arguments& a) { return self.call_macro(s, scope, a); };
  function->shown = named ? fmt::format("<Macro '{}'>", s.text_) : "<Macro anonymous>";
  function->attribute = [this, &s, named](const std::string& which) -> Value {
    const auto is_caller = [](const Parameter& p) { return p.name == "caller"; };
    if (which == "name") return named ? Value(s.text_) : Value(None{});
    if (which == "catch_varargs") return s.extras.varargs;
    if (which == "catch_kwargs") return s.extras.kwargs;
    if (which == "caller") return s.extras.caller;
    if (which == "explicit_caller") return std::ranges::any_of(s.parameters, is_caller);
    if (which != "arguments") return Undefined{"macro." + which};
    std::vector<Value> names;
    for (const Parameter& p : s.parameters) names.push_back(p.name);
    return make_list(std::move(names), budget_, List::tuple);
  };
  return std::shared_ptr<const Function>(std::move(function));
}

Value Interpreter::call_macro(const Statement& s, const ScopePtr& scope, Arguments& arguments) {
  const Inside inside(*this, scope);
  const std::string name = s.kind == Statement::macro ? s.text_ : "caller";
  std::vector<Value>& positional = arguments.positional;
  Table<std::string, size_t> places;  // of arguments with names
  std::vector<bool> taken(arguments.named.size(), false);
  const auto two_values = [&](const std::string& p) {
    throw Problem(fmt::format("{}() has two values for '{}'", name, p));
  };
  for (size_t i = 0; i < taken.size(); ++i) {
    if (places.find(arguments.named[i].first, budget_)) two_values(arguments.named[i].first);
    places.set(arguments.named[i].first, i, budget_);
  }
  if (s.extras.caller) set("caller", Undefined{"caller"});
  for (size_t i = 0; i < s.parameters.size(); ++i) {
    const Parameter& p = s.parameters[i];
    const size_t* given = places.find(p.name, budget_);
    if (given && i < positional.size()) two_values(p.name);
    if (given) taken[*given] = true;
    if (i < positional.size())
      set(p.name, positional[i]);
    else
      set(p.name, given         ? arguments.named[*given].second
                  : p.otherwise ? evaluate(*p.otherwise)
                                : Value(Undefined{p.name}));
  }
  Table<Value> rest;
  for (size_t i = 0; i < taken.size(); ++i) {
    auto& [key, value] = arguments.named[i];
    if (taken[i]) continue;
    if (key == "caller" && s.extras.caller)
      set(key, std::move(value));
    else if (s.extras.kwargs)
      rest.set(key, std::move(value), budget_);
    else
      throw Problem(key == "caller" ? fmt::format("{}() does not use caller(), so it takes no block", name)
                                    : fmt::format("{}() has no argument '{}'", name, key));
  }
  if (s.extras.kwargs) set("kwargs", make_dict(std::move(rest), budget_));
  const size_t known = std::min(positional.size(), s.parameters.size());
  if (known < positional.size() && !s.extras.varargs)
    throw Problem(fmt::format("{}() takes {} arguments at most, not {}", name, known, positional.size()));
  positional.erase(positional.begin(), positional.begin() + int64_t(known));
  if (s.extras.varargs) set("varargs", make_list(std::move(positional), budget_, List::tuple));
  Capture capture(*this);
  execute(s.blocks[0]);
  return capture.take();
}

}  // namespace toy::chat
