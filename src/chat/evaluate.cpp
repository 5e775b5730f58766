#include <fmt/format.h>

#include <algorithm>

#include "chat/nesting.h"
#include "chat/py_text.h"

namespace toy::chat {

Value Interpreter::lookup(const std::string& name) {
  int around = 0;
  for (const Scope* scope = scope_.get(); scope; scope = scope->around.get(), ++around)
    if (const Value* value = scope->variables.find(name, budget_)) return *value;
  budget_.spend(uint64_t(around));
  return Undefined{name};
}

Value Interpreter::evaluate(const Expression& e) {
  const Deeper deeper(*this);
  budget_.spend(1);
  place_ = e.place;
  switch (e.kind) {
    case Expression::constant:
      return e.value;
    case Expression::name:
      return lookup(e.text);
    case Expression::list:
    case Expression::tuple: {
      std::vector<Value> items;
      for (const ExpressionPtr& kid : e.kids) items.push_back(evaluate(*kid));
      return make_list(std::move(items), budget_, e.kind == Expression::tuple ? List::tuple : List::list);
    }
    case Expression::dict:
      return dict(e);
    case Expression::attribute: {
      const Value of = evaluate(*e.kids[0]);
      place_ = e.place;
      return attribute(of, e.text);
    }
    case Expression::item: {
      const Value of = evaluate(*e.kids[0]), index = evaluate(*e.kids[1]);
      place_ = e.place;
      return item(of, index);
    }
    case Expression::slice:
      return slice(e);
    case Expression::unary:
      return unary(e);
    case Expression::binary:
      return binary(e);
    case Expression::compare:
      return compare(e);
    case Expression::conditional:
      if (is_true(evaluate(*e.kids[1]))) return evaluate(*e.kids[0]);
      return e.kids[2] ? evaluate(*e.kids[2]) : Value(Undefined{"an if without else"});
    case Expression::call:
      return call(e);
    case Expression::filter:
      return filter(e);
    case Expression::test:
      return test(e);
  }
  return {};
}

Value Interpreter::dict(const Expression& e) {
  Table<Value> table;
  for (size_t i = 0; i < e.kids.size(); i += 2) {
    Value key = evaluate(*e.kids[i]);
    Value value = evaluate(*e.kids[i + 1]);
    place_ = e.place;
    table.set(std::move(key), std::move(value), budget_);
  }
  return make_dict(std::move(table), budget_);
}

Value Interpreter::unary(const Expression& e) {
  const Value v = evaluate(*e.kids[0]);
  place_ = e.place;
  if (e.text == "not") return !is_true(v);
  if (v.is_undefined()) throw Problem(fmt::format("'{}' is undefined", std::get<Undefined>(v.data()).name()));
  if (!v.is_number()) throw Problem(fmt::format("{} before {}; a number is needed", e.text, v.kind()));
  if (const double* real = v.real()) return e.text == "-" ? -*real : *real;
  const int64_t whole = v.as_integer("it");
  return e.text == "-" ? arithmetic("-", int64_t(0), whole, budget_) : Value(whole);
}

Value Interpreter::binary(const Expression& e) {
  Value left = evaluate(*e.kids[0]);
  if (e.text == "and") return is_true(left) ? evaluate(*e.kids[1]) : left;
  if (e.text == "or") return is_true(left) ? left : evaluate(*e.kids[1]);
  const Value right = evaluate(*e.kids[1]);
  place_ = e.place;
  if (e.text != "~") return arithmetic(e.text, left, right, budget_);
  TextBuilder out(budget_);
  append_str(left, out);
  append_str(right, out);
  return out.take();
}

Value Interpreter::compare(const Expression& e) {
  Value left = evaluate(*e.kids[0]);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    const std::string& op = e.operators[i];
    Value right = evaluate(*e.kids[i + 1]);
    place_ = e.place;
    const bool ordered = op[0] == '<' || op[0] == '>';
    for (const Value* v : {&left, &right})
      if (ordered && v->is_undefined())
        throw Problem(fmt::format("'{}' is undefined", std::get<Undefined>(v->data()).name()));
    const bool is = op == "=="   ? equals(left, right, budget_)
                    : op == "!=" ? !equals(left, right, budget_)
                    : op == "<"  ? is_less(left, right, budget_)
                    : op == ">"  ? is_less(right, left, budget_)
                    : op == "<=" ? is_less(left, right, budget_) || equals(left, right, budget_)
                    : op == ">=" ? is_less(right, left, budget_) || equals(left, right, budget_)
                    : op == "in" ? contains(right, left, budget_)
                                 : !contains(right, left, budget_);
    if (!is) return false;
    left = std::move(right);
  }
  return true;
}

namespace {

// Python's slice.indices(): the numbers that a slice of `n` things takes.
std::vector<size_t> slice_indices(int64_t n, const Value& begin, const Value& end, const Value& step_value,
                                  Budget& budget) {
  const auto is_given = [](const Value& v) { return !v.is_none() && !v.is_undefined(); };
  const int64_t step = is_given(step_value) ? step_value.as_integer("the step of a slice") : 1;
  if (step == 0) throw Problem("the step of a slice is 0");
  const int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? n : n - 1;
  const auto clamped = [&](const Value& v, int64_t otherwise) {
    if (!is_given(v)) return otherwise;
    int64_t i = v.as_integer("the index of a slice");
    if (i < 0) i = i < -n ? -1 - n : i;
    return std::clamp(i < 0 ? i + n : i, lowest, highest);
  };
  std::vector<size_t> out;
  const int64_t from = clamped(begin, step > 0 ? lowest : highest), to = clamped(end, step > 0 ? highest : lowest);
  const int64_t count = step > 0 ? (to - from) : (from - to);
  budget.spend(uint64_t(std::max<int64_t>(count, 0)) / (step > 0 ? uint64_t(step) : 0 - uint64_t(step)) + 1);
  const uint64_t stride = step > 0 ? uint64_t(step) : 0 - uint64_t(step);
  for (uint64_t i = 0; count > 0 && i < uint64_t(count); i += std::min(stride, uint64_t(count)))
    out.push_back(size_t(step > 0 ? uint64_t(from) + i : uint64_t(from) - i));
  return out;
}

Value slice_of_text(const std::string& text, const Value (&ends)[3], Budget& budget) {
  const auto is_missing = [](const Value& v) { return v.is_undefined() || v.is_none(); };
  budget.spend_reading(text.size());
  // The place of an index, from one of both ends.
  const auto place = [&](const Value& v, size_t otherwise) {
    if (is_missing(v)) return otherwise;
    const int64_t i = v.as_integer("the index of a slice");
    return i >= 0 ? character_begin(text, i) : last_characters(text, i == INT64_MIN ? INT64_MAX : -i);
  };
  if (is_missing(ends[2]) || (ends[2].integer() && *ends[2].integer() == 1)) {
    const size_t begin = place(ends[0], 0), end = place(ends[1], text.size());
    return begin < end ? text.substr(begin, end - begin) : std::string();
  }
  budget.spend(text.size());
  const std::vector<std::string_view> all = characters(text);
  std::string out;
  for (const size_t i : slice_indices(int64_t(all.size()), ends[0], ends[1], ends[2], budget)) out += all[i];
  return out;
}

}  // namespace

Value Interpreter::slice(const Expression& e) {
  const Value of = evaluate(*e.kids[0]);
  Value ends[3];
  for (size_t i = 0; i < 3; ++i)
    if (e.kids[i + 1]) ends[i] = evaluate(*e.kids[i + 1]);
  place_ = e.place;
  if (of.text()) return slice_of_text(*of.text(), ends, budget_);
  if (of.is_undefined()) throw Problem(fmt::format("'{}' is undefined", std::get<Undefined>(of.data()).name()));
  if (!of.list() || !of.list()->has_numbers())
    throw Problem(fmt::format("a slice of {}; a string or list is needed", of.kind()));
  std::vector<Value> out;
  for (const size_t i : slice_indices(int64_t(of.list()->items.size()), ends[0], ends[1], ends[2], budget_))
    out.push_back(of.list()->items[i]);
  return make_list(std::move(out), budget_, of.list()->is_tuple() ? List::tuple : List::list);
}

Arguments Interpreter::arguments(const Expression& e) {
  Arguments out;
  const size_t first = e.kids.size() - e.arguments.size();
  for (size_t i = 0; i < e.arguments.size(); ++i) {
    Value v = evaluate(*e.kids[first + i]);
    const ArgumentKind& kind = e.arguments[i];
    if (kind.kind == ArgumentKind::positional) {
      out.positional.push_back(std::move(v));
    } else if (kind.kind == ArgumentKind::named) {
      out.named.emplace_back(kind.name, std::move(v));
    } else if (kind.kind == ArgumentKind::list) {
      for (Value& one : items_of(v, budget_)) out.positional.push_back(std::move(one));
    } else {
      if (!v.dict()) throw Problem(fmt::format("** before {}; a dict is needed", v.kind()));
      budget_.spend(8 * v.dict()->items().size());
      for (const auto& [key, value] : v.dict()->items()) out.named.emplace_back(key.as_text("a name after **"), value);
    }
  }
  return out;
}

Value Interpreter::call(const Expression& e, const Value* caller) {
  const Value callee = evaluate(*e.kids[0]);
  Arguments args = arguments(e);
  if (caller) args.named.emplace_back("caller", *caller);
  place_ = e.place;
  const Expression& what = *e.kids[0];
  if (callee.loop()) return call_loop(*callee.loop(), args);
  if (callee.is_undefined()) throw Problem(fmt::format("'{}' is undefined, so it cannot be called", what.text));
  if (!callee.function() || !callee.function()->call) throw Problem(fmt::format("{} cannot be called", callee.kind()));
  const auto function = std::get<std::shared_ptr<const Function>>(callee.data());  // lives while it runs
  return function->call(*this, args);
}

Value Interpreter::call_loop(const Loop& loop, Arguments& args) {
  const auto scope = loop.scope.lock();
  if (!loop.statement || !scope || args.positional.size() != 1)
    throw Problem("loop() needs a loop that is recursive, and what to go through");
  const Deeper deeper(*this);
  const Inside inside(*this, scope);
  Capture capture(*this);
  this->loop(*loop.statement, args.positional[0], loop.level + 1);
  return capture.take();
}

Value Interpreter::filter(const Expression& e, const Value* input) {
  // A chain on the text of a block ends where there is no operand.
  const Value in = !e.kids[0] ? *input : input ? filter(*e.kids[0], input) : evaluate(*e.kids[0]);
  Arguments args = arguments(e);
  place_ = e.place;
  const Filter f = find_filter(e.text);
  if (!f) throw Problem(fmt::format("the filter '{}' is not known", e.text));
  budget_.spend(1);
  return f(*this, in, args);
}

Value Interpreter::test(const Expression& e) {
  const Value in = evaluate(*e.kids[0]);
  Arguments args = arguments(e);
  place_ = e.place;
  const Test f = find_test(e.text);
  if (!f) throw Problem(fmt::format("the test '{}' is not known", e.text));
  return f(*this, in, args);
}

}  // namespace toy::chat
