// Methods of texts, lists and dicts: Python's.
#include <fmt/format.h>

#include <algorithm>

#include "chat/interpreter.h"
#include "chat/py_text.h"
#include "text/unicode.h"

namespace toy::chat {
namespace {

using Text = const std::string&;

const std::string* chars_of(const Value& v) {
  return v.is_undefined() || v.is_none() ? nullptr : &v.as_text("the characters to strip");
}

template <bool left, bool right>
Value strip_method(Interpreter&, Text s, Arguments& a) {
  const std::vector<Value> v = bind("strip()", a, {"chars"});
  return std::string(strip(s, left, right, chars_of(v[0])));
}

template <bool at_start>
Value has_end(Interpreter&, Text s, Arguments& a) {
  const Value what = bind(at_start ? "startswith()" : "endswith()", a, {"prefix", "start", "end"}, 1)[0];
  const auto matches = [&](const Value& v) {
    const std::string& part = v.as_text("what a string starts or ends with");
    return at_start ? s.starts_with(part) : s.ends_with(part);
  };
  if (!what.list()) return matches(what);
  return std::any_of(what.list()->items.begin(), what.list()->items.end(), matches);
}

// At white space: the words, of which the last (or first) one takes what is left after `most` cuts.
std::vector<Value> words(std::string_view s, uint64_t most, bool from_right) {
  std::vector<std::pair<size_t, size_t>> found;
  for (size_t at = leading_space(s); at < s.size();) {
    size_t end = at;
    while (end < s.size() && !is_space(first_code_point(s.substr(end)).value))
      end += first_code_point(s.substr(end)).bytes;
    found.emplace_back(at, end);
    at = end + leading_space(s.substr(end));
  }
  if (found.size() > most && from_right) {
    found.erase(found.begin(), found.end() - int64_t(most) - 1);
    found[0].first = 0;
  } else if (found.size() > most) {
    found.resize(size_t(most) + 1);
    found.back().second = s.size();
  }
  std::vector<Value> out;
  for (const auto& [begin, end] : found) out.push_back(std::string(s.substr(begin, end - begin)));
  return out;
}

template <bool from_right>
Value split(Interpreter& in, Text s, Arguments& a) {
  const std::vector<Value> v = bind("split()", a, {"sep", "maxsplit"});
  const int64_t given = v[1].is_undefined() ? -1 : v[1].as_integer("maxsplit");
  const uint64_t most = given < 0 ? UINT64_MAX : uint64_t(given);
  in.budget().spend(4 * s.size());
  if (v[0].is_undefined() || v[0].is_none()) return make_list(words(s, most, from_right), in.budget());
  const std::string& separator = v[0].as_text("the separator");
  if (separator.empty()) throw Problem("split() at an empty separator");
  std::vector<Value> out;
  std::string_view rest = s;
  while (out.size() < most) {
    const size_t at = from_right ? rest.rfind(separator) : rest.find(separator);
    if (at == rest.npos) break;
    const std::string_view before = rest.substr(0, at), after = rest.substr(at + separator.size());
    out.push_back(std::string(from_right ? after : before));
    rest = from_right ? before : after;
  }
  out.push_back(std::string(rest));
  if (from_right) std::reverse(out.begin(), out.end());
  return make_list(std::move(out), in.budget());
}

Value splitlines(Interpreter& in, Text s, Arguments& a) {
  const bool keep = is_true(bind("splitlines()", a, {"keepends"})[0]);
  std::vector<Value> out;
  for (size_t at = 0; at < s.size();) {
    const size_t end = std::min(s.find_first_of("\n\r\v\f", at), s.size());
    const size_t next = end + (end == s.size() ? 0 : s.compare(end, 2, "\r\n") == 0 ? 2 : 1);
    out.push_back(s.substr(at, (keep ? next : end) - at));
    at = next;
  }
  return make_list(std::move(out), in.budget());
}

Value replace(Interpreter& in, Text s, Arguments& a) {
  const std::vector<Value> v = bind("replace()", a, {"old", "new", "count"}, 2);
  const std::string &from = v[0].as_text("what to replace"), &to = v[1].as_text("the replacement");
  int64_t left = v[2].is_undefined() || v[2].is_none() ? -1 : v[2].as_integer("count");
  TextBuilder out(in.budget());
  size_t at = 0;
  for (; left != 0 && at <= s.size(); --left) {
    const size_t found = s.find(from, at);
    if (found == s.npos) break;
    out += std::string_view(s).substr(at, found - at);
    out += to;
    at = found + from.size();
    if (!from.empty()) continue;  // an empty one is before each character, and at the end
    const size_t step = at < s.size() ? first_code_point(std::string_view(s).substr(at)).bytes : 1;
    out += std::string_view(s).substr(at, at < s.size() ? step : 0);
    at += step;
  }
  if (at < s.size()) out += std::string_view(s).substr(at);
  return out.take();
}

template <bool from_right, bool must>
Value find(Interpreter&, Text s, Arguments& a) {
  const Value v = bind("find()", a, {"sub"}, 1)[0];
  const std::string& part = v.as_text("what to find");
  const size_t at = from_right ? s.rfind(part) : s.find(part);
  if (must && at == s.npos) throw Problem("index(): it is not in the string");
  return at == s.npos ? int64_t(-1) : count_characters(std::string_view(s).substr(0, at));
}

Value count(Interpreter&, Text s, Arguments& a) {
  const Value v = bind("count()", a, {"sub"}, 1)[0];
  const std::string& part = v.as_text("what to count");
  if (part.empty()) return count_characters(s) + 1;
  int64_t n = 0;
  for (size_t at = 0; (at = s.find(part, at)) != s.npos; at += part.size()) ++n;
  return n;
}

Value join(Interpreter& in, Text s, Arguments& a) {
  TextBuilder out(in.budget());
  bool first = true;
  for (const Value& v : items_of(bind("join()", a, {"parts"}, 1)[0], in.budget())) {
    if (!first) out += s;
    out += v.as_text("what is joined");
    first = false;
  }
  return out.take();
}

template <bool at_start>
Value remove_end(Interpreter&, Text s, Arguments& a) {
  const Value v = bind("removeprefix()", a, {"part"}, 1)[0];
  const std::string& part = v.as_text("what to remove");
  if (at_start) return s.starts_with(part) ? s.substr(part.size()) : s;
  return s.ends_with(part) ? s.substr(0, s.size() - part.size()) : s;
}

template <bool from_right>
Value partition(Interpreter& in, Text s, Arguments& a) {
  const Value v = bind("partition()", a, {"sep"}, 1)[0];
  const std::string& separator = v.as_text("the separator");
  if (separator.empty()) throw Problem("partition() at an empty separator");
  const size_t at = from_right ? s.rfind(separator) : s.find(separator);
  const std::string none;
  std::vector<Value> parts{s, none, none};
  if (at == s.npos && from_right) parts = {none, none, s};
  if (at != s.npos) parts = {s.substr(0, at), separator, s.substr(at + separator.size())};
  return make_list(std::move(parts), in.budget(), List::tuple);
}

template <std::string (*change)(std::string_view)>
Value changed(Interpreter&, Text s, Arguments& a) {
  bind("the method", a, {});
  return change(s);
}
std::string titled(std::string_view s) { return title(s, false); }

// isdigit() and its kin: not empty, and all characters are so.
template <bool (*is)(uint32_t)>
Value all_are(Interpreter&, Text s, Arguments& a) {
  bind("the method", a, {});
  for (const std::string_view c : characters(s))
    if (!is(first_code_point(c).value)) return false;
  return !s.empty();
}
bool is_digit(uint32_t c) { return category_of(c) == "Nd"; }
bool is_alpha(uint32_t c) { return category_of(c)[0] == 'L'; }
bool is_alnum(uint32_t c) { return is_alpha(c) || category_of(c)[0] == 'N'; }

template <std::string (*change)(std::string_view), std::string (*other)(std::string_view)>
Value has_case(Interpreter&, Text s, Arguments& a) {
  bind("the method", a, {});
  return change(s) == s && other(s) != s;
}

using TextMethod = Value (*)(Interpreter&, Text, Arguments&);
constexpr std::pair<std::string_view, TextMethod> kTextMethods[] = {
    {"strip", strip_method<true, true>},
    {"lstrip", strip_method<true, false>},
    {"rstrip", strip_method<false, true>},
    {"startswith", has_end<true>},
    {"endswith", has_end<false>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"replace", replace},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count},
    {"join", join},
    {"removeprefix", remove_end<true>},
    {"removesuffix", remove_end<false>},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"lower", changed<lower>},
    {"casefold", changed<lower>},
    {"upper", changed<upper>},
    {"title", changed<titled>},
    {"capitalize", changed<capitalize>},
    {"isdigit", all_are<is_digit>},
    {"isdecimal", all_are<is_digit>},
    {"isnumeric", all_are<is_digit>},
    {"isalpha", all_are<is_alpha>},
    {"isalnum", all_are<is_alnum>},
    {"isspace", all_are<is_space>},
    {"islower", has_case<lower, upper>},
    {"isupper", has_case<upper, lower>},
};

Value made(const std::string& name, std::function<Value(Interpreter&, Arguments&)> call) {
  return std::make_shared<const Function>(Function{name, std::move(call)});
}

Value dict_method(const Value& of, const std::string& name) {
  const auto dict = std::get<std::shared_ptr<const Dict>>(of.data());
  if (name == "get")
    return made(name, [dict](Interpreter&, Arguments& a) -> Value {
      const std::vector<Value> v = bind("get()", a, {"key", "default"}, 1);
      const Value* found = v[0].text() ? dict->find(*v[0].text()) : nullptr;
      return found ? *found : v[1].is_undefined() ? Value(None{}) : v[1];
    });
  if (name == "items" || name == "keys" || name == "values")
    return made(name, [dict, name](Interpreter& in, Arguments& a) {
      bind(name, a, {});
      std::vector<Value> out;
      for (const auto& [key, value] : dict->items)
        out.push_back(name == "keys"     ? Value(key)
                      : name == "values" ? value
                                         : make_list({key, value}, in.budget(), List::tuple));
      return make_list(std::move(out), in.budget());
    });
  if (name == "copy") return made(name, [of](Interpreter&, Arguments&) { return of; });
  return {};
}

Value list_method(const Value& of, const std::string& name) {
  const auto list = std::get<std::shared_ptr<const List>>(of.data());
  if (name == "count" || name == "index")
    return made(name, [list, name](Interpreter& in, Arguments& a) -> Value {
      const Value what = bind(name, a, {"value"}, 1)[0];
      int64_t n = 0, first = -1;
      for (size_t i = 0; i < list->items.size(); ++i)
        if (equals(list->items[i], what, in.budget())) first = first < 0 ? int64_t(i) : first, ++n;
      if (name == "count") return n;
      if (first < 0) throw Problem("index(): it is not in the list");
      return first;
    });
  if (name == "copy") return made(name, [of](Interpreter&, Arguments&) { return of; });
  return {};
}

// What would change a value.
constexpr std::string_view kMutating[] = {"append", "extend", "insert", "remove",     "sort",   "reverse",
                                          "clear",  "pop",    "update", "setdefault", "popitem"};

}  // namespace

Value method(Interpreter&, const Value& of, const std::string& name) {
  if (of.text()) {
    const auto found =
        std::find_if(std::begin(kTextMethods), std::end(kTextMethods), [&](const auto& m) { return m.first == name; });
    if (found == std::end(kTextMethods)) return {};
    const auto text = std::get<Value::Text>(of.data());
    return made(name, [text, call = found->second](Interpreter& in, Arguments& a) {
      in.budget().spend(text->size() / 16 + 1);
      return call(in, *text, a);
    });
  }
  if (!of.list() && !of.dict()) return {};
  if (std::find(std::begin(kMutating), std::end(kMutating), name) != std::end(kMutating)) {
    const bool of_dicts = name == "update" || name == "setdefault" || name == "popitem";
    const bool of_both = name == "clear" || name == "pop";
    if (of_both || of_dicts == (of.dict() != nullptr))
      return made(name, [name](Interpreter&, Arguments&) -> Value {
        throw Problem(fmt::format("{}() would change a value, which templates may not", name));
      });
  }
  return of.dict() ? dict_method(of, name) : list_method(of, name);
}

}  // namespace toy::chat
