#include "chat/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "chat/lexer.h"
#include "chat/py_text.h"
#include "toy/base/error.h"

namespace toy::chat {
namespace {

std::string_view name_of(const Value& undefined) { return std::get<Undefined>(undefined.data()).name(); }

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

// What the steps of ChatInput are: chat_template.h has the formula.
void measure(const nlohmann::ordered_json& json, int64_t& values, int64_t& bytes) {
  ++values;
  if (json.is_string()) bytes += int64_t(json.get_ref<const std::string&>().size());
  if (json.is_structured())
    for (const auto& one : json) measure(one, values, bytes);
}
int64_t steps_for(const ChatLimits& limits, const ChatInput& input) {
  int64_t values = 0, bytes = 0;
  for (const auto* json : {&input.messages, &input.tools, &input.documents, &input.variables})
    measure(*json, values, bytes);
  return limits.steps + limits.steps_per_value * values + bytes;
}

}  // namespace

Interpreter::Interpreter(const Program& program, const ChatLimits& limits, const ChatInput& input)
    : program_(program),
      limits_(limits),
      input_(input),
      budget_(steps_for(limits, input), limits.output),
      now_(input.now ? *input.now : std::time(nullptr)),
      scope_(std::make_shared<Scope>()),
      global_(scope_),
      root_(budget_),
      out_(&root_) {}

// Scopes hold the macros that hold them, and lists each other.
Interpreter::~Interpreter() {
  for (Namespace& space : namespaces_) space.table.clear();
  for (const ScopePtr& scope : captured_) scope->variables.clear();
  for (const auto& list : changed_) std::const_pointer_cast<List>(list)->items.clear();
}

RenderedChat Interpreter::run() {
  try {
    for (auto& [name, function] : global_functions()) set(name, std::move(function));
    for (const auto& [name, value] : input_.variables.items()) set(name, value_of(value, budget_));
    set("messages", value_of(input_.messages, budget_));
    set("tools", value_of(input_.tools, budget_));
    set("documents", value_of(input_.documents, budget_));
    set("add_generation_prompt", input_.add_generation_prompt);
    set("self", parts());
    execute(program_.block);
  } catch (const Problem& problem) {
    fail_at(program_.name, place_, problem.what());
  }
  return {root_.take(), std::move(generated_)};
}

Value Interpreter::new_namespace(Table<std::string> table) {
  budget_.spend(8 + 8 * table.size());
  namespaces_.push_back({std::move(table)});
  return &namespaces_.back();
}

List& Interpreter::to_change(const std::shared_ptr<const List>& list) {
  List& out = *std::const_pointer_cast<List>(list);
  if (!std::exchange(out.changed, true)) changed_.push_back(list);
  return out;
}

Value Interpreter::attribute(const Value& of, const std::string& name) {
  if (of.is_undefined()) throw Problem(fmt::format("'{}' is undefined, so it has no '{}'", name_of(of), name));
  if (of.loop()) {
    if (name == "cycle" || name == "changed")
      return loop_method(std::get<std::shared_ptr<const Loop>>(of.data()), name);
    return loop_attribute(*of.loop(), name);
  }
  if (const Namespace* space = of.space()) {
    const Value* value = space->table.find(name, budget_);
    return value ? *value : Undefined{name};
  }
  if (const Function* function = of.function()) {
    return function->attribute ? function->attribute(name) : Undefined{name};
  }
  if (const List* list = of.list(); list && list->kind == List::group && (name == "grouper" || name == "list"))
    return list->items[name == "list" ? 1 : 0];
  constexpr std::string_view kOfNumbers[] = {"real",       "imag",      "numerator", "denominator", "conjugate",
                                             "bit_length", "bit_count", "to_bytes",  "is_integer",  "as_integer_ratio"};
  if (of.is_number() && std::ranges::find(kOfNumbers, name) != std::end(kOfNumbers))
    throw Problem(fmt::format("'{}': attributes and methods of numbers are not supported", name));
  Value found = method(of, name);
  if (!found.is_undefined()) return found;
  if (of.dict())
    if (const Value* value = of.dict()->table.find(std::string_view(name), budget_)) return *value;
  return Undefined{name};
}

namespace {
bool is_key(const Value& v) {
  if (v.list() && v.list()->is_tuple()) return std::all_of(v.list()->items.begin(), v.list()->items.end(), is_key);
  return !v.list() && !v.dict();
}
}  // namespace

Value Interpreter::item(const Value& of, const Value& index) {
  if (of.is_undefined()) throw Problem(fmt::format("'{}' is undefined, so it has no items", name_of(of)));
  if (of.dict() && is_key(index))
    if (const Value* value = of.dict()->table.find(index, budget_)) return *value;
  if (index.text()) return attribute(of, *index.text());
  if (!index.integer() && !index.boolean()) return Undefined{"an item"};
  const int64_t i = index.as_integer("the index");
  const auto missing = [&] { return Undefined{fmt::format("item {}", i)}; };
  if (of.text()) {
    const std::string_view text = *of.text();
    if (i < -int64_t(text.size())) return missing();
    budget_.spend_reading(std::min<uint64_t>(text.size(), 4 * uint64_t(i < 0 ? -(i + 1) : i)));
    const size_t at = i < 0 ? last_characters(text, -i) : character_begin(text, i);
    if (at >= text.size() || (i < 0 && at == 0 && count_characters(text) < -i)) return missing();
    return std::string(text.substr(at, character_begin(text.substr(at, 8), 1)));
  }
  if (!of.list() || !of.list()->has_numbers()) return missing();
  const auto n = int64_t(of.list()->items.size());
  if (i < -n || i >= n) return missing();
  return of.list()->items[size_t(i < 0 ? i + n : i)];
}

}  // namespace toy::chat
