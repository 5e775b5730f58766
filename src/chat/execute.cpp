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

Value Interpreter::macro_of(const Statement& s, std::string name) {
  captured_.push_back(scope_);
  budget_.spend(8);
  auto function = std::make_shared<Function>();
  function->name = std::move(name);
  function->call = [&s, scope = scope_](Interpreter& self, Arguments& a) { return self.call_macro(s, scope, a); };
  return std::shared_ptr<const Function>(std::move(function));
}

Value Interpreter::call_macro(const Statement& s, const ScopePtr& scope, Arguments& arguments) {
  const Inside inside(*this, scope);
  const std::string name = s.kind == Statement::macro ? s.text_ : "caller";
  Table<std::string> named;
  for (auto& [key, value] : arguments.named) named.set(key, std::move(value), budget_);
  size_t used = 0;
  for (size_t i = 0; i < s.parameters.size(); ++i) {
    const Parameter& p = s.parameters[i];
    const Value* given = named.find(p.name, budget_);
    if (given) ++used;
    if (i < arguments.positional.size()) {
      if (given) throw Problem(fmt::format("{}() has two values for '{}'", name, p.name));
      set(p.name, arguments.positional[i]);
    } else {
      set(p.name, given ? *given : p.otherwise ? evaluate(*p.otherwise) : Value(Undefined{p.name}));
    }
  }
  Table<Value> rest;
  if (used < named.size())
    for (const auto& [key, value] : named.items()) {
      if (key == "caller")
        set(key, value);
      else if (!scope_->variables.find(key, budget_))
        rest.set(key, value, budget_);
    }
  const size_t taken = std::min(arguments.positional.size(), s.parameters.size());
  std::vector<Value> more(arguments.positional.begin() + int64_t(taken), arguments.positional.end());
  set("varargs", make_list(std::move(more), budget_, List::tuple));
  set("kwargs", make_dict(std::move(rest), budget_));
  Capture capture(*this);
  execute(s.blocks[0]);
  return capture.take();
}

}  // namespace toy::chat
