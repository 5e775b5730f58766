// Jinja's filters of lists, dicts and numbers. Those of texts: text_filters.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "chat/interpreter.h"
#include "chat/py_text.h"
#include "text/unicode.h"

namespace toy::chat {
namespace {

bool is_given(const Value& v) { return !v.is_undefined() && !v.is_none(); }
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
  Value key = !is_given(attribute) ? v : part(in, v, attribute);
  if (!key.text() || case_sensitive) return key;
  in.budget().spend_characters(key.text()->size());
  return lower(*key.text());
}

Value list_of(Interpreter& in, std::vector<Value> items, List::Kind kind = List::list) {
  return make_list(std::move(items), in.budget(), kind);
}

Value default_filter(Interpreter&, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("default", a, {"default_value", "boolean"});
  if (v.is_undefined() || (is_true(o[1]) && !is_true(v))) return or_else(o[0], std::string());
  return v;
}

Value join(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("join", a, {"d", "attribute"});
  const Value::Text between = str(o[0], in.budget());
  TextBuilder out(in.budget());
  bool first = true;
  for (const Value& one : items_of(v, in.budget())) {
    if (!first) out += *between;
    append_str(is_given(o[1]) ? part(in, one, o[1]) : one, out);
    first = false;
  }
  return out.take();
}

Value first(Interpreter& in, const Value& v, Arguments& a) {
  bind("first", a, {});
  if (const List* list = v.list(); list && list->taken < list->items.size())
    return list->items[list->kind == List::generator ? list->taken++ : 0];
  const std::vector<Value> items = items_of(v, in.budget());
  return items.empty() ? Value(Undefined{"the first item of nothing"}) : items.front();
}
Value last(Interpreter& in, const Value& v, Arguments& a) {
  bind("last", a, {});
  if (v.list() && v.list()->has_numbers() && !v.list()->items.empty()) return v.list()->items.back();
  if (v.list() && v.list()->kind == List::generator) throw Problem("last: a generator has no last item; use |list");
  const std::vector<Value> items = items_of(v, in.budget());
  return items.empty() ? Value(Undefined{"the last item of nothing"}) : items.back();
}

Value length(Interpreter& in, const Value& v, Arguments& a) {
  bind("length", a, {});
  return length_of(v, in.budget());
}

Value items(Interpreter& in, const Value& v, Arguments& a) {
  bind("items", a, {});
  if (!v.dict() && !v.is_undefined()) throw Problem(fmt::format("items: {} is no dict", v.kind()));
  std::vector<Value> out;
  if (v.dict())
    for (const auto& [key, value] : v.dict()->items()) out.push_back(make_tuple(key, value, in.budget()));
  return list_of(in, std::move(out), List::generator);
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
std::vector<Value> ordered(Interpreter& in, Keyed all, bool back) {
  order(in, all, back);
  std::vector<Value> out;
  for (auto& [key, one] : all) out.push_back(std::move(one));
  return out;
}

Value dictsort(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("dictsort", a, {"case_sensitive", "by", "reverse"});
  if (!v.dict()) throw Problem(fmt::format("dictsort: {} is no dict", v.kind()));
  const std::string by = o[1].is_undefined() ? "key" : o[1].as_text("by");
  if (by != "key" && by != "value") throw Problem(fmt::format("dictsort by '{}'; use key or value", by));
  Keyed all;
  for (const auto& [key, value] : v.dict()->items())
    all.emplace_back(sort_key(in, by == "value" ? value : key, {}, is_true(o[0])), make_tuple(key, value, in.budget()));
  return list_of(in, ordered(in, std::move(all), is_true(o[2])));
}

// By one attribute or several, with commas between them. The keys are lists, in which undefined ones are equal.
Value sort(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("sort", a, {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> attributes;
  if (o[2].text()) {
    std::string_view rest = *o[2].text();
    for (size_t end; (end = rest.find(',')) != rest.npos; rest.remove_prefix(end + 1))
      attributes.push_back(std::string(rest.substr(0, end)));
    attributes.push_back(std::string(rest));
  } else {
    attributes.push_back(o[2]);
  }
  Keyed all;
  for (Value& one : items_of(v, in.budget())) {
    std::vector<Value> keys;
    for (const Value& attribute : attributes) keys.push_back(sort_key(in, one, attribute, is_true(o[1])));
    all.emplace_back(list_of(in, std::move(keys)), std::move(one));
  }
  return list_of(in, ordered(in, std::move(all), is_true(o[0])));
}

Value unique(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("unique", a, {"case_sensitive", "attribute"});
  Table<Value> seen;
  std::vector<Value> out;
  for (auto& [key, one] : keyed(in, v, o[1], is_true(o[0]))) {
    if (seen.find(key, in.budget())) continue;
    seen.set(key, None{}, in.budget());
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
    out.push_back(make_tuple(or_else(shown, o[1]), list_of(in, std::move(group)), in.budget(), List::group));
  }
  return list_of(in, std::move(out));
}

Value sum(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("sum", a, {"attribute", "start"});
  Value all = or_else(o[1], int64_t(0));
  if (all.text()) throw Problem("sum: strings have no sum; use join");
  for (const Value& one : items_of(v, in.budget()))
    all = arithmetic("+", all, is_given(o[0]) ? part(in, one, o[0]) : one, in.budget());
  return all;
}

// The rest of the arguments, after `n`.
Arguments after(Arguments& a, size_t n) {
  return {{a.positional.begin() + int64_t(std::min(n, a.positional.size())), a.positional.end()}, a.named};
}

// map, select and reject look at nothing else where there is nothing: none, 0, false, what is undefined.
bool is_nothing(const Value& v) { return !is_true(v); }

Value map(Interpreter& in, const Value& v, Arguments& a) {
  std::vector<Value> out;
  if (is_nothing(v)) return list_of(in, {}, List::generator);
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
  if (is_nothing(v)) return list_of(in, {}, List::generator);
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
  if (v.text()) {
    in.budget().spend_text(v.text()->size(), 8 * v.text()->size());
    std::string out;
    const std::vector<std::string_view> all = characters(*v.text());
    for (size_t i = all.size(); i-- > 0;) out += all[i];
    return out;
  }
  std::vector<Value> all = items_of(v, in.budget());
  std::reverse(all.begin(), all.end());
  return list_of(in, std::move(all), List::generator);
}

Value to_list(Interpreter& in, const Value& v, Arguments& a) {
  bind("list", a, {});
  return list_of(in, items_of(v, in.budget()));
}
Value to_string(Interpreter& in, const Value& v, Arguments& a) {
  bind("string", a, {});
  return str(v, in.budget());
}
Value as_it_is(Interpreter&, const Value& v, Arguments& a) {
  bind("safe", a, {});
  return v;
}

// A number's digits as Python reads them: of any script, with _ between two of them, and white space around all.
std::optional<std::string> digits_in(const std::string& text) {
  std::string s;
  for (const std::string_view bytes : characters(strip(text, true, true))) {
    const uint32_t c = first_code_point(bytes).value;
    s += c >= 0x80 && is_decimal(c) ? std::string(1, char('0' + decimal_value(c))) : std::string(bytes);
  }
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    const auto is_digit_at = [&](size_t at) { return at < s.size() && std::isalnum(uint8_t(s[at])) != 0; };
    if (s[i] != '_')
      out += s[i];
    else if (i == 0 || !is_digit_at(i - 1) || !is_digit_at(i + 1))
      return std::nullopt;
  }
  return out.empty() || std::isspace(uint8_t(out[0])) ? std::nullopt : std::optional(out);
}

// The number that a text is; nullopt: it is none.
std::optional<double> number_in(const std::string& text) {
  const std::optional<std::string> s = digits_in(text);
  if (!s || s->find_first_of("xXpP(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double v = std::strtod(s->c_str(), &end);
  return *end == 0 ? std::optional(v) : std::nullopt;
}

// int(text, base): also with the prefix of the base. Zeros before a number have no meaning in base 10.
std::optional<int64_t> whole_in(const std::string& text, int64_t base) {
  const std::optional<std::string> s = digits_in(text);
  if (!s || (base != 0 && (base < 2 || base > 36))) return std::nullopt;
  const size_t sign = (*s)[0] == '-' || (*s)[0] == '+' ? 1 : 0;
  std::string digits = s->substr(sign);
  const char prefix = digits.size() > 2 && digits[0] == '0' ? char(digits[1] | 0x20) : ' ';
  const int64_t meant = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
  if (meant && (base == meant || base == 0)) digits = digits.substr(2);
  if (base == 0 && !meant && digits.size() > 1 && digits[0] == '0') return std::nullopt;
  int64_t out = 0;
  const auto radix = int(base == 0 ? (meant ? meant : 10) : base);
  if (digits.empty() || std::isalnum(uint8_t(digits[0])) == 0) return std::nullopt;
  const std::string all = (sign && (*s)[0] == '-' ? "-" : "") + digits;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), out, radix);
  if (end != all.data() + all.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) throw Problem("int: the number is too large");
  return error == std::errc() ? std::optional(out) : std::nullopt;
}

Value to_int(Interpreter&, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("int", a, {"default", "base"});
  const Value otherwise = or_else(o[0], int64_t(0));
  if (v.is_undefined()) throw Problem("int: what is undefined is no number");
  if (v.integer() || v.boolean()) return v.as_integer("it");
  if (v.text())
    if (const auto whole = whole_in(*v.text(), o[1].is_undefined() ? 10 : o[1].as_integer("base"))) return *whole;
  const std::optional<double> real = v.real() ? *v.real() : v.text() ? number_in(*v.text()) : std::nullopt;
  if (!real || std::isnan(*real) || (v.text() && std::isinf(*real))) return otherwise;
  if (*real < -0x1p63 || *real >= 0x1p63) throw Problem("int: the number is too large");
  return int64_t(*real);
}

Value to_float(Interpreter&, const Value& v, Arguments& a) {
  const Value otherwise = or_else(bind("float", a, {"default"})[0], 0.0);
  if (v.is_undefined()) throw Problem("float: what is undefined is no number");
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

// To a multiple of 10^digits; from the middle to an even one.
Value rounded(Interpreter& in, int64_t x, int64_t digits) {
  const int64_t unit = arithmetic("**", int64_t(10), digits, in.budget()).as_integer("it"), rest = std::abs(x % unit);
  int64_t n = x / unit;
  if (rest > unit - rest || (rest == unit - rest && n % 2 != 0)) n += x < 0 ? -1 : 1;
  return arithmetic("*", n, unit, in.budget());
}

Value round(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("round", a, {"precision", "method"});
  if (!v.is_number()) throw Problem(fmt::format("round: {} is no number", v.kind()));
  const int64_t digits = o[0].is_undefined() ? 0 : std::clamp<int64_t>(o[0].as_integer("precision"), -300, 300);
  const std::string how = o[1].is_undefined() ? "common" : o[1].as_text("method");
  const double x = v.as_real(), scale = std::pow(10.0, double(digits));
  if (how != "common" && how != "ceil" && how != "floor")
    throw Problem(fmt::format("round: '{}' is no way to round; use common, ceil or floor", how));
  if (how != "common" && !std::isfinite(x * scale)) throw Problem("round: the number is too large");
  if (how != "common") return (how == "ceil" ? std::ceil(x * scale) : std::floor(x * scale)) / scale;
  if (!v.real()) return digits >= 0 ? v.as_integer("it") : rounded(in, v.as_integer("it"), -digits);
  if (digits >= 0) return std::strtod(fmt::format("{:.{}f}", x, digits).c_str(), nullptr);
  const double unit = std::pow(10.0, double(-digits));
  return std::nearbyint(x / unit) * unit;
}

// A list is full when it has `linecount` items; one of 0 is before the first item, and never again.
Value batch(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("batch", a, {"linecount", "fill_with"}, 1);
  std::vector<Value> out, row;
  for (Value& one : items_of(v, in.budget())) {
    if (equals(int64_t(row.size()), o[0], in.budget())) out.push_back(list_of(in, std::exchange(row, {})));
    row.push_back(std::move(one));
  }
  if (!row.empty() && is_given(o[1])) {
    const auto n = uint64_t(std::max<int64_t>(o[0].as_integer("linecount"), 0));
    in.budget().spend(n > UINT64_MAX / 4 ? n : 4 * n);
    row.resize(std::max(row.size(), size_t(n)), o[1]);
  }
  if (!row.empty()) out.push_back(list_of(in, std::move(row)));
  return list_of(in, std::move(out), List::generator);
}

// So many lists of about the same length, the longer ones first.
Value slice(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("slice", a, {"slices", "fill_with"}, 1);
  const int64_t n = o[0].as_integer("slices");
  if (n == 0) throw Problem("division by zero");
  const std::vector<Value> all = items_of(v, in.budget());
  const size_t slices = n > 0 ? size_t(n) : 0, each = slices ? all.size() / slices : 0;
  in.budget().spend(8 * uint64_t(slices));
  std::vector<Value> out;
  for (size_t i = 0, at = 0; i < slices; ++i) {
    const size_t size = each + (i < all.size() % slices ? 1 : 0);
    std::vector<Value> row(all.begin() + int64_t(at), all.begin() + int64_t(at + size));
    at += size;
    if (is_given(o[1]) && i >= all.size() % slices) row.push_back(o[1]);
    out.push_back(list_of(in, std::move(row)));
  }
  return list_of(in, std::move(out), List::generator);
}

Value attr(Interpreter& in, const Value& v, Arguments& a) {
  const std::string name = bind("attr", a, {"name"}, 1)[0].as_text("the name of an attribute");
  return v.dict() ? or_else(method(v, name), Undefined{name}) : in.attribute(v, name);
}

}  // namespace

const FilterTable& list_filters() {
  static const FilterTable all = {
      {"abs", absolute},
      {"attr", attr},
      {"batch", batch},
      {"count", length},
      {"d", default_filter},
      {"default", default_filter},
      {"dictsort", dictsort},
      {"first", first},
      {"float", to_float},
      {"groupby", groupby},
      {"int", to_int},
      {"items", items},
      {"join", join},
      {"last", last},
      {"length", length},
      {"list", to_list},
      {"map", map},
      {"max", extreme<true>},
      {"min", extreme<false>},
      {"reject", select<false, false>},
      {"rejectattr", select<false, true>},
      {"reverse", reverse},
      {"round", round},
      {"safe", as_it_is},
      {"select", select<true, false>},
      {"selectattr", select<true, true>},
      {"slice", slice},
      {"sort", sort},
      {"string", to_string},
      {"sum", sum},
      {"unique", unique},
  };
  return all;
}

Filter find_filter(std::string_view name) {
  for (const FilterTable* table : {&list_filters(), &text_filters()})
    if (const auto found = table->find(name); found != table->end()) return found->second;
  return nullptr;
}

}  // namespace toy::chat
