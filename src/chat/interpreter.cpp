#include "chat/interpreter.h"

#include <fmt/format.h>

#include <cmath>

#include "chat/lexer.h"
#include "chat/py_text.h"
#include "toy/base/error.h"

namespace toy::chat {
namespace {

std::string name_of(const Value& undefined) { return std::get<Undefined>(undefined.data()).name; }

Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto index = int64_t(loop.index), n = int64_t(loop.items.size());
  const auto at = [&](int64_t i) { return i >= 0 && i < n ? loop.items[size_t(i)] : Value(Undefined{"loop." + name}); };
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return n - index;
  if (name == "revindex0") return n - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index == n - 1;
  if (name == "length") return n;
  if (name == "depth") return loop.level;
  if (name == "depth0") return loop.level - 1;
  if (name == "previtem") return at(index - 1);
  if (name == "nextitem") return at(index + 1);
  return Undefined{"loop." + name};
}

// loop.cycle(...) and loop.changed(...)
Value loop_method(const std::shared_ptr<const Loop>& loop, const std::string& name) {
  auto function = std::make_shared<Function>();
  function->name = name;
  if (name == "cycle")
    function->call = [loop](Interpreter&, Arguments& a) {
      if (a.positional.empty()) throw Problem("loop.cycle() has nothing to take from");
      return a.positional[loop->index % a.positional.size()];
    };
  else
    function->call = [loop](Interpreter& in, Arguments& a) -> Value {
      Value now = make_list(std::move(a.positional), in.budget(), List::tuple);
      const bool same = loop->changed && equals(*loop->changed, now, in.budget());
      loop->changed = std::move(now);
      return !same;
    };
  return std::shared_ptr<const Function>(std::move(function));
}

}  // namespace

void Scope::set(std::string_view name, Value value) {
  for (auto& [key, old] : variables)
    if (key == name) return void(old = std::move(value));
  variables.emplace_back(name, std::move(value));
}

Interpreter::Interpreter(const Program& program, const ChatLimits& limits, std::optional<std::time_t> now)
    : program_(program),
      limits_(limits),
      budget_(limits.steps, limits.output),
      now_(now ? *now : std::time(nullptr)),
      scope_(std::make_shared<Scope>()),
      root_(budget_),
      out_(&root_) {}

// Scopes hold the macros that hold them.
Interpreter::~Interpreter() {
  for (Namespace& space : namespaces_) space.items.clear();
  for (const ScopePtr& scope : captured_) scope->variables.clear();
}

RenderedChat Interpreter::run(const ChatInput& input) {
  try {
    scope_->variables = global_functions();
    for (const auto& [name, value] : input.variables.items()) scope_->set(name, value_of(value, budget_));
    scope_->set("messages", value_of(input.messages, budget_));
    scope_->set("tools", value_of(input.tools, budget_));
    scope_->set("documents", value_of(input.documents, budget_));
    scope_->set("add_generation_prompt", input.add_generation_prompt);
    execute(program_.block);
  } catch (const Problem& problem) {
    fail_at(program_.name, place_, problem.what());
  }
  return {root_.take(), std::move(generated_)};
}

Value Interpreter::new_namespace(std::vector<std::pair<std::string, Value>> items) {
  budget_.spend(8 + 4 * items.size());
  namespaces_.push_back({std::move(items)});
  return &namespaces_.back();
}

Value Interpreter::attribute(const Value& of, const std::string& name) {
  if (of.is_undefined()) throw Problem(fmt::format("'{}' is undefined, so it has no '{}'", name_of(of), name));
  if (of.loop()) {
    if (name == "cycle" || name == "changed")
      return loop_method(std::get<std::shared_ptr<const Loop>>(of.data()), name);
    return loop_attribute(*of.loop(), name);
  }
  if (const Namespace* space = of.space()) {
    for (const auto& [key, value] : space->items)
      if (key == name) return value;
    return Undefined{name};
  }
  if (const Function* function = of.function(); function && name == "name") return function->name;
  Value found = method(*this, of, name);
  if (!found.is_undefined()) return found;
  if (of.dict())
    if (const Value* value = of.dict()->find(name)) return *value;
  return Undefined{name};
}

Value Interpreter::item(const Value& of, const Value& index) {
  if (of.is_undefined()) throw Problem(fmt::format("'{}' is undefined, so it has no items", name_of(of)));
  if (of.dict() && index.text()) {
    budget_.spend(of.dict()->items.size() / 8);
    if (const Value* value = of.dict()->find(*index.text())) return *value;
  }
  if (index.text()) return attribute(of, *index.text());
  if (!index.integer() && !index.boolean()) return Undefined{"an item"};
  const int64_t i = index.as_integer("the index");
  const std::string what = fmt::format("item {}", i);
  if (of.text()) {
    budget_.spend(of.text()->size() / 16);
    const std::vector<std::string_view> all = characters(*of.text());
    const auto n = int64_t(all.size());
    if (i < -n || i >= n) return Undefined{what};
    return std::string(all[size_t(i < 0 ? i + n : i)]);
  }
  if (!of.list()) return Undefined{what};
  const auto n = int64_t(of.list()->items.size());
  if (i < -n || i >= n || of.list()->kind == List::generator) return Undefined{what};
  return of.list()->items[size_t(i < 0 ? i + n : i)];
}

}  // namespace toy::chat
