#include "toy/runs/event.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::runs {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
concept Optional = requires(T v) {
  v.has_value();
};
template <class T>
concept List = requires(T v) {
  v.emplace_back();
};
template <class T>
concept Struct = requires(T v) {
  T::fields(v, [](auto&&...) {});
};

void body_fields(auto& event, auto&& f) {
  std::visit([&](auto& body) { std::decay_t<decltype(body)>::fields(body, f); }, event.body);
}

// Calls f(std::type_identity<Kind>()) for each kind.
void each_kind(const auto& f) {
  const auto call = [&]<class... Kind>(const std::variant<Kind...>*) { (f(std::type_identity<Kind>()), ...); };
  call(static_cast<const Body*>(nullptr));
}

// ---- writing
struct FieldWriter {
  std::string& s;

  template <class T>
  void operator()(const char* name, const T& v, const char*) const {
    if constexpr (Optional<T>) {
      if (v) (*this)(name, *v, "");
    } else {
      s += fmt::format("{}\"{}\":", s.back() == '{' ? "" : ",", name);
      write(v);
    }
  }
  template <class T>
  void write(const T& v) const {
    if constexpr (std::is_arithmetic_v<T>) {
      s += std::isfinite(double(v)) ? fmt::format("{}", v) : "null";
    } else if constexpr (List<T>) {
      s += '[';
      for (const auto& e : v) {
        if (s.back() != '[') s += ',';
        write(e);
      }
      s += ']';
    } else if constexpr (std::is_same_v<T, JsonObject>) {
      s += v.text;
    } else if constexpr (Struct<T>) {
      s += '{';
      T::fields(v, *this);
      s += '}';
    } else {
      s += json_text(Json(v));
    }
  }
};

// ---- reading
// Whole numbers that every reader of JSON holds exactly, and numbers whose squares and differences are finite.
constexpr int64_t kMostWhole = int64_t(1) << 53;
constexpr double kMost = 1e100;

// The JSON library checks types; its exceptions become ours in parse_event().
struct FieldReader {
  const Json& j;

  template <class T>
  void operator()(const char* name, T& v, const char*) const {
    if (const auto it = j.find(name); it != j.end()) read(name, *it, v);
  }
  template <class T>
  static void read(const char* name, const Json& j, T& v) {
    if constexpr (Optional<T>) {
      if (!j.is_null() || std::is_same_v<T, std::optional<double>>) read(name, j, v.emplace());
    } else if constexpr (std::is_same_v<T, double>) {
      v = j.is_null() ? kUnknown : json_number<double>(j, name, -kMost, kMost);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      v = json_number<int64_t>(j, name, -kMostWhole, kMostWhole);
    } else if constexpr (List<T>) {
      check(j.is_array(), "{} is not a list", name);
      v.clear();
      for (const Json& e : j) read(name, e, v.emplace_back());
    } else if constexpr (std::is_same_v<T, JsonObject>) {
      v.text = json_text(j);
    } else if constexpr (Struct<T>) {
      check(j.is_object(), "{} is not an object", name);
      T::fields(v, FieldReader{j});
    } else {
      v = j.get<T>();
    }
  }
};

// A line of numbers as to_json_line() writes it: steps are most lines of a log, and are read ten times as fast.
struct NumberReader {
  std::string_view rest;
  bool fits = true;  // else it is written in another way, or wrong

  bool skip(std::string_view text) {
    const bool there = rest.starts_with(text);
    if (there) rest.remove_prefix(text.size());
    return there;
  }
  template <class T>
  void operator()(const char* name, T& v, const char*) {
    const std::string_view before = rest;
    if (skip(",\"") && skip(name) && skip("\":"))
      fits = fits && read(v);
    else
      rest = before, fits = fits && Optional<T>;
  }
  template <class T>
  bool read(std::optional<T>& v) {
    return read(v.emplace());
  }
  bool read(bool&) { return false; }
  bool read(std::string& phase) { return skip("\"" + (phase = "train") + "\""); }
  template <class T>
  bool read(T& v) {
    constexpr bool kReal = std::is_floating_point_v<T>;
    if (kReal && skip("null")) return v = T(kUnknown), true;
    const size_t digit = rest.starts_with('-') ? 1 : 0;
    if (rest.size() <= digit || rest[digit] < '0' || rest[digit] > '9') return false;  // not "nan"
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), v);
    rest.remove_prefix(size_t(end - rest.data()));
    constexpr T kLimit = kReal ? T(kMost) : T(kMostWhole);
    return error == std::errc() && -kLimit <= v && v <= kLimit;
  }
};

std::optional<Event> parse_step(std::string_view line) {
  NumberReader field{line};
  Event e{0, {}, {}, Step()};
  if (!field.skip("{\"kind\":\"step\"")) return std::nullopt;
  field("t", e.t, "");
  field("step", e.step, "");
  field("phase", e.phase, "");
  Step::fields(std::get<Step>(e.body), field);
  return field.fits && field.rest == "}" ? std::optional(std::move(e)) : std::nullopt;
}

// ---- the schema
struct FieldSchema {
  Json& properties;
  Json& required;

  template <class T>
  void operator()(const char* name, const T&, const char* meaning) const {
    properties[name] = of<T>();
    properties[name]["description"] = meaning;
    if (!Optional<T>) required.push_back(name);
  }
  template <class T>
  static Json of() {
    if constexpr (std::is_same_v<T, double>) return {{"type", {"number", "null"}}};
    if constexpr (std::is_same_v<T, bool>) return {{"type", "boolean"}};
    if constexpr (std::is_same_v<T, int64_t>) return {{"type", "integer"}};
    if constexpr (std::is_same_v<T, std::string>) return {{"type", "string"}};
    if constexpr (std::is_same_v<T, JsonObject>) return {{"type", "object"}};
    if constexpr (Optional<T>) return of<typename T::value_type>();
    if constexpr (List<T>) return {{"type", "array"}, {"items", of<typename T::value_type>()}};
    if constexpr (Struct<T>) return object<T>(Json::object(), Json::array());
  }
  // An object with the fields of T behind those that are there.
  template <class T>
  static Json object(Json properties, Json required) {
    const T e{};
    T::fields(e, FieldSchema{properties, required});
    return {{"type", "object"}, {"required", required}, {"properties", properties}};
  }
};

template <class Kind>
Json schema_of_kind() {
  const Json properties{
      {"kind", {{"const", Kind::kKind}}},
      {"t", {{"type", "number"}, {"minimum", 0}, {"description", "seconds since the start of the run"}}},
      {"step", {{"type", "integer"}, {"minimum", 0}, {"description", "the last step that was taken"}}},
      {"phase", {{"enum", {"prepare", "train", "eval", "end"}}}}};
  Json required{"kind", "t", "phase"};
  if (requires { Kind::kOncePerStep; }) required.push_back("step");
  Json schema = FieldSchema::object<Kind>(properties, required);
  schema["additionalProperties"] = false;
  return schema;
}

}  // namespace

std::string_view Event::kind() const {
  return std::visit([](const auto& b) { return std::decay_t<decltype(b)>::kKind; }, body);
}

std::optional<std::string> Event::name_in_step() const {
  return std::visit(
      [](const auto& b) -> std::optional<std::string> {
        if constexpr (!requires { b.kOncePerStep; }) return std::nullopt;
        if constexpr (requires { b.name; }) return b.name;
        if constexpr (requires { b.whole; }) return b.whole ? "whole" : "part";
        if constexpr (requires { b.op; }) return b.op + " " + b.pass;
        return "";
      },
      body);
}

std::string to_json_line(const Event& event) {
  std::string s = "{";
  const FieldWriter field{s};
  field("kind", std::string(event.kind()), "");
  field("t", std::round(event.t * 1e6) / 1e6, "");
  field("step", event.step, "");
  field("phase", event.phase, "");
  body_fields(event, field);
  return s + "}";
}

std::optional<Event> parse_event(std::string_view line) {
  if (auto step = parse_step(line)) return step;
  try {
    const Json j = read_json<Json>("event", line);
    check(j.is_object() && j.contains("kind"), "not an object with a kind");
    std::optional<Event> e;
    each_kind([&, kind = j.at("kind").get<std::string>()]<class Kind>(std::type_identity<Kind>) {
      if (Kind::kKind == kind) e.emplace().body.template emplace<Kind>();
    });
    if (!e) return std::nullopt;
    const FieldReader field{j};
    field("t", e->t, "");
    field("step", e->step, "");
    field("phase", e->phase, "");
    body_fields(*e, field);
    return e;
  } catch (const Json::exception& e) {
    fail("{}", e.what());
  }
}

nlohmann::ordered_json events_schema() {
  Json kinds = Json::array();
  each_kind([&]<class Kind>(std::type_identity<Kind>) { kinds.push_back(schema_of_kind<Kind>()); });
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "One line of events.jsonl, schema toy/v1"},
          {"description", "docs/runs.md says when each kind is written. Readers skip a kind that they do not know."},
          {"oneOf", kinds}};
}

}  // namespace toy::runs
