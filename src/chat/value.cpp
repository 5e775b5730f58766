#include "chat/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "chat/py_text.h"

namespace toy::chat {
namespace {

constexpr int kMostNested = 200;  // lists and dicts in each other

int depth_of(const Value& v) { return v.list() ? v.list()->depth : v.dict() ? v.dict()->depth : 0; }

}  // namespace

double Value::as_real() const {
  if (const bool* b = boolean()) return *b;
  if (const int64_t* i = integer()) return double(*i);
  return *real();
}

int64_t Value::as_integer(std::string_view what) const {
  if (const bool* b = boolean()) return *b;
  if (!integer()) throw Problem(fmt::format("{} is {}; a whole number is needed", what, kind()));
  return *integer();
}

const std::string& Value::as_text(std::string_view what) const {
  if (!text()) throw Problem(fmt::format("{} is {}; a string is needed", what, kind()));
  return *text();
}

std::string_view Value::kind() const {
  constexpr std::string_view kNames[] = {"undefined", "none",   "a boolean",  "a whole number", "a number", "a string",
                                         "a list",    "a dict", "a function", "a namespace",    "a loop"};
  if (list() && list()->is_tuple()) return "a tuple";
  if (list() && list()->kind == List::generator) return "a generator";
  return kNames[data_.index()];
}

int depth_around(const Value& inner) {
  if (depth_of(inner) >= kMostNested) throw Problem("lists or dicts lie too deep in each other");
  return depth_of(inner) + 1;
}

Value make_list(std::vector<Value> items, Budget& budget, List::Kind kind) {
  budget.spend(2 * items.size() + 8);
  int depth = 1;
  for (const Value& v : items) depth = std::max(depth, depth_around(v));
  return std::shared_ptr<const List>(std::make_shared<List>(List{kind, std::move(items), depth}));
}

Value make_tuple(Value first, Value second, Budget& budget, List::Kind kind) {
  std::vector<Value> items;
  items.reserve(2);
  items.push_back(std::move(first));
  items.push_back(std::move(second));
  return make_list(std::move(items), budget, kind);
}

Value make_dict(Table<Value> table, Budget& budget) {
  budget.spend(6 * table.size() + 8);
  int depth = 1;
  for (const auto& [key, v] : table.items()) depth = std::max({depth, depth_around(key), depth_around(v)});
  return std::make_shared<const Dict>(Dict{std::move(table), depth});
}

Value value_of(const nlohmann::ordered_json& json, Budget& budget) {
  using nlohmann::ordered_json;
  switch (json.type()) {
    case ordered_json::value_t::null:
      return None{};
    case ordered_json::value_t::boolean:
      return json.get<bool>();
    case ordered_json::value_t::number_integer:
      return json.get<int64_t>();
    case ordered_json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > uint64_t(std::numeric_limits<int64_t>::max())) return double(number);
      return int64_t(number);
    }
    case ordered_json::value_t::number_float:
      return json.get<double>();
    case ordered_json::value_t::string:
      budget.spend_reading(json.get_ref<const std::string&>().size());
      return json.get_ref<const std::string&>();
    case ordered_json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const ordered_json& one : json) items.push_back(value_of(one, budget));
      return make_list(std::move(items), budget);
    }
    case ordered_json::value_t::object: {
      Table<Value> table;
      for (const auto& [key, one] : json.items()) table.set(key, value_of(one, budget), budget);
      return make_dict(std::move(table), budget);
    }
    default:
      throw Problem("a value is not JSON");
  }
}

std::vector<Value> items_of(const Value& v, Budget& budget) {
  std::vector<Value> out;
  if (const List* list = v.list()) {
    budget.spend(list->items.size());
    if (list->kind != List::generator) return list->items;
    const size_t from = std::exchange(list->taken, list->items.size());
    return {list->items.begin() + int64_t(from), list->items.end()};
  }
  if (v.dict()) {
    budget.spend(v.dict()->items().size());
    for (const auto& [key, value] : v.dict()->items()) out.push_back(key);
  } else if (v.text()) {
    budget.spend(8 * v.text()->size());
    for (const std::string_view c : characters(*v.text())) out.push_back(std::string(c));
  } else if (!v.is_undefined()) {
    throw Problem(fmt::format("{}{} cannot be gone through; a list, dict or string is needed",
                              v.is_none() ? "'none' is none and " : "", v.kind()));
  }
  return out;
}

int64_t length_of(const Value& v, Budget& budget) {
  if (v.text()) {
    budget.spend_reading(v.text()->size());
    return count_characters(*v.text());
  }
  if (v.list() && v.list()->kind != List::generator) return int64_t(v.list()->items.size());
  if (v.dict()) return int64_t(v.dict()->items().size());
  if (v.is_undefined()) return 0;
  throw Problem(fmt::format("{} has no length", v.kind()));
}

bool is_true(const Value& v) {
  if (v.is_undefined() || v.is_none()) return false;
  if (v.is_number()) return v.as_real() != 0;
  if (v.text()) return !v.text()->empty();
  if (v.list()) return v.list()->kind == List::generator || !v.list()->items.empty();
  if (v.dict()) return !v.dict()->items().empty();
  return true;
}

}  // namespace toy::chat
