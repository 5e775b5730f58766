// Jinja's tests: x is defined.
#include <fmt/format.h>

#include "chat/interpreter.h"
#include "chat/py_text.h"

namespace toy::chat {
namespace {

// A test without arguments.
template <bool (*is)(const Value&)>
bool plain(Interpreter&, const Value& v, Arguments& a) {
  bind("the test", a, {});
  return is(v);
}

bool defined(const Value& v) { return !v.is_undefined(); }
bool undefined(const Value& v) { return v.is_undefined(); }
bool none(const Value& v) { return v.is_none(); }
bool boolean(const Value& v) { return v.boolean(); }
bool yes(const Value& v) { return v.boolean() && *v.boolean(); }
bool no(const Value& v) { return v.boolean() && !*v.boolean(); }
bool integer(const Value& v) { return v.integer(); }
bool real(const Value& v) { return v.real(); }
bool number(const Value& v) { return v.is_number(); }
bool string(const Value& v) { return v.text(); }
bool mapping(const Value& v) { return v.dict(); }
bool callable(const Value& v) { return v.function() || v.loop(); }
bool iterable(const Value& v) { return v.text() || v.list() || v.dict() || v.is_undefined() || v.loop(); }
bool sequence(const Value& v) {
  return v.text() || v.dict() || v.is_undefined() || (v.list() && v.list()->kind != List::generator);
}
bool even(const Value& v) { return v.as_integer("what is even") % 2 == 0; }
bool odd(const Value& v) { return v.as_integer("what is odd") % 2 != 0; }

bool is_lower(Interpreter& in, const Value& v, Arguments&) {
  const std::string s = str(v, in.budget());
  return lower(s) == s && upper(s) != s;
}
bool is_upper(Interpreter& in, const Value& v, Arguments&) {
  const std::string s = str(v, in.budget());
  return upper(s) == s && lower(s) != s;
}

enum class Order { equal, unequal, less, at_most, greater, at_least };
template <Order order>
bool compare(Interpreter& in, const Value& v, Arguments& a) {
  const Value other = bind("the test", a, {"other"}, 1)[0];
  Budget& budget = in.budget();
  if (order == Order::equal) return equals(v, other, budget);
  if (order == Order::unequal) return !equals(v, other, budget);
  if (order == Order::less) return is_less(v, other, budget);
  if (order == Order::greater) return is_less(other, v, budget);
  const bool strictly = order == Order::at_most ? is_less(v, other, budget) : is_less(other, v, budget);
  return strictly || equals(v, other, budget);
}

bool in_test(Interpreter& in, const Value& v, Arguments& a) {
  return contains(bind("in", a, {"seq"}, 1)[0], v, in.budget());
}
bool divisible(Interpreter&, const Value& v, Arguments& a) {
  const int64_t by = bind("divisibleby", a, {"num"}, 1)[0].as_integer("divisibleby");
  if (by == 0) throw Problem("division by zero");
  return by == -1 || v.as_integer("what is divisible") % by == 0;
}
bool same(Interpreter& in, const Value& v, Arguments& a) {
  const Value other = bind("sameas", a, {"other"}, 1)[0];
  return v.data().index() == other.data().index() && equals(v, other, in.budget());
}
bool is_filter(Interpreter&, const Value& v, Arguments&) { return v.text() && find_filter(*v.text()); }
bool is_test(Interpreter&, const Value& v, Arguments&) { return v.text() && find_test(*v.text()); }

constexpr std::pair<std::string_view, Test> kTests[] = {
    {"boolean", plain<boolean>},
    {"callable", plain<callable>},
    {"defined", plain<defined>},
    {"divisibleby", divisible},
    {"eq", compare<Order::equal>},
    {"equalto", compare<Order::equal>},
    {"even", plain<even>},
    {"false", plain<no>},
    {"filter", is_filter},
    {"float", plain<real>},
    {"ge", compare<Order::at_least>},
    {"greaterthan", compare<Order::greater>},
    {"gt", compare<Order::greater>},
    {"in", in_test},
    {"integer", plain<integer>},
    {"iterable", plain<iterable>},
    {"le", compare<Order::at_most>},
    {"lessthan", compare<Order::less>},
    {"lower", is_lower},
    {"lt", compare<Order::less>},
    {"mapping", plain<mapping>},
    {"ne", compare<Order::unequal>},
    {"none", plain<none>},
    {"number", plain<number>},
    {"odd", plain<odd>},
    {"sameas", same},
    {"sequence", plain<sequence>},
    {"string", plain<string>},
    {"test", is_test},
    {"true", plain<yes>},
    {"undefined", plain<undefined>},
    {"upper", is_upper},
};

}  // namespace

Test find_test(std::string_view name) {
  for (const auto& [known, test] : kTests)
    if (known == name) return test;
  return nullptr;
}

}  // namespace toy::chat
