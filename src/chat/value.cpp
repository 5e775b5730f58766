#include "chat/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "chat/py_text.h"

namespace toy::chat {
namespace {

constexpr int kMostNested = 200;  // lists and dicts in each other

int depth_of(const Value& v) { return v.list() ? v.list()->depth : v.dict() ? v.dict()->depth : 0; }

int nested(int inner) {
  if (inner >= kMostNested) throw Problem("lists or dicts lie too deep in each other");
  return inner + 1;
}

void append_items(const List& list, TextBuilder& out) {
  out += list.kind == List::tuple ? "(" : "[";
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(list.items[i], out);
  }
  if (list.kind == List::tuple) out += list.items.size() == 1 ? ",)" : ")";
  if (list.kind != List::tuple) out += "]";
}

void append_pairs(const std::vector<std::pair<std::string, Value>>& items, TextBuilder& out) {
  out += "{";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    out += repr(items[i].first);
    out += ": ";
    append_repr(items[i].second, out);
  }
  out += "}";
}

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
  return kNames[data_.index()];
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items)
    if (name == key) return &value;
  return nullptr;
}

Value make_list(std::vector<Value> items, Budget& budget, List::Kind kind) {
  budget.spend(4 * items.size() + 1);
  int depth = 0;
  for (const Value& v : items) depth = std::max(depth, depth_of(v));
  return std::make_shared<const List>(List{kind, std::move(items), nested(depth)});
}

Value make_dict(std::vector<std::pair<std::string, Value>> items, Budget& budget) {
  int depth = 0;
  for (const auto& [name, v] : items) {
    budget.spend(8 + name.size() / 16);
    depth = std::max(depth, depth_of(v));
  }
  return std::make_shared<const Dict>(Dict{std::move(items), nested(depth)});
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
      return json.get_ref<const std::string&>();
    case ordered_json::value_t::array: {
      std::vector<Value> items;
      for (const ordered_json& one : json) items.push_back(value_of(one, budget));
      return make_list(std::move(items), budget);
    }
    case ordered_json::value_t::object: {
      std::vector<std::pair<std::string, Value>> items;
      for (const auto& [key, one] : json.items()) items.emplace_back(key, value_of(one, budget));
      return make_dict(std::move(items), budget);
    }
    default:
      throw Problem("a value is not JSON");
  }
}

bool is_true(const Value& v) {
  if (v.is_undefined() || v.is_none()) return false;
  if (v.is_number()) return v.as_real() != 0;
  if (v.text()) return !v.text()->empty();
  if (v.list()) return v.list()->kind == List::generator || !v.list()->items.empty();
  if (v.dict()) return !v.dict()->items.empty();
  return true;
}

void append_str(const Value& v, TextBuilder& out) {
  if (v.is_undefined()) return;
  if (v.text())
    out += *v.text();
  else
    append_repr(v, out);
}

void append_repr(const Value& v, TextBuilder& out) {
  if (v.is_undefined())
    out += "Undefined";
  else if (v.is_none())
    out += "None";
  else if (const bool* b = v.boolean())
    out += *b ? "True" : "False";
  else if (const int64_t* i = v.integer())
    out += fmt::format("{}", *i);
  else if (const double* d = v.real())
    out += repr(*d);
  else if (v.text())
    out += repr(*v.text());
  else if (v.list())
    append_items(*v.list(), out);
  else if (v.dict())
    append_pairs(v.dict()->items, out);
  else
    out += fmt::format("<{}>", v.kind().substr(2));
}

std::string str(const Value& v, Budget& budget) {
  if (v.text()) return *v.text();
  TextBuilder out(budget);
  append_str(v, out);
  return out.take();
}

bool equals(const Value& a, const Value& b, Budget& budget) {
  budget.spend(1);
  if (a.integer() && b.integer()) return *a.integer() == *b.integer();
  if (a.is_number() && b.is_number()) return a.as_real() == b.as_real();
  if (a.text() && b.text()) return *a.text() == *b.text();
  if (a.list() && b.list()) {
    const List &x = *a.list(), &y = *b.list();
    if (x.kind != y.kind || x.items.size() != y.items.size()) return false;
    for (size_t i = 0; i < x.items.size(); ++i)
      if (!equals(x.items[i], y.items[i], budget)) return false;
    return true;
  }
  if (a.dict() && b.dict()) {
    if (a.dict()->items.size() != b.dict()->items.size()) return false;
    for (const auto& [key, value] : a.dict()->items) {
      budget.spend(b.dict()->items.size());
      const Value* other = b.dict()->find(key);
      if (!other || !equals(value, *other, budget)) return false;
    }
    return true;
  }
  if (a.data().index() != b.data().index()) return false;
  return a.is_undefined() || a.is_none() || (a.function() && a.function() == b.function()) ||
         (a.space() && a.space() == b.space());
}

bool is_less(const Value& a, const Value& b, Budget& budget) {
  budget.spend(1);
  if (a.integer() && b.integer()) return *a.integer() < *b.integer();
  if (a.is_number() && b.is_number()) return a.as_real() < b.as_real();
  if (a.text() && b.text()) return *a.text() < *b.text();  // the order of UTF-8 is that of code points
  if (a.list() && b.list() && a.list()->kind == b.list()->kind) {
    const auto &x = a.list()->items, &y = b.list()->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equals(x[i], y[i], budget)) return is_less(x[i], y[i], budget);
    return x.size() < y.size();
  }
  throw Problem(fmt::format("{} and {} have no order", a.kind(), b.kind()));
}

bool contains(const Value& all, const Value& one, Budget& budget) {
  if (all.text()) {
    budget.spend(all.text()->size() / 16 + 1);
    return all.text()->find(one.as_text("what is looked for in a string")) != std::string::npos;
  }
  if (all.dict()) return one.text() && all.dict()->find(*one.text());
  if (all.is_undefined()) return false;
  if (!all.list()) throw Problem(fmt::format("'in' needs a string, list or dict, not {}", all.kind()));
  for (const Value& v : all.list()->items)
    if (equals(v, one, budget)) return true;
  return false;
}

std::vector<Value> items_of(const Value& v, Budget& budget) {
  std::vector<Value> out;
  if (v.list()) {
    budget.spend(4 * v.list()->items.size());
    return v.list()->items;
  }
  if (v.dict()) {
    budget.spend(8 * v.dict()->items.size());
    for (const auto& [key, value] : v.dict()->items) out.push_back(key);
  } else if (v.text()) {
    budget.spend(8 * v.text()->size());
    for (const std::string_view c : characters(*v.text())) out.push_back(std::string(c));
  } else if (!v.is_undefined()) {
    throw Problem(fmt::format("{}{} cannot be gone through; a list, dict or string is needed",
                              v.is_none() ? "'none' is none and " : "", v.kind()));
  }
  return out;
}

int64_t length_of(const Value& v) {
  if (v.text()) return count_characters(*v.text());
  if (v.list() && v.list()->kind != List::generator) return int64_t(v.list()->items.size());
  if (v.dict()) return int64_t(v.dict()->items.size());
  if (v.is_undefined()) return 0;
  throw Problem(fmt::format("{} has no length", v.list() ? "a generator" : v.kind()));
}

void append_json(const Value& v, const JsonStyle& style, TextBuilder& out, int depth) {
  const auto line = [&](int level) {
    if (!style.lines) return;
    out += "\n";
    for (int i = 0; i < level; ++i) out += style.indent;
  };
  if (v.is_none()) {
    out += "null";
  } else if (const bool* b = v.boolean()) {
    out += *b ? "true" : "false";
  } else if (v.integer()) {
    append_repr(v, out);
  } else if (const double* d = v.real()) {
    out += std::isnan(*d) ? "NaN" : std::isinf(*d) ? (*d < 0 ? "-Infinity" : "Infinity") : repr(*d);
  } else if (v.text()) {
    out += json_string(*v.text(), style.ascii);
  } else if (const List* list = v.list(); list && list->kind != List::generator) {
    out += "[";
    for (size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) out += style.item_separator;
      line(depth + 1);
      append_json(list->items[i], style, out, depth + 1);
    }
    if (!list->items.empty()) line(depth);
    out += "]";
  } else if (v.dict()) {
    std::vector<const std::pair<std::string, Value>*> items;
    for (const auto& item : v.dict()->items) items.push_back(&item);
    if (style.sort_keys)
      std::sort(items.begin(), items.end(), [](const auto* x, const auto* y) { return x->first < y->first; });
    out += "{";
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style.item_separator;
      line(depth + 1);
      out += json_string(items[i]->first, style.ascii);
      out += style.key_separator;
      append_json(items[i]->second, style, out, depth + 1);
    }
    if (!items.empty()) line(depth);
    out += "}";
  } else {
    throw Problem(fmt::format("tojson: {} is not JSON", v.is_undefined() ? "what is undefined" : v.kind()));
  }
}

}  // namespace toy::chat
