#include "toy/base/json_text.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "toy/base/error.h"

namespace toy {
namespace {

template <class Json>
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Brackets outside of strings. Of what is not JSON, the parser says more.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\';
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// Is v whole, and does T hold it? The largest int64_t is no double, the power of two above it is.
template <class T>
bool holds(double v) {
  if constexpr (std::is_integral_v<T>)
    return v >= -0x1p63 && v < 0x1p63 && std::trunc(v) == v;
  else
    return v >= double(std::numeric_limits<T>::lowest()) && v <= double(std::numeric_limits<T>::max());
}

}  // namespace

std::string json_text(const nlohmann::json& json, int indent) { return text_of(json, indent); }
std::string json_text(const nlohmann::ordered_json& json, int indent) { return text_of(json, indent); }

namespace {

// "[json.exception.parse_error.101] parse error at line 1, column 3: syntax error while parsing array - unexpected '{';
// expected ']'" as "column 3: unexpected '{'; expected ',' or ']'", with the line where there are several.
std::string mistake(std::string what, bool has_lines) {
  const auto replace = [&](std::string_view from, std::string_view to) {
    if (const size_t at = what.find(from); at != what.npos) what.replace(at, from.size(), to);
  };
  if (const size_t start = what.find("] "); start != what.npos) what.erase(0, start + 2);
  replace(has_lines ? "parse error at " : "parse error at line 1, ", "");
  if (const size_t at = what.find("syntax error while parsing "); at != what.npos)
    if (const size_t dash = what.find(" - ", at); dash != what.npos) what.erase(at, dash + 3 - at);
  replace("unexpected ']'; expected '[', '{', or a literal", "unexpected ']'; expected a value, or no comma before it");
  replace("unexpected '}'; expected string literal",
          "unexpected '}'; expected a name in double quotes, or no comma before it");
  replace("; expected ']'", "; expected ',' or ']'");
  replace("; expected '}'", "; expected ',' or '}'");
  replace("; expected string literal", "; expected a name in double quotes");
  replace("expected '[', '{', or a literal", "expected a value");
  replace("unexpected end of input", "the text ends too early");
  replace("expected end of input", "expected nothing more");
  replace("invalid literal; last read:", "neither text in double quotes, a number, true, false nor null; last read:");
  const size_t last_read = what.find("neither text in double quotes");
  if (last_read != what.npos && (what.ends_with("''") || what.find("'';") != what.npos))
    what = what.substr(0, last_read) + "a single quote; names and texts have double quotes";
  return what;
}

}  // namespace

template <class Json>
Json parse_json(std::string_view text) {
  return too_deep(text) ? Json(Json::value_t::discarded) : Json::parse(text, nullptr, false);
}
template nlohmann::json parse_json(std::string_view);
template nlohmann::ordered_json parse_json(std::string_view);

template <class Json>
Json read_json(std::string_view where, std::string_view text, const std::function<void(const std::string&)>& on_key) {
  check(text.find('\0') == text.npos, "{}: not JSON: it has NUL bytes, so it is a model, a picture or the like", where);
  check(!too_deep(text), "{}: the JSON nests more than {} levels", where, kMaxJsonDepth);
  const auto see = [&](int depth, typename Json::parse_event_t event, const Json& key) {
    if (depth == 1 && event == Json::parse_event_t::key) on_key(key.template get<std::string>());
    return true;
  };
  try {
    return on_key ? Json::parse(text, see) : Json::parse(text);
  } catch (const typename Json::exception& e) {
    fail("{}: not JSON: {}", where, mistake(e.what(), text.find('\n') != text.npos));
  }
}
template nlohmann::json read_json(std::string_view, std::string_view, const std::function<void(const std::string&)>&);
template nlohmann::ordered_json read_json(std::string_view, std::string_view,
                                          const std::function<void(const std::string&)>&);

std::string json_mistake(std::string_view text) {
  if (too_deep(text)) return fmt::format("it nests more than {} levels", kMaxJsonDepth);
  try {
    [[maybe_unused]] const auto nothing = nlohmann::json::parse(text, [](auto&&...) { return false; });
  } catch (const nlohmann::json::exception& e) {
    return mistake(e.what(), text.find('\n') != text.npos);
  }
  return {};
}

template <class T, class Json>
T json_number(const Json& json, std::string_view name, T least, T most) {
  constexpr bool kWhole = std::is_integral_v<T>;
  bool fits = json.is_number();
  if (fits && kWhole && json.is_number_unsigned())
    fits = json.template get<uint64_t>() <= uint64_t(std::numeric_limits<int64_t>::max());
  else if (fits && !(kWhole && json.is_number_integer()))
    fits = holds<T>(json.template get<double>());
  const T v = fits ? json.template get<T>() : T();
  if (fits && least <= v && v <= most) return v;
  const bool any = least == std::numeric_limits<T>::lowest() && most == std::numeric_limits<T>::max();
  const bool is_above = json.is_number() && json.template get<double>() > double(most);
  const bool no_limit = kWhole && double(most) >= 0x1p31 - 1 && !is_above;  // that anyone would ask for
  const Json inner = json.is_string() ? parse_json<Json>(json.template get_ref<const std::string&>()) : Json();
  check(!inner.is_number(), "{} is {}, a text; write {} without quotes", name, json_text(json), json_text(inner));
  fail("{} is {}, expected {}{}", name, json_text(json), kWhole ? "a whole number" : "a number",
       any && kWhole                      ? " of 64 bits"
       : any && std::is_same_v<T, double> ? ""
       : no_limit                         ? fmt::format(", {} or more", least)
                                          : fmt::format(" from {} to {}", least, most));
}
template int64_t json_number(const nlohmann::json&, std::string_view, int64_t, int64_t);
template int64_t json_number(const nlohmann::ordered_json&, std::string_view, int64_t, int64_t);
template float json_number(const nlohmann::json&, std::string_view, float, float);
template float json_number(const nlohmann::ordered_json&, std::string_view, float, float);
template double json_number(const nlohmann::json&, std::string_view, double, double);
template double json_number(const nlohmann::ordered_json&, std::string_view, double, double);

}  // namespace toy
