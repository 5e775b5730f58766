// Methods of texts: Python's.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "chat/formatting.h"
#include "chat/interpreter.h"
#include "chat/py_text.h"
#include "chat/text_search.h"
#include "text/unicode.h"

namespace toy::chat {
namespace {

using Text = const std::string&;

const std::string* chars_of(const Value& v) {
  return v.is_undefined() || v.is_none() ? nullptr : &v.as_text("the characters to strip");
}

template <bool left, bool right>
Value strip_method(Interpreter& in, Text s, Arguments& a) {
  in.budget().spend_characters(s.size());
  const std::vector<Value> v = bind("strip()", a, {"chars"});
  return std::string(strip(s, left, right, chars_of(v[0])));
}

bool is_given(const Value& v) { return !v.is_undefined() && !v.is_none(); }

// The part of a text between the characters `from` and `to`, where they are given, and where it begins; nullopt: they
// are beyond the text.
struct TextPart {
  std::string_view text;
  int64_t begin = 0;  // in characters
};
std::optional<TextPart> part_of(const std::string& s, const Value& from, const Value& to) {
  if (!is_given(from) && !is_given(to)) return TextPart{s, 0};
  const int64_t n = count_characters(s);
  const auto index = [&](const Value& v, int64_t otherwise) {
    if (!is_given(v)) return otherwise;
    const int64_t i = v.as_integer("the begin or end in a string");
    return i < 0 ? std::max<int64_t>(0, i < -n ? 0 : i + n) : i;
  };
  const int64_t begin = index(from, 0), end = std::min(index(to, n), n);
  if (begin > n || begin > end) return std::nullopt;
  const size_t at = character_begin(s, begin);
  return TextPart{std::string_view(s).substr(at, character_begin(s, end) - at), begin};
}

template <bool at_start>
Value has_end(Interpreter& in, Text s, Arguments& a) {
  const std::vector<Value> v = bind(at_start ? "startswith()" : "endswith()", a, {"prefix", "start", "end"}, 1);
  const std::optional<TextPart> part = part_of(s, v[1], v[2]);
  const auto matches = [&](const Value& one) {
    const std::string& end = one.as_text("what a string starts or ends with");
    in.budget().spend_reading(end.size());
    return part && (at_start ? part->text.starts_with(end) : part->text.ends_with(end));
  };
  const List* several = v[0].list();
  if (!several || !several->is_tuple()) return matches(v[0]);
  return std::any_of(several->items.begin(), several->items.end(), matches);
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
  const std::string_view text = s;
  size_t edge = from_right ? s.size() : 0;  // of what is not cut off yet
  if (most > 0)
    each_match(s, separator, from_right, in.budget(), [&](size_t at) {
      in.budget().spend(4);
      const size_t after = at + separator.size();
      out.push_back(std::string(from_right ? text.substr(after, edge - after) : text.substr(edge, at - edge)));
      edge = from_right ? at : after;
      return out.size() < most;
    });
  out.push_back(std::string(from_right ? text.substr(0, edge) : text.substr(edge)));
  if (from_right) std::reverse(out.begin(), out.end());
  return make_list(std::move(out), in.budget());
}

Value splitlines(Interpreter& in, Text s, Arguments& a) {
  const bool keep = is_true(bind("splitlines()", a, {"keepends"})[0]);
  in.budget().spend_characters(s.size());
  std::vector<Value> out;
  for (const std::string_view line : lines(s, keep)) {
    in.budget().spend(4);
    out.push_back(std::string(line));
  }
  return make_list(std::move(out), in.budget());
}

Value replace(Interpreter& in, Text s, Arguments& a) {
  const std::vector<Value> v = bind("replace()", a, {"old", "new", "count"}, 2);
  const std::string &from = v[0].as_text("what to replace"), &to = v[1].as_text("the replacement");
  const int64_t count = is_given(v[2]) ? v[2].as_integer("count") : -1;
  uint64_t left = count < 0 ? UINT64_MAX : uint64_t(count);
  const std::string_view text = s;
  TextBuilder out(in.budget());
  size_t at = 0;
  if (from.empty()) {  // it is before each character, and at the end
    for (; left > 0 && at <= s.size(); --left) {
      out += to;
      const size_t step = at < s.size() ? character_begin(text.substr(at), 1) : 1;
      out += text.substr(at, at < s.size() ? step : 0);
      at += step;
    }
  } else if (left > 0) {
    each_match(s, from, false, in.budget(), [&](size_t found) {
      out += text.substr(at, found - at);
      out += to;
      at = found + from.size();
      return --left > 0;
    });
  }
  if (at < s.size()) out += text.substr(at);
  return out.take();
}

template <bool from_right, bool must>
Value find(Interpreter& in, Text s, Arguments& a) {
  const std::vector<Value> v = bind("find()", a, {"sub", "start", "end"}, 1);
  const std::string& sub = v[0].as_text("what to find");
  const std::optional<TextPart> part = part_of(s, v[1], v[2]);
  const size_t at = part ? find_text(part->text, sub, in.budget(), from_right) : kNotFound;
  if (must && at == kNotFound) throw Problem("index(): it is not in the string");
  return at == kNotFound ? int64_t(-1) : part->begin + count_characters(part->text.substr(0, at));
}

Value count(Interpreter& in, Text s, Arguments& a) {
  const std::vector<Value> v = bind("count()", a, {"sub", "start", "end"}, 1);
  const std::string& sub = v[0].as_text("what to count");
  const std::optional<TextPart> part = part_of(s, v[1], v[2]);
  if (!part) return int64_t(0);
  if (sub.empty()) return count_characters(part->text) + 1;
  int64_t n = 0;
  each_match(part->text, sub, false, in.budget(), [&](size_t) { return ++n > 0; });
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
  const size_t at = find_text(s, separator, in.budget(), from_right);
  const std::string none;
  std::vector<Value> parts{s, none, none};
  if (at == kNotFound && from_right) parts = {none, none, s};
  if (at != kNotFound) parts = {s.substr(0, at), separator, s.substr(at + separator.size())};
  return make_list(std::move(parts), in.budget(), List::tuple);
}

template <std::string (*change)(std::string_view)>
Value changed(Interpreter& in, Text s, Arguments& a) {
  bind("the method", a, {});
  in.budget().spend_characters(s.size());
  return change(s);
}
std::string titled(std::string_view s) { return title(s, false); }

// isdigit() and its kin: all characters are so, and there are some, but for those that an empty text has, too.
template <bool (*is)(uint32_t), bool empty = false>
Value all_are(Interpreter& in, Text s, Arguments& a) {
  bind("the method", a, {});
  in.budget().spend_characters(s.size());
  for (size_t at = 0; at < s.size();) {
    const CodePoint c = first_code_point(std::string_view(s).substr(at));
    if (!is(c.value)) return false;
    at += c.bytes;
  }
  return empty || !s.empty();
}
bool is_ascii(uint32_t c) { return c < 0x80; }

Value is_identifier(Interpreter& in, Text s, Arguments& a) {
  return !s.empty() && !is_decimal(first_code_point(s).value) && *all_are<is_word>(in, s, a).boolean();
}

template <Letters kind>
Value has_case(Interpreter& in, Text s, Arguments& a) {
  bind("the method", a, {});
  in.budget().spend_characters(s.size());
  return are_all(kind, s);
}

// In a field of so many characters: ljust(), rjust() and center().
template <char align>
Value justified(Interpreter& in, Text s, Arguments& a) {
  const std::vector<Value> v = bind("the method", a, {"width", "fillchar"}, 1);
  FormatSpec spec;
  spec.width = v[0].as_integer("the width");
  if (is_given(v[1])) spec.fill = v[1].as_text("the character to fill with");
  if (count_characters(spec.fill) != 1) throw Problem("what to fill with is not one character");
  const int64_t missing = spec.width - count_characters(s);
  if (align != '^' || missing <= 0) return padded(s, spec, align, in.budget());
  // Where it is not even, an odd width has more before it.
  const int64_t before = missing / 2 + (missing & spec.width & 1);
  TextBuilder out(in.budget());
  out.repeat(spec.fill, uint64_t(before));
  out += s;
  out.repeat(spec.fill, uint64_t(missing - before));
  return out.take();
}

Value zfill(Interpreter& in, Text s, Arguments& a) {
  FormatSpec spec;
  spec.width = bind("zfill()", a, {"width"}, 1)[0].as_integer("the width");
  spec.fill = "0";
  const size_t sign = !s.empty() && (s[0] == '+' || s[0] == '-') ? 1 : 0;
  spec.width -= int64_t(std::min<uint64_t>(sign, uint64_t(std::max<int64_t>(spec.width, 0))));
  return s.substr(0, sign) + padded(std::string_view(s).substr(sign), spec, '>', in.budget());
}

Value expandtabs(Interpreter& in, Text s, Arguments& a) {
  const Value size = bind("expandtabs()", a, {"tabsize"})[0];
  const int64_t tab = size.is_undefined() ? 8 : size.as_integer("tabsize");
  TextBuilder out(in.budget());
  int64_t column = 0;
  for (const std::string_view c : characters(s)) {
    if (c == "\t") {
      const int64_t blanks = tab > 0 ? tab - column % tab : 0;
      out.repeat(" ", uint64_t(blanks));
      column += blanks;
    } else {
      out += c;
      column = c == "\n" || c == "\r" ? 0 : column + 1;
    }
  }
  return out.take();
}

Value format(Interpreter& in, Text s, Arguments& a) { return format_braces(in, s, a); }
Value format_map(Interpreter& in, Text s, Arguments& a) {
  const Value values = bind("format_map()", a, {"mapping"}, 1)[0];
  if (!values.dict()) throw Problem("format_map() needs a dict");
  in.budget().spend(8 * values.dict()->items().size());
  Arguments named;
  for (const auto& [key, value] : values.dict()->items())
    if (key.text()) named.named.emplace_back(*key.text(), value);
  return format_braces(in, s, named);
}

using TextMethod = Value (*)(Interpreter&, Text, Arguments&);
const std::unordered_map<std::string_view, TextMethod>& text_methods() {
  static const std::unordered_map<std::string_view, TextMethod> all = {
      {"capitalize", changed<capitalize>},
      {"casefold", changed<casefold>},
      {"center", justified<'^'>},
      {"count", count},
      {"endswith", has_end<false>},
      {"expandtabs", expandtabs},
      {"find", find<false, false>},
      {"format", format},
      {"format_map", format_map},
      {"index", find<false, true>},
      {"isalnum", all_are<is_alnum>},
      {"isalpha", all_are<is_alpha>},
      {"isascii", all_are<is_ascii, true>},
      {"isdecimal", all_are<is_decimal>},
      {"isdigit", all_are<is_digit>},
      {"isidentifier", is_identifier},
      {"islower", has_case<Letters::lower>},
      {"isnumeric", all_are<is_numeric>},
      {"isprintable", all_are<is_printable, true>},
      {"isspace", all_are<is_space>},
      {"istitle", has_case<Letters::title>},
      {"isupper", has_case<Letters::upper>},
      {"join", join},
      {"ljust", justified<'<'>},
      {"lower", changed<lower>},
      {"lstrip", strip_method<true, false>},
      {"partition", partition<false>},
      {"removeprefix", remove_end<true>},
      {"removesuffix", remove_end<false>},
      {"replace", replace},
      {"rfind", find<true, false>},
      {"rindex", find<true, true>},
      {"rjust", justified<'>'>},
      {"rpartition", partition<true>},
      {"rsplit", split<true>},
      {"rstrip", strip_method<false, true>},
      {"split", split<false>},
      {"splitlines", splitlines},
      {"startswith", has_end<true>},
      {"strip", strip_method<true, true>},
      {"swapcase", changed<swapcase>},
      {"title", changed<titled>},
      {"upper", changed<upper>},
      {"zfill", zfill},
  };
  return all;
}

}  // namespace

Value text_method(const Value::Text& text, const std::string& name) {
  const auto found = text_methods().find(name);
  if (found == text_methods().end()) return {};
  return callable(name, [text, call = found->second](Interpreter& in, Arguments& a) {
    in.budget().spend_reading(text->size());
    for (const Value& v : a.positional)
      if (v.text()) in.budget().spend_reading(v.text()->size());
    return call(in, *text, a);
  });
}

}  // namespace toy::chat
