// Python's str(), repr() and json.dumps().
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chat/py_text.h"
#include "chat/value.h"

namespace toy::chat {
namespace {

void append_items(const List& list, TextBuilder& out) {
  const Budget::Nested nested(out.budget());
  constexpr std::string_view kViews[] = {"dict_keys(", "dict_values(", "dict_items("};
  const bool is_view = list.kind >= List::dict_keys;
  if (is_view) out += kViews[list.kind - List::dict_keys];
  out += list.is_tuple() ? "(" : "[";
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(list.items[i], out);
  }
  if (list.is_tuple())
    out += list.items.size() == 1 ? ",)" : ")";
  else
    out += "]";
  if (is_view) out += ")";
}

void append_pairs(const Dict& dict, TextBuilder& out) {
  const Budget::Nested nested(out.budget());
  out += "{";
  bool first = true;
  for (const auto& [key, value] : dict.items()) {
    if (!first) out += ", ";
    append_repr(key, out);
    out += ": ";
    append_repr(value, out);
    first = false;
  }
  out += "}";
}

// null, true, 1, 1.5: nothing for others.
std::string json_scalar(const Value& v) {
  if (v.is_none()) return "null";
  if (const bool* b = v.boolean()) return *b ? "true" : "false";
  if (const int64_t* i = v.integer()) return fmt::format("{}", *i);
  if (const double* d = v.real())
    return std::isnan(*d) ? "NaN" : std::isinf(*d) ? (*d < 0 ? "-Infinity" : "Infinity") : repr(*d);
  return "";
}

void append_json_string(const std::string& text, const JsonStyle& style, TextBuilder& out) {
  out.budget().spend_characters(text.size());
  out += json_string(text, style.ascii);
}

}  // namespace

void append_str(const Value& v, TextBuilder& out) {
  if (v.is_undefined()) return;
  if (v.text())
    out += *v.text();
  else
    append_repr(v, out);
}

void append_repr(const Value& v, TextBuilder& out) {
  if (v.is_undefined()) {
    out += "Undefined";
  } else if (v.is_none()) {
    out += "None";
  } else if (const bool* b = v.boolean()) {
    out += *b ? "True" : "False";
  } else if (const int64_t* i = v.integer()) {
    out += fmt::format("{}", *i);
  } else if (const double* d = v.real()) {
    out += repr(*d);
  } else if (v.text()) {
    out.budget().spend_characters(v.text()->size());
    out += repr(*v.text());
  } else if (v.list()) {
    append_items(*v.list(), out);
  } else if (v.dict()) {
    append_pairs(*v.dict(), out);
  } else if (v.function() && !v.function()->shown.empty()) {
    out += v.function()->shown;
  } else {
    out += fmt::format("<{}>", v.kind().substr(2));
  }
}

Value::Text str(const Value& v, Budget& budget) {
  if (v.text()) return std::get<Value::Text>(v.data());
  TextBuilder out(budget);
  append_str(v, out);
  return std::make_shared<const std::string>(out.take());
}

void append_json(const Value& v, const JsonStyle& style, TextBuilder& out, int depth) {
  const auto line = [&](int level) {
    if (!style.lines) return;
    out += "\n";
    out.repeat(style.indent, uint64_t(level));
  };
  if (const std::string scalar = json_scalar(v); !scalar.empty()) {
    out += scalar;
  } else if (v.text()) {
    append_json_string(*v.text(), style, out);
  } else if (const List* list = v.list(); list && list->has_numbers()) {
    const Budget::Nested nested(out.budget());
    out += "[";
    for (size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) out += style.item_separator;
      line(depth + 1);
      append_json(list->items[i], style, out, depth + 1);
    }
    if (!list->items.empty()) line(depth);
    out += "]";
  } else if (v.dict()) {
    const Budget::Nested nested(out.budget());
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : v.dict()->items()) items.push_back(&item);
    Budget& budget = out.budget();
    budget.spend(items.size());
    if (style.sort_keys)
      std::stable_sort(items.begin(), items.end(),
                       [&](const auto* x, const auto* y) { return is_less(x->first, y->first, budget); });
    out += "{";
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style.item_separator;
      line(depth + 1);
      const Value& key = items[i]->first;
      if (!key.text() && json_scalar(key).empty())
        throw Problem(fmt::format("tojson: {} cannot be a key in JSON", key.kind()));
      append_json_string(key.text() ? *key.text() : json_scalar(key), style, out);
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
