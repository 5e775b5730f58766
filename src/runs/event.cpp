#include "toy/runs/event.h"

#include <fmt/format.h>

#include <charconv>
#include <type_traits>

#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::runs {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
struct Nobody {
  template <class... T>
  void operator()(T&&...) const {}
};
template <class T>
constexpr bool kHasFields = requires(T& e) {
  T::fields(e, Nobody{});
};

std::string quoted(const std::string& text) { return json_text(Json(text)); }

// ---- writing
template <class T>
void write_value(std::string& s, const T& v);

struct FieldWriter {
  std::string& s;
  template <class T>
  void operator()(const char* name, const T& v, const char*) const {
    if constexpr (IsOptional<T>::value) {
      if (v) (*this)(name, *v, "");
    } else {
      s += s.back() == '{' ? "\"" : ",\"";
      s += name;
      s += "\":";
      write_value(s, v);
    }
  }
};

template <class T>
void write_value(std::string& s, const T& v) {
  if constexpr (std::is_same_v<T, double>) {
    s += std::isfinite(v) ? fmt::format("{}", v) : "null";
  } else if constexpr (std::is_same_v<T, bool>) {
    s += v ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    s += fmt::format("{}", v);
  } else if constexpr (std::is_same_v<T, std::string>) {
    s += quoted(v);
  } else if constexpr (std::is_same_v<T, Json>) {
    s += json_text(v);
  } else if constexpr (IsVector<T>::value) {
    s += '[';
    for (const auto& e : v) {
      if (s.back() != '[') s += ',';
      write_value(s, e);
    }
    s += ']';
  } else {
    s += '{';
    T::fields(v, FieldWriter{s});
    s += '}';
  }
}

// ---- reading
// Whole numbers that every reader of JSON holds exactly, and numbers whose squares and differences are finite.
constexpr int64_t kMostWhole = int64_t(1) << 53;
constexpr double kMost = 1e100;

template <class T>
void read_value(const char* name, const Json& j, T& v);

struct FieldReader {
  const Json& j;
  template <class T>
  void operator()(const char* name, T& v, const char*) const {
    const auto it = j.find(name);
    if (it == j.end()) return;
    if constexpr (IsOptional<T>::value) {
      if constexpr (!std::is_same_v<T, std::optional<double>>)
        if (it->is_null()) return;
      read_value(name, *it, v.emplace());
    } else {
      read_value(name, *it, v);
    }
  }
};

// get<bool> and the like check types; nlohmann's exceptions become ours in parse_event().
template <class T>
void read_value(const char* name, const Json& j, T& v) {
  if constexpr (std::is_same_v<T, double>) {
    v = j.is_null() ? kUnknown : json_number<double>(j, name, -kMost, kMost);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    v = json_number<int64_t>(j, name, -kMostWhole, kMostWhole);
  } else if constexpr (std::is_same_v<T, Json>) {
    v = j;
  } else if constexpr (IsVector<T>::value) {
    check(j.is_array(), "{} is not a list", name);
    v.clear();
    for (const Json& e : j) read_value(name, e, v.emplace_back());
  } else if constexpr (kHasFields<T>) {
    check(j.is_object(), "{} is not an object", name);
    T::fields(v, FieldReader{j});
  } else {
    v = j.get<T>();
  }
}

// ---- the line of a step, as to_json_line() writes it: most lines of a log, and read ten times as fast
class StepLine {
 public:
  explicit StepLine(std::string_view line) : rest_(line) {}

  // nullopt: written in another way, or wrong.
  std::optional<Event> read() {
    Step s;
    Event e{0, 0, "train", {}};
    const bool head = skip("{\"kind\":\"step\",\"t\":") && number(e.t) && skip(",\"step\":") && number(*e.step) &&
                      skip(",\"phase\":\"train\",\"loss\":") && number(s.loss) && skip(",\"lr\":") && number(s.lr);
    if (!head) return std::nullopt;
    if (skip(",\"grad_norm\":") && !number(s.grad_norm.emplace())) return std::nullopt;
    const bool tail = skip(",\"tokens\":") && number(s.tokens) && skip(",\"wall_us\":") && number(s.wall_us) &&
                      skip(",\"tokens_per_second\":") && number(s.tokens_per_second);
    if (!tail || rest_ != "}") return std::nullopt;
    e.body = std::move(s);
    return e;
  }

 private:
  bool skip(std::string_view text) {
    const bool there = rest_.starts_with(text);
    if (there) rest_.remove_prefix(text.size());
    return there;
  }
  template <class T>
  bool number(T& v) {
    if constexpr (std::is_same_v<T, double>)
      if (skip("null")) return v = kUnknown, true;
    const size_t sign = rest_.starts_with('-');
    if (rest_.size() <= sign || rest_[sign] < '0' || rest_[sign] > '9') return false;  // not "nan"
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), v);
    constexpr T kLimit = std::is_same_v<T, double> ? T(kMost) : T(kMostWhole);
    if (error != std::errc() || v < -kLimit || v > kLimit) return false;
    rest_.remove_prefix(size_t(end - rest_.data()));
    return true;
  }
  std::string_view rest_;
};

template <size_t... I>
std::optional<Body> body_of(std::string_view kind, std::index_sequence<I...>) {
  std::optional<Body> body;
  ((std::variant_alternative_t<I, Body>::kKind == kind ? void(body.emplace(std::in_place_index<I>)) : void()), ...);
  return body;
}

// ---- the schema
template <class T>
Json schema_of();

struct FieldSchema {
  Json& properties;
  Json& required;
  template <class T>
  void operator()(const char* name, const T&, const char* meaning) const {
    Json s;
    if constexpr (IsOptional<T>::value) {
      s = schema_of<typename T::value_type>();
    } else {
      s = schema_of<T>();
      required.push_back(name);
    }
    s["description"] = meaning;
    properties[name] = std::move(s);
  }
};

template <class T>
Json schema_of() {
  if constexpr (std::is_same_v<T, double>) return {{"type", {"number", "null"}}};
  if constexpr (std::is_same_v<T, bool>) return {{"type", "boolean"}};
  if constexpr (std::is_integral_v<T>) return {{"type", "integer"}};
  if constexpr (std::is_same_v<T, std::string>) return {{"type", "string"}};
  if constexpr (std::is_same_v<T, Json>) return {{"type", "object"}};
  if constexpr (IsVector<T>::value) return {{"type", "array"}, {"items", schema_of<typename T::value_type>()}};
  if constexpr (kHasFields<T>) {
    Json properties = Json::object(), required = Json::array();
    const T e{};
    T::fields(e, FieldSchema{properties, required});
    return {{"type", "object"}, {"required", required}, {"properties", properties}};
  }
}

template <class T>
Json schema_of_kind() {
  Json properties{{"kind", {{"const", T::kKind}}},
                  {"t", {{"type", "number"}, {"minimum", 0}, {"description", "seconds since the start of the run"}}},
                  {"step", {{"type", "integer"}, {"minimum", 0}, {"description", "the last step that was taken"}}},
                  {"phase", {{"enum", {"prepare", "train", "eval", "end"}}}}};
  Json required{"kind", "t", "phase"};
  if (T::kOncePerStep) required.push_back("step");
  const T e{};
  T::fields(e, FieldSchema{properties, required});
  return {{"type", "object"}, {"required", required}, {"properties", properties}, {"additionalProperties", false}};
}

template <size_t... I>
Json schema_of_kinds(std::index_sequence<I...>) {
  Json kinds = Json::array();
  (kinds.push_back(schema_of_kind<std::variant_alternative_t<I, Body>>()), ...);
  return kinds;
}

constexpr auto kBodies = std::make_index_sequence<std::variant_size_v<Body>>{};

}  // namespace

std::string_view Event::kind() const {
  return std::visit([](const auto& b) { return std::decay_t<decltype(b)>::kKind; }, body);
}

std::string to_json_line(const Event& event) {
  std::string s = "{";
  const FieldWriter field{s};
  field("kind", std::string(event.kind()), "");
  field("t", std::round(event.t * 1e6) / 1e6, "");
  field("step", event.step, "");
  field("phase", event.phase, "");
  std::visit([&](const auto& b) { std::decay_t<decltype(b)>::fields(b, field); }, event.body);
  return s + "}";
}

std::optional<Event> parse_event(std::string_view line) {
  if (auto step = StepLine(line).read()) return step;
  try {
    const Json j = read_json<Json>("event", line);
    check(j.is_object() && j.contains("kind"), "not an object with a kind");
    std::optional<Body> body = body_of(j.at("kind").get<std::string>(), kBodies);
    if (!body) return std::nullopt;
    Event e{0, {}, {}, std::move(*body)};
    const FieldReader field{j};
    field("t", e.t, "");
    field("step", e.step, "");
    field("phase", e.phase, "");
    std::visit([&](auto& b) { std::decay_t<decltype(b)>::fields(b, field); }, e.body);
    return e;
  } catch (const Json::exception& e) {
    fail("{}", e.what());
  }
}

nlohmann::ordered_json events_schema() {
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "One line of events.jsonl, schema toy/v1"},
          {"description", "docs/runs.md says when each kind is written. Readers skip a kind that they do not know."},
          {"oneOf", schema_of_kinds(kBodies)}};
}

}  // namespace toy::runs
