// Jinja's tests: x is defined.
#include <fmt/format.h>

#include <unordered_map>

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
bool callable(const Value& v) { return (v.function() && v.function()->call) || v.loop(); }
bool iterable(const Value& v) { return v.text() || v.list() || v.dict() || v.is_undefined() || v.loop(); }
bool sequence(const Value& v) {
  return v.text() || v.dict() || v.is_undefined() || (v.list() && v.list()->has_numbers());
}
bool escaped(const Value&) { return false; }  // no text is HTML

// value % by == rest, of numbers.
bool leaves(Interpreter& in, const Value& v, const Value& by, int64_t rest) {
  if (!v.is_number() || !by.is_number()) throw Problem(fmt::format("{} is no number that can be divided", v.kind()));
  return equals(arithmetic("%", v, by, in.budget()), rest, in.budget());
}
template <int64_t rest>
bool of_two(Interpreter& in, const Value& v, Arguments& a) {
  bind("the test", a, {});
  return leaves(in, v, int64_t(2), rest);
}

template <Letters letters>
bool has_case(Interpreter& in, const Value& v, Arguments& a) {
  bind("the test", a, {});
  const Value::Text s = str(v, in.budget());
  in.budget().spend_characters(s->size());
  return are_all(letters, *s);
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
bool divisible(Interpreter& in, const Value& v, Arguments& a) {
  return leaves(in, v, bind("divisibleby", a, {"num"}, 1)[0], 0);
}
bool same(Interpreter& in, const Value& v, Arguments& a) {
  const Value other = bind("sameas", a, {"other"}, 1)[0];
  if (v.list() || v.dict()) return v.list() == other.list() && v.dict() == other.dict();
  return v.data().index() == other.data().index() && equals(v, other, in.budget());
}
bool is_filter(Interpreter&, const Value& v, Arguments&) { return v.text() && find_filter(*v.text()); }
bool is_test(Interpreter&, const Value& v, Arguments&) { return v.text() && find_test(*v.text()); }

const std::unordered_map<std::string_view, Test>& tests() {
  static const std::unordered_map<std::string_view, Test> all = {
      {"!=", compare<Order::unequal>},
      {"<", compare<Order::less>},
      {"<=", compare<Order::at_most>},
      {"==", compare<Order::equal>},
      {">", compare<Order::greater>},
      {">=", compare<Order::at_least>},
      {"boolean", plain<boolean>},
      {"callable", plain<callable>},
      {"defined", plain<defined>},
      {"divisibleby", divisible},
      {"eq", compare<Order::equal>},
      {"equalto", compare<Order::equal>},
      {"even", of_two<0>},
      {"escaped", plain<escaped>},
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
      {"lower", has_case<Letters::lower>},
      {"lt", compare<Order::less>},
      {"mapping", plain<mapping>},
      {"ne", compare<Order::unequal>},
      {"none", plain<none>},
      {"number", plain<number>},
      {"odd", of_two<1>},
      {"sameas", same},
      {"sequence", plain<sequence>},
      {"string", plain<string>},
      {"test", is_test},
      {"true", plain<yes>},
      {"undefined", plain<undefined>},
      {"upper", has_case<Letters::upper>},
  };
  return all;
}

}  // namespace

Test find_test(std::string_view name) {
  const auto found = tests().find(name);
  return found == tests().end() ? nullptr : found->second;
}

}  // namespace toy::chat
