// Methods of lists and dicts: Python's. Lists can be changed, as some templates do; dicts cannot.
#include <fmt/format.h>

#include <algorithm>

#include "chat/interpreter.h"

namespace toy::chat {
namespace {

using ListPointer = std::shared_ptr<const List>;

// What may come into the list.
void admit(List& list, const Value& v) { list.depth = std::max(list.depth, depth_around(v)); }

Value append(Interpreter& in, const ListPointer& list, Arguments& a) {
  Value v = bind("append()", a, {"object"}, 1)[0];
  List& to = in.to_change(list);
  in.budget().spend(4);
  admit(to, v);
  to.items.push_back(std::move(v));
  return None{};
}

Value extend(Interpreter& in, const ListPointer& list, Arguments& a) {
  std::vector<Value> more = items_of(bind("extend()", a, {"iterable"}, 1)[0], in.budget());
  List& to = in.to_change(list);
  in.budget().spend(2 * more.size());
  for (const Value& v : more) admit(to, v);
  to.items.insert(to.items.end(), more.begin(), more.end());
  return None{};
}

Value insert(Interpreter& in, const ListPointer& list, Arguments& a) {
  const std::vector<Value> v = bind("insert()", a, {"index", "object"}, 2);
  List& to = in.to_change(list);
  const auto n = int64_t(to.items.size());
  const int64_t i = v[0].as_integer("the index");
  in.budget().spend(4 + to.items.size() / 4);
  admit(to, v[1]);
  to.items.insert(to.items.begin() + std::clamp<int64_t>(i < 0 ? std::max(i, -n) + n : i, 0, n), v[1]);
  return None{};
}

Value pop(Interpreter& in, const ListPointer& list, Arguments& a) {
  const Value v = bind("pop()", a, {"index"})[0];
  List& from = in.to_change(list);
  const auto n = int64_t(from.items.size());
  int64_t i = v.is_undefined() ? -1 : v.as_integer("the index");
  if (i < -n || i >= n) throw Problem(fmt::format("pop(): there is no item {} of {}", i, n));
  if (i < 0) i += n;
  in.budget().spend(4 + uint64_t(n - i) / 4);
  Value out = std::move(from.items[size_t(i)]);
  from.items.erase(from.items.begin() + i);
  return out;
}

template <bool counts>
Value find(Interpreter& in, const ListPointer& list, Arguments& a) {
  const Value what = bind(counts ? "count()" : "index()", a, {"value"}, 1)[0];
  int64_t n = 0;
  for (size_t i = 0; i < list->items.size(); ++i)
    if (equals(list->items[i], what, in.budget())) {
      if (!counts) return int64_t(i);
      ++n;
    }
  if (!counts) throw Problem("index(): it is not in the list");
  return n;
}

Value copy(Interpreter& in, const ListPointer& list, Arguments& a) {
  bind("copy()", a, {});
  return make_list(list->items, in.budget());
}

Value changes(const std::string& name) {
  return callable(name, [name](Interpreter&, Arguments&) -> Value {
    throw Problem(fmt::format("{}() would change a value, which templates may not", name));
  });
}

using ListMethod = Value (*)(Interpreter&, const ListPointer&, Arguments&);
constexpr std::pair<std::string_view, ListMethod> kListMethods[] = {
    {"append", append}, {"extend", extend},    {"insert", insert},     {"pop", pop},
    {"copy", copy},     {"count", find<true>}, {"index", find<false>},
};
constexpr std::string_view kChangesLists[] = {"remove", "sort", "reverse", "clear"};
constexpr std::string_view kChangesDicts[] = {"update", "setdefault", "popitem", "pop", "clear"};

}  // namespace

Value callable(const std::string& name, std::function<Value(Interpreter&, Arguments&)> call) {
  return std::make_shared<const Function>(Function{name, std::move(call)});
}

Value list_method(const ListPointer& list, const std::string& name) {
  const bool is_tuple = list->is_tuple();
  if (!list->has_numbers() || (is_tuple && name != "count" && name != "index")) return {};
  for (const auto& [known, method] : kListMethods)
    if (known == name)
      return callable(name, [list, call = method](Interpreter& in, Arguments& a) { return call(in, list, a); });
  const auto* end = std::end(kChangesLists);
  return std::find(std::begin(kChangesLists), end, name) == end ? Value() : changes(name);
}

Value dict_method(const std::shared_ptr<const Dict>& dict, const std::string& name) {
  if (name == "get")
    return callable(name, [dict](Interpreter& in, Arguments& a) -> Value {
      const std::vector<Value> v = bind("get()", a, {"key", "default"}, 1);
      const Value* found = dict->table.find(v[0], in.budget());
      return found ? *found : v[1].is_undefined() ? Value(None{}) : v[1];
    });
  if (name == "items" || name == "keys" || name == "values")
    return callable(name, [dict, name](Interpreter& in, Arguments& a) {
      bind(name, a, {});
      const List::Kind kind = name == "keys"     ? List::dict_keys
                              : name == "values" ? List::dict_values
                                                 : List::dict_items;
      std::vector<Value> out;
      for (const auto& [key, value] : dict->items())
        out.push_back(kind == List::dict_keys     ? key
                      : kind == List::dict_values ? value
                                                  : make_tuple(key, value, in.budget()));
      return make_list(std::move(out), in.budget(), kind);
    });
  if (name == "copy")
    return callable(name, [dict](Interpreter&, Arguments& a) {
      bind("copy()", a, {});
      return Value(dict);
    });
  const auto* end = std::end(kChangesDicts);
  return std::find(std::begin(kChangesDicts), end, name) == end ? Value() : changes(name);
}

Value method(const Value& of, const std::string& name) {
  if (of.text()) return text_method(std::get<Value::Text>(of.data()), name);
  if (of.list()) return list_method(std::get<ListPointer>(of.data()), name);
  if (of.dict()) return dict_method(std::get<std::shared_ptr<const Dict>>(of.data()), name);
  return {};
}

}  // namespace toy::chat
