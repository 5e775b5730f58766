// Python's arithmetic, and the functions that templates always have.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "chat/formatting.h"
#include "chat/interpreter.h"

namespace toy::chat {
namespace {

void require(bool fits) {
  if (!fits) throw Problem("the number becomes too large");
}

int64_t floor_division(int64_t a, int64_t b) {
  if (b == -1) {
    require(a != INT64_MIN);
    return -a;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t out = 1;
  if (base == 0 || base == 1 || base == -1)
    return exponent == 0 || base == 1 ? 1 : base == 0 ? 0 : exponent % 2 ? -1 : 1;
  for (; exponent > 0; --exponent) {
    require(!__builtin_mul_overflow(out, base, &out));
  }
  return out;
}

Value of_integers(std::string_view op, int64_t a, int64_t b) {
  int64_t out = 0;
  if ((op == "/" || op == "//" || op == "%") && b == 0) throw Problem("division by zero");
  if (op == "+" || op == "-" || op == "*") {
    require(!(op == "+"   ? __builtin_add_overflow(a, b, &out)
              : op == "-" ? __builtin_sub_overflow(a, b, &out)
                          : __builtin_mul_overflow(a, b, &out)));
    return out;
  }
  if (op == "/") return double(a) / double(b);
  if (op == "//") return floor_division(a, b);
  if (op == "%") return b == -1 ? int64_t(0) : a - floor_division(a, b) * b;
  if (b < 0) return std::pow(double(a), double(b));
  return power(a, b);
}

Value of_reals(std::string_view op, double a, double b) {
  if ((op == "/" || op == "//" || op == "%") && b == 0) throw Problem("division by zero");
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "/") return a / b;
  if (op == "//") return std::floor(a / b);
  if (op == "%") {
    const double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  return std::pow(a, b);
}

Value repeated(const Value& v, int64_t times, Budget& budget) {
  const auto n = uint64_t(std::max<int64_t>(times, 0));
  if (v.text()) {
    TextBuilder out(budget);
    out.repeat(*v.text(), n);
    return out.take();
  }
  std::vector<Value> out;
  for (uint64_t i = 0; i < n && !v.list()->items.empty(); ++i) {
    budget.spend(v.list()->items.size());
    out.insert(out.end(), v.list()->items.begin(), v.list()->items.end());
  }
  return make_list(std::move(out), budget, v.list()->is_tuple() ? List::tuple : List::list);
}

bool can_repeat(const Value& v) { return v.text() || (v.list() && v.list()->has_numbers()); }

}  // namespace

Value arithmetic(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  for (const Value* v : {&a, &b})
    if (v->is_undefined()) throw Problem(fmt::format("'{}' is undefined", std::get<Undefined>(v->data()).name()));
  if (a.is_number() && b.is_number()) {
    if (a.real() || b.real()) return of_reals(op, a.as_real(), b.as_real());
    return of_integers(op, a.as_integer("it"), b.as_integer("it"));
  }
  if (op == "+" && a.text() && b.text()) {
    TextBuilder out(budget);
    out += *a.text();
    out += *b.text();
    return out.take();
  }
  if (op == "+" && a.list() && b.list() && can_repeat(a) && can_repeat(b) &&
      a.list()->is_tuple() == b.list()->is_tuple()) {
    std::vector<Value> all = items_of(a, budget);
    budget.spend(b.list()->items.size());
    all.insert(all.end(), b.list()->items.begin(), b.list()->items.end());
    return make_list(std::move(all), budget, a.list()->is_tuple() ? List::tuple : List::list);
  }
  if (op == "*" && can_repeat(a) && (b.integer() || b.boolean())) return repeated(a, b.as_integer("it"), budget);
  if (op == "*" && can_repeat(b) && (a.integer() || a.boolean())) return repeated(b, a.as_integer("it"), budget);
  if (op == "%" && a.text()) return format_percent(*a.text(), b, budget);
  throw Problem(fmt::format("{} {} {} has no meaning{}", a.kind(), op, b.kind(),
                            op == "+" && (a.text() || b.text()) ? "; use ~ to join texts" : ""));
}

std::vector<Value> bind(std::string_view function, Arguments& args, std::initializer_list<std::string_view> names,
                        size_t required) {
  if (args.positional.size() > names.size())
    throw Problem(fmt::format("{} takes {} arguments at most, not {}", function, names.size(), args.positional.size()));
  std::vector<Value> out = std::move(args.positional);
  const size_t given = out.size();
  out.resize(names.size());
  std::vector<bool> has(names.size(), false);
  std::fill(has.begin(), has.begin() + int64_t(given), true);
  for (auto& [name, value] : args.named) {
    const auto at = size_t(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size()) throw Problem(fmt::format("{} has no argument '{}'", function, name));
    if (has[at]) throw Problem(fmt::format("{} has two values for '{}'", function, name));
    has[at] = true;
    out[at] = std::move(value);
  }
  for (size_t i = 0; i < required; ++i)
    if (!has[i]) throw Problem(fmt::format("{} needs '{}'", function, names.begin()[i]));
  return out;
}

namespace {

Value range(Interpreter& in, Arguments& a) {
  const std::vector<Value> v = bind("range()", a, {"start", "stop", "step"}, 1);
  const bool one = v[1].is_undefined();
  const int64_t first = one ? 0 : v[0].as_integer("range()"), end = v[one ? 0 : 1].as_integer("range()");
  const int64_t step = v[2].is_undefined() ? 1 : v[2].as_integer("range()");
  if (step == 0) throw Problem("range() goes by steps of 0");
  constexpr int64_t kMost = int64_t(1) << 40;
  for (const int64_t n : {first, end, step})
    if (n > kMost || n < -kMost) throw Problem("range() is too long");
  const int64_t distance = step > 0 ? end - first : first - end, by = std::abs(step);
  const int64_t count = std::max<int64_t>(0, (distance + by - 1) / by);
  if (count > 100'000)
    throw Problem(fmt::format("range() has {} numbers; at most 100000 are allowed", count));  // Jinja's
  std::vector<Value> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(first + i * step);
  return make_list(std::move(out), in.budget());
}

// dict(other, a=1): what both dict() and namespace() begin with.
Table<Value> named_items(Interpreter& in, Arguments& a, const char* what) {
  Table<Value> out;
  if (a.positional.size() > 1) throw Problem(fmt::format("{} takes one dict at most", what));
  if (!a.positional.empty() && a.positional[0].dict()) {
    in.budget().spend(8 * a.positional[0].dict()->items().size());
    out = a.positional[0].dict()->table;
  } else if (!a.positional.empty()) {
    for (const Value& pair : items_of(a.positional[0], in.budget())) {
      if (!pair.list() || pair.list()->items.size() != 2) throw Problem(fmt::format("{} needs pairs", what));
      out.set(pair.list()->items[0], pair.list()->items[1], in.budget());
    }
  }
  for (const auto& [name, value] : a.named) out.set(name, value, in.budget());
  return out;
}

Value make_namespace(Interpreter& in, Arguments& a) {
  Table<std::string> table;
  const Table<Value> given = named_items(in, a, "namespace()");
  for (const auto& [key, value] : given.items()) {
    const std::string& name = key.as_text("the name of an attribute");
    if (name.starts_with("_")) throw Problem(fmt::format("'{}': names in a namespace begin with no _", name));
    table.set(name, value, in.budget());
  }
  return in.new_namespace(std::move(table));
}

// cycler('a', 'b'): next(), current and reset().
Value cycler(Interpreter& in, Arguments& a) {
  if (a.positional.empty() || !a.named.empty()) throw Problem("cycler() needs what it goes through");
  struct State {
    std::vector<Value> items;
    size_t at = 0;
  };
  in.budget().spend(4 * a.positional.size() + 8);
  const auto state = std::make_shared<State>(State{std::move(a.positional)});
  Function out{"cycler", nullptr, [state](const std::string& name) -> Value {
                 if (name == "current") return state->items[state->at];
                 if (name != "next" && name != "reset") return Undefined{name};
                 return callable(name, [state, next = name == "next"](Interpreter&, Arguments&) -> Value {
                   const size_t now = state->at;
                   state->at = next ? (now + 1) % state->items.size() : 0;
                   return next ? state->items[now] : Value(None{});
                 });
               }};
  return std::make_shared<const Function>(std::move(out));
}

// joiner(', '): nothing at the first call, else the text.
Value joiner(Interpreter& in, Arguments& a) {
  const Value given = bind("joiner()", a, {"sep"})[0];
  const Value separator = given.is_undefined() ? Value(std::string(", ")) : given;
  in.budget().spend(8);
  return callable("joiner", [separator, used = std::make_shared<bool>(false)](Interpreter&, Arguments&) {
    return std::exchange(*used, true) ? separator : Value(std::string());
  });
}

Value strftime_now(Interpreter& in, Arguments& a) {
  const std::string format = bind("strftime_now()", a, {"format"}, 1)[0].as_text("the format");
  constexpr size_t kLongest = 1000;
  if (format.size() > kLongest) throw Problem("the format of strftime_now() is too long");
  const std::time_t now = in.now();
  std::tm local{};
  localtime_r(&now, &local);
  std::string out(16 * kLongest, '\0');
  out.resize(format.empty() ? 0 : std::strftime(out.data(), out.size(), format.c_str(), &local));
  return out;
}

}  // namespace

std::vector<std::pair<std::string, Value>> global_functions() {
  std::vector<std::pair<std::string, Value>> out;
  const auto add = [&](const char* name, std::function<Value(Interpreter&, Arguments&)> call) {
    out.emplace_back(name, std::make_shared<const Function>(Function{name, std::move(call)}));
  };
  add("range", range);
  add("dict", [](Interpreter& in, Arguments& a) { return make_dict(named_items(in, a, "dict()"), in.budget()); });
  add("namespace", make_namespace);
  add("cycler", cycler);
  add("joiner", joiner);
  add("strftime_now", strftime_now);
  add("raise_exception", [](Interpreter& in, Arguments& a) -> Value {
    throw Problem("the template refuses the conversation: " +
                  *str(bind("raise_exception()", a, {"message"}, 1)[0], in.budget()));
  });
  return out;
}

}  // namespace toy::chat
