// Jinja's filters, but for those that write HTML or take something by chance.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "chat/interpreter.h"
#include "chat/py_text.h"

namespace toy::chat {
namespace {

const Value& or_else(const Value& v, const Value& otherwise) { return v.is_undefined() ? otherwise : v; }

// value.a.b.0, as filters name parts.
Value part(Interpreter& in, Value v, const Value& path) {
  if (path.integer()) return in.item(v, path);
  std::string_view rest = path.as_text("the attribute");
  for (;;) {
    const size_t dot = rest.find('.');
    const std::string name(rest.substr(0, dot));
    const bool number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    v = number ? in.item(v, std::int64_t(std::strtoll(name.c_str(), nullptr, 10))) : in.item(v, name);
    if (dot == rest.npos) return v;
    rest.remove_prefix(dot + 1);
  }
}

// What sort, unique, min and max compare.
Value sort_key(Interpreter& in, const Value& v, const Value& attribute, bool case_sensitive) {
  Value key = attribute.is_undefined() || attribute.is_none() ? v : part(in, v, attribute);
  return key.text() && !case_sensitive ? Value(lower(*key.text())) : key;
}

Value list_of(Interpreter& in, std::vector<Value> items, List::Kind kind = List::list) {
  return make_list(std::move(items), in.budget(), kind);
}

Value tojson(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("tojson", a, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = is_true(o[0]);
  if (const Value& indent = o[1]; !indent.is_undefined() && !indent.is_none()) {
    style.lines = true;
    style.item_separator = ",";
    if (indent.text())
      style.indent = *indent.text();
    else if (const int64_t n = indent.as_integer("indent"); n > 0)
      style.indent = std::string(size_t(std::min<int64_t>(n, 1000)), ' ');
  }
  if (const Value& both = o[2]; !both.is_undefined() && !both.is_none()) {
    if (!both.list() || both.list()->items.size() != 2) throw Problem("tojson: separators are two strings");
    style.item_separator = both.list()->items[0].as_text("a separator");
    style.key_separator = both.list()->items[1].as_text("a separator");
  }
  style.sort_keys = is_true(o[3]);
  TextBuilder out(in.budget());
  append_json(v, style, out);
  return out.take();
}

Value default_filter(Interpreter&, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("default", a, {"default_value", "boolean"});
  if (v.is_undefined() || (is_true(o[1]) && !is_true(v))) return or_else(o[0], std::string());
  return v;
}

Value trim(Interpreter& in, const Value& v, Arguments& a) {
  const Value chars = bind("trim", a, {"chars"})[0];
  const bool given = !chars.is_undefined() && !chars.is_none();
  return std::string(strip(str(v, in.budget()), true, true, given ? &chars.as_text("chars") : nullptr));
}

template <std::string (*change)(std::string_view)>
Value changed(Interpreter& in, const Value& v, Arguments& a) {
  bind("the filter", a, {});
  return change(str(v, in.budget()));
}
std::string titled(std::string_view s) { return title(s, true); }

Value join(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("join", a, {"d", "attribute"});
  const std::string between = str(o[0], in.budget());
  TextBuilder out(in.budget());
  bool first = true;
  for (const Value& one : items_of(v, in.budget())) {
    if (!first) out += between;
    append_str(o[1].is_undefined() || o[1].is_none() ? one : part(in, one, o[1]), out);
    first = false;
  }
  return out.take();
}

Value replace(Interpreter& in, const Value& v, Arguments& a) {
  std::vector<Value> o = bind("replace", a, {"old", "new", "count"}, 2);
  for (size_t i = 0; i < 2; ++i) o[i] = str(o[i], in.budget());
  if (o[2].is_undefined()) o.pop_back();
  Arguments rest{std::move(o), {}};
  return method(in, str(v, in.budget()), "replace").function()->call(in, rest);
}

Value first(Interpreter& in, const Value& v, Arguments& a) {
  bind("first", a, {});
  const std::vector<Value> items = items_of(v, in.budget());
  return items.empty() ? Value(Undefined{"the first item of nothing"}) : items.front();
}
Value last(Interpreter& in, const Value& v, Arguments& a) {
  bind("last", a, {});
  if (v.list() && v.list()->kind == List::generator) throw Problem("last: a generator has no last item; use |list");
  const std::vector<Value> items = items_of(v, in.budget());
  return items.empty() ? Value(Undefined{"the last item of nothing"}) : items.back();
}

Value length(Interpreter&, const Value& v, Arguments& a) {
  bind("length", a, {});
  return length_of(v);
}

Value items(Interpreter& in, const Value& v, Arguments& a) {
  bind("items", a, {});
  if (!v.dict() && !v.is_undefined()) throw Problem(fmt::format("items: {} is no dict", v.kind()));
  std::vector<Value> out;
  if (v.dict())
    for (const auto& [key, value] : v.dict()->items) out.push_back(list_of(in, {key, value}, List::tuple));
  return list_of(in, std::move(out), List::generator);
}

Value dictsort(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("dictsort", a, {"case_sensitive", "by", "reverse"});
  if (!v.dict()) throw Problem(fmt::format("dictsort: {} is no dict", v.kind()));
  const bool by_value = o[1].text() && *o[1].text() == "value", sensitive = is_true(o[0]), back = is_true(o[2]);
  auto pairs = v.dict()->items;
  const auto key = [&](const auto& p) { return sort_key(in, by_value ? p.second : Value(p.first), {}, sensitive); };
  std::stable_sort(pairs.begin(), pairs.end(), [&](const auto& x, const auto& y) {
    return back ? is_less(key(y), key(x), in.budget()) : is_less(key(x), key(y), in.budget());
  });
  std::vector<Value> out;
  for (const auto& [name, value] : pairs) out.push_back(list_of(in, {name, value}, List::tuple));
  return list_of(in, std::move(out));
}

// Items with what they are compared by, in a stable order.
using Keyed = std::vector<std::pair<Value, Value>>;
Keyed keyed(Interpreter& in, const Value& v, const Value& attribute, bool sensitive) {
  Keyed out;
  for (Value& one : items_of(v, in.budget())) {
    Value key = sort_key(in, one, attribute, sensitive);
    out.emplace_back(std::move(key), std::move(one));
  }
  return out;
}
void order(Interpreter& in, Keyed& all, bool back) {
  std::stable_sort(all.begin(), all.end(), [&](const auto& x, const auto& y) {
    return back ? is_less(y.first, x.first, in.budget()) : is_less(x.first, y.first, in.budget());
  });
}

Value sort(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("sort", a, {"reverse", "case_sensitive", "attribute"});
  Keyed all = keyed(in, v, o[2], is_true(o[1]));
  order(in, all, is_true(o[0]));
  std::vector<Value> out;
  for (auto& [key, one] : all) out.push_back(std::move(one));
  return list_of(in, std::move(out));
}

Value unique(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("unique", a, {"case_sensitive", "attribute"});
  std::vector<Value> seen, out;
  for (auto& [key, one] : keyed(in, v, o[1], is_true(o[0]))) {
    const bool is_new = std::none_of(seen.begin(), seen.end(),
                                     [&key = key, &in](const Value& s) { return equals(s, key, in.budget()); });
    if (!is_new) continue;
    seen.push_back(key);
    out.push_back(std::move(one));
  }
  return list_of(in, std::move(out), List::generator);
}

template <bool greatest>
Value extreme(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind(greatest ? "max" : "min", a, {"case_sensitive", "attribute"});
  Keyed all = keyed(in, v, o[1], is_true(o[0]));
  if (all.empty()) return Undefined{"the extreme of nothing"};
  size_t best = 0;
  for (size_t i = 1; i < all.size(); ++i)
    if (greatest ? is_less(all[best].first, all[i].first, in.budget())
                 : is_less(all[i].first, all[best].first, in.budget()))
      best = i;
  return all[best].second;
}

Value groupby(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("groupby", a, {"attribute", "default", "case_sensitive"}, 1);
  Keyed all = keyed(in, v, o[0], is_true(o[2]));
  for (auto& [key, one] : all)
    if (key.is_undefined()) key = o[1];
  order(in, all, false);
  std::vector<Value> out;
  for (size_t i = 0; i < all.size();) {
    std::vector<Value> group;
    const size_t from = i;
    for (; i < all.size() && equals(all[i].first, all[from].first, in.budget()); ++i) group.push_back(all[i].second);
    const Value shown = part(in, all[from].second, o[0]);
    out.push_back(list_of(in, {or_else(shown, o[1]), list_of(in, std::move(group))}, List::tuple));
  }
  return list_of(in, std::move(out));
}

Value sum(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("sum", a, {"attribute", "start"});
  Value all = or_else(o[1], int64_t(0));
  for (const Value& one : items_of(v, in.budget()))
    all = arithmetic("+", all, o[0].is_undefined() || o[0].is_none() ? one : part(in, one, o[0]), in.budget());
  return all;
}

// The rest of the arguments, after `n`.
Arguments after(Arguments& a, size_t n) {
  return {{a.positional.begin() + int64_t(std::min(n, a.positional.size())), a.positional.end()}, a.named};
}

Value map(Interpreter& in, const Value& v, Arguments& a) {
  std::vector<Value> out;
  if (a.positional.empty()) {
    const std::vector<Value> o = bind("map", a, {"attribute", "default"}, 1);
    for (const Value& one : items_of(v, in.budget())) out.push_back(or_else(part(in, one, o[0]), o[1]));
    return list_of(in, std::move(out), List::generator);
  }
  const std::string& name = a.positional[0].as_text("the name of a filter");
  const Filter filter = find_filter(name);
  if (!filter) throw Problem(fmt::format("the filter '{}' is not known", name));
  for (const Value& one : items_of(v, in.budget())) {
    Arguments rest = after(a, 1);
    out.push_back(filter(in, one, rest));
  }
  return list_of(in, std::move(out), List::generator);
}

// select, reject and their kin with an attribute.
template <bool keep, bool by_attribute>
Value select(Interpreter& in, const Value& v, Arguments& a) {
  constexpr size_t kTest = by_attribute ? 1 : 0;
  if (a.positional.size() < kTest) throw Problem("selectattr and rejectattr need the name of an attribute");
  Test test = nullptr;
  if (a.positional.size() > kTest) {
    const std::string& name = a.positional[kTest].as_text("the name of a test");
    test = find_test(name);
    if (!test) throw Problem(fmt::format("the test '{}' is not known", name));
  }
  std::vector<Value> out;
  for (const Value& one : items_of(v, in.budget())) {
    const Value tested = by_attribute ? part(in, one, a.positional[0]) : one;
    Arguments rest = after(a, kTest + 1);
    if ((test ? test(in, tested, rest) : is_true(tested)) == keep) out.push_back(one);
  }
  return list_of(in, std::move(out), List::generator);
}

Value reverse(Interpreter& in, const Value& v, Arguments& a) {
  bind("reverse", a, {});
  std::vector<Value> all = items_of(v, in.budget());
  std::reverse(all.begin(), all.end());
  if (!v.text()) return list_of(in, std::move(all), List::generator);
  TextBuilder out(in.budget());
  for (const Value& c : all) out += *c.text();
  return out.take();
}

Value to_list(Interpreter& in, const Value& v, Arguments& a) {
  bind("list", a, {});
  return list_of(in, items_of(v, in.budget()));
}
Value to_string(Interpreter& in, const Value& v, Arguments& a) {
  bind("string", a, {});
  return v.text() ? v : Value(str(v, in.budget()));
}
Value as_it_is(Interpreter&, const Value& v, Arguments& a) {
  bind("safe", a, {});
  return v;
}

// The number that a text is; nullopt: it is none.
std::optional<double> number_in(const std::string& text) {
  const std::string s(strip(text, true, true));
  if (s.empty() || s.find_first_of("xXpP") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double v = std::strtod(s.c_str(), &end);
  return *end == 0 ? std::optional(v) : std::nullopt;
}

Value to_int(Interpreter&, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("int", a, {"default", "base"});
  const Value otherwise = or_else(o[0], int64_t(0));
  if (v.integer() || v.boolean()) return v.as_integer("it");
  if (v.text()) {
    const std::string s(strip(*v.text(), true, true));
    const int base = o[1].is_undefined() ? 10 : int(std::clamp<int64_t>(o[1].as_integer("base"), 2, 36));
    char* end = nullptr;
    errno = 0;
    const long long whole = std::strtoll(s.c_str(), &end, base);
    if (!s.empty() && *end == 0 && errno == 0) return int64_t(whole);
  }
  const std::optional<double> real = v.real() ? *v.real() : v.text() ? number_in(*v.text()) : std::nullopt;
  constexpr double kMost = 9e18;
  return real && std::abs(*real) < kMost ? Value(int64_t(*real)) : otherwise;
}

Value to_float(Interpreter&, const Value& v, Arguments& a) {
  const Value otherwise = or_else(bind("float", a, {"default"})[0], 0.0);
  if (v.is_number()) return v.as_real();
  const std::optional<double> real = v.text() ? number_in(*v.text()) : std::nullopt;
  return real ? Value(*real) : otherwise;
}

Value absolute(Interpreter& in, const Value& v, Arguments& a) {
  bind("abs", a, {});
  if (!v.is_number()) throw Problem(fmt::format("abs: {} is no number", v.kind()));
  if (v.real()) return std::abs(*v.real());
  return v.as_integer("it") < 0 ? arithmetic("-", int64_t(0), v, in.budget()) : Value(v.as_integer("it"));
}

Value round(Interpreter&, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("round", a, {"precision", "method"});
  if (!v.is_number()) throw Problem(fmt::format("round: {} is no number", v.kind()));
  const int64_t digits = o[0].is_undefined() ? 0 : std::clamp<int64_t>(o[0].as_integer("precision"), -300, 300);
  const std::string how = o[1].is_undefined() ? "common" : o[1].as_text("method");
  const double x = v.as_real(), scale = std::pow(10.0, double(digits));
  if (how == "ceil") return std::ceil(x * scale) / scale;
  if (how == "floor") return std::floor(x * scale) / scale;
  if (how != "common") throw Problem(fmt::format("round: '{}' is no way to round; use common, ceil or floor", how));
  if (digits < 0) return std::nearbyint(x * scale) / scale;
  const double rounded = std::strtod(fmt::format("{:.{}f}", x, digits).c_str(), nullptr);
  return v.real() ? Value(rounded) : v;
}

Value indent(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("indent", a, {"width", "first", "blank"});
  const Value width = or_else(o[0], int64_t(4));
  constexpr int64_t kWidest = 1000;
  const std::string by = width.text()
                             ? *width.text()
                             : std::string(size_t(std::clamp<int64_t>(width.as_integer("width"), 0, kWidest)), ' ');
  const std::string text = str(v, in.budget());
  TextBuilder out(in.budget());
  bool is_first = true;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (!is_first) out += "\n";
    if (is_first ? is_true(o[1]) : end > at || is_true(o[2])) out += by;
    out += std::string_view(text).substr(at, end - at);
    is_first = false;
    at = end + 1;
  }
  return out.take();
}

Value format(Interpreter& in, const Value& v, Arguments& a) {
  if (!a.named.empty()) throw Problem("format takes values without names");
  return arithmetic("%", str(v, in.budget()), list_of(in, std::move(a.positional), List::tuple), in.budget());
}

Value batch(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("batch", a, {"linecount", "fill_with"}, 1);
  const auto n = size_t(std::clamp<int64_t>(o[0].as_integer("linecount"), 1, 1'000'000));
  std::vector<Value> out, row;
  for (Value& one : items_of(v, in.budget())) {
    if (row.size() == n) out.push_back(list_of(in, std::exchange(row, {})));
    row.push_back(std::move(one));
  }
  in.budget().spend(4 * n);
  if (!row.empty() && !o[1].is_undefined() && !o[1].is_none()) row.resize(n, o[1]);
  if (!row.empty()) out.push_back(list_of(in, std::move(row)));
  return list_of(in, std::move(out), List::generator);
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"abs", absolute},
    {"batch", batch},
    {"capitalize", changed<capitalize>},
    {"count", length},
    {"d", default_filter},
    {"default", default_filter},
    {"dictsort", dictsort},
    {"first", first},
    {"float", to_float},
    {"format", format},
    {"groupby", groupby},
    {"indent", indent},
    {"int", to_int},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", to_list},
    {"lower", changed<lower>},
    {"map", map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"replace", replace},
    {"reverse", reverse},
    {"round", round},
    {"safe", as_it_is},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
    {"sort", sort},
    {"string", to_string},
    {"sum", sum},
    {"title", changed<titled>},
    {"tojson", tojson},
    {"trim", trim},
    {"unique", unique},
    {"upper", changed<upper>},
};

}  // namespace

Filter find_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters)
    if (known == name) return filter;
  return nullptr;
}

}  // namespace toy::chat
