// Jinja's filters of texts.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "chat/formatting.h"
#include "chat/interpreter.h"
#include "chat/py_text.h"
#include "chat/wrap.h"
#include "text/unicode.h"

namespace toy::chat {
namespace {

bool is_given(const Value& v) { return !v.is_undefined() && !v.is_none(); }
const Value& or_else(const Value& v, const Value& otherwise) { return v.is_undefined() ? otherwise : v; }

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

Value trim(Interpreter& in, const Value& v, Arguments& a) {
  const Value chars = bind("trim", a, {"chars"})[0];
  const bool given = !chars.is_undefined() && !chars.is_none();
  const Value::Text text = str(v, in.budget());
  in.budget().spend_characters(text->size());
  return std::string(strip(*text, true, true, given ? &chars.as_text("chars") : nullptr));
}

template <std::string (*change)(std::string_view)>
Value changed(Interpreter& in, const Value& v, Arguments& a) {
  bind("the filter", a, {});
  const Value::Text text = str(v, in.budget());
  in.budget().spend_characters(text->size());
  return change(*text);
}
std::string titled(std::string_view s) { return title(s, true); }

Value replace(Interpreter& in, const Value& v, Arguments& a) {
  std::vector<Value> o = bind("replace", a, {"old", "new", "count"}, 2);
  for (size_t i = 0; i < 2; ++i) o[i] = str(o[i], in.budget());
  if (o[2].is_undefined()) o.pop_back();
  Arguments rest{std::move(o), {}};
  return method(str(v, in.budget()), "replace").function()->call(in, rest);
}

Value indent(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("indent", a, {"width", "first", "blank"});
  const Value width = or_else(o[0], int64_t(4));
  constexpr int64_t kWidest = 100'000;
  const std::string by = width.text()
                             ? *width.text()
                             : std::string(size_t(std::clamp<int64_t>(width.as_integer("width"), 0, kWidest)), ' ');
  const std::string text = v.as_text("what is indented") + "\n";
  in.budget().spend_characters(text.size());
  TextBuilder out(in.budget());
  bool is_first = true;
  for (const std::string_view line : lines(text)) {
    if (!is_first) out += "\n";
    if (is_first ? is_true(o[1]) : !line.empty() || is_true(o[2])) out += by;
    out += line;
    is_first = false;
  }
  return out.take();
}

Value format(Interpreter& in, const Value& v, Arguments& a) {
  if (!a.named.empty() && !a.positional.empty())
    throw Problem("format takes values with names or without, but not both");
  const Value::Text text = str(v, in.budget());
  if (a.named.empty())
    return format_percent(*text, make_list(std::move(a.positional), in.budget(), List::tuple), in.budget());
  Table<Value> named;
  for (auto& [name, value] : a.named) named.set(name, std::move(value), in.budget());
  return format_percent(*text, make_dict(std::move(named), in.budget()), in.budget());
}

Value center(Interpreter& in, const Value& v, Arguments& a) {
  const Value width = or_else(bind("center", a, {"width"})[0], int64_t(80));
  Arguments rest{{width}, {}};
  return method(str(v, in.budget()), "center").function()->call(in, rest);
}

Value truncate(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("truncate", a, {"length", "killwords", "end", "leeway"});
  const std::string end = o[2].is_undefined() ? "..." : o[2].as_text("end");
  const int64_t length = or_else(o[0], int64_t(255)).as_integer("length");
  const int64_t leeway = is_given(o[3]) ? o[3].as_integer("leeway") : 5;
  const int64_t kept = length - count_characters(end);
  if (kept < 0 || leeway < 0) throw Problem("truncate: the length is below that of the end, or the leeway below 0");
  const std::string& text = v.as_text("what is truncated");
  in.budget().spend_reading(2 * text.size());
  const int64_t most = length > INT64_MAX - leeway ? INT64_MAX : length + leeway;
  if (count_characters(text) <= most) return v;
  std::string out = text.substr(0, character_begin(text, kept));
  if (!is_true(o[1])) out = out.substr(0, out.rfind(' '));
  return out + end;
}

Value wordcount(Interpreter& in, const Value& v, Arguments& a) {
  bind("wordcount", a, {});
  const Value::Text text = str(v, in.budget());
  in.budget().spend_characters(text->size());
  int64_t words = 0;
  bool in_word = false;
  for (size_t at = 0; at < text->size();) {
    const CodePoint c = first_code_point(std::string_view(*text).substr(at));
    if (is_word(c.value) && !in_word) ++words;
    in_word = is_word(c.value);
    at += c.bytes;
  }
  return words;
}

Value wordwrap(Interpreter& in, const Value& v, Arguments& a) {
  const std::vector<Value> o = bind("wordwrap", a, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  WrapStyle style;
  const int64_t width = or_else(o[0], int64_t(79)).as_integer("width");
  if (width <= 0) throw Problem(fmt::format("wordwrap: the width is {}; it must be above 0", width));
  style.width = size_t(width);
  style.breaks_words = o[1].is_undefined() || is_true(o[1]);
  style.breaks_hyphens = o[3].is_undefined() || is_true(o[3]);
  const std::string between = is_given(o[2]) ? o[2].as_text("wrapstring") : "\n";
  TextBuilder out(in.budget());
  bool first = true;
  for (const std::string_view line : lines(v.as_text("what is wrapped"))) {
    in.budget().spend(2 * line.size() + 1);
    if (!first) out += between;
    first = true;
    for (const std::string& one : wrapped(line, style)) {
      if (!first) out += between;
      out += one;
      first = false;
    }
    first = false;
  }
  return out.take();
}

Value filesizeformat(Interpreter& in, const Value& v, Arguments& a) {
  const bool binary = is_true(bind("filesizeformat", a, {"binary"})[0]);
  Arguments otherwise{{None{}}, {}};
  const Value number = find_filter("float")(in, v, otherwise);
  if (!number.is_number()) throw Problem(fmt::format("filesizeformat: {} is no number", v.kind()));
  const double bytes = number.as_real(), base = binary ? 1024 : 1000;
  if (bytes == 1) return std::string("1 Byte");
  if (!(bytes >= base)) return fmt::format("{:.0f} Bytes", std::trunc(bytes));
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < kPrefixes.size() && bytes >= unit; ++i) unit *= base;
  const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
  return fmt::format("{:.1f} {}{}", base * bytes / unit, prefix, binary ? "iB" : "B");
}

Value pprint(Interpreter& in, const Value& v, Arguments& a) {
  bind("pprint", a, {});
  return pretty(v, in.budget());
}

// As HTML writes it. What was written so before is not known, so it is written twice.
Value escape(Interpreter& in, const Value& v, Arguments& a) {
  bind("escape", a, {});
  const Value::Text text = str(v, in.budget());
  TextBuilder out(in.budget());
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find_first_of("&<>'\"", at), text->size());
    out += std::string_view(*text).substr(at, end - at);
    at = end + 1;
    if (end == text->size()) break;
    const char c = (*text)[end];
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&#34;" : "&#39;";
  }
  return out.take();
}

std::string url_quoted(const std::string& text, bool in_query) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (uint8_t(c) < 0x80 &&
        (std::isalnum(uint8_t(c)) != 0 || std::string_view("_.-~").find(c) != std::string_view::npos))
      out += c;
    else if (c == '/' && !in_query)
      out += c;
    else if (c == ' ' && in_query)
      out += '+';
    else
      out += {'%', kHex[uint8_t(c) >> 4], kHex[uint8_t(c) & 15]};
  }
  return out;
}

// A text, or the pairs of a query.
Value urlencode(Interpreter& in, const Value& v, Arguments& a) {
  bind("urlencode", a, {});
  const auto quoted = [&](const Value& one, bool in_query) {
    const Value::Text text = str(one, in.budget());
    in.budget().spend(text->size());
    return url_quoted(*text, in_query);
  };
  if (!v.dict() && !v.list()) return quoted(v, false);
  TextBuilder out(in.budget());
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.text().empty()) out += "&";
    out += quoted(key, true) + "=" + quoted(value, true);
  };
  if (v.dict())
    for (const auto& [key, value] : v.dict()->items()) add(key, value);
  else
    for (const Value& pair : items_of(v, in.budget())) {
      const std::vector<Value> both = items_of(pair, in.budget());
      if (both.size() != 2) throw Problem("urlencode needs a text, a dict or pairs");
      add(both[0], both[1]);
    }
  return out.take();
}

}  // namespace

const FilterTable& text_filters() {
  static const FilterTable all = {
      {"capitalize", changed<capitalize>},
      {"center", center},
      {"e", escape},
      {"escape", escape},
      {"filesizeformat", filesizeformat},
      {"forceescape", escape},
      {"format", format},
      {"indent", indent},
      {"lower", changed<lower>},
      {"pprint", pprint},
      {"replace", replace},
      {"title", changed<titled>},
      {"tojson", tojson},
      {"trim", trim},
      {"truncate", truncate},
      {"upper", changed<upper>},
      {"urlencode", urlencode},
      {"wordcount", wordcount},
      {"wordwrap", wordwrap},
  };
  return all;
}

}  // namespace toy::chat
