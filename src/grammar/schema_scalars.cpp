#include "grammar/schema_scalars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "grammar/numbers.h"
#include "grammar/regex.h"
#include "toy/base/json_text.h"

namespace toy::grammar {
namespace {

constexpr size_t kStepsOfNumber = 10'000, kStepsOfRemainder = 200;  // of a budget: expressions of digits

class Scalars {
 public:
  explicit Scalars(const SchemaDocument& document) : doc_(document) {}

  std::optional<Expr> strings(const Json& s, const std::string& pointer) {
    std::optional<CharAutomaton> all;
    const auto add = [&](CharAutomaton a, const Payer& payer) {
      all = all ? intersection(*all, a, payer) : std::move(a);
    };
    const auto each = [&](const char* key, auto&& use) {
      if (!s.contains(key)) return;
      for (const Json& v : s[key].is_array() ? s[key] : Json::array({s[key]})) {
        if (!v.is_string()) doc_.refuse(pointer_to(pointer, key), "it is not a string");
        const std::string place = doc_.place(pointer_to(pointer, key));
        use(v.template get<std::string>(), Payer{place, doc_.budget()});
      }
    };
    each("pattern",
         [&](const std::string& v, const Payer& payer) { add(char_automaton(parse_regex(v, payer), payer), payer); });
    each("format", [&](const std::string& v, const Payer& payer) {
      const char* pattern = format_pattern(v);
      if (!pattern)
        doc_.refuse(pointer_to(pointer, "format"), fmt::format("the format '{}' cannot be expressed; use pattern", v));
      add(char_automaton(parse_regex(pattern, payer), payer), payer);
    });
    if (s.contains("minLength") || s.contains("maxLength")) {
      const int64_t least = count_of(doc_, s, "minLength", 0, pointer),
                    most = count_of(doc_, s, "maxLength", -1, pointer);
      if (most >= 0 && most < least) return alternatives({});
      const std::string place = doc_.place(pointer_to(pointer, s.contains("maxLength") ? "maxLength" : "minLength"));
      const Payer payer{place, doc_.budget()};
      add(length_automaton(least, most, payer), payer);
    }
    if (!all) return std::nullopt;
    return sequence({literal("\""), json_string_of(std::move(*all)), literal("\"")});
  }

  Expr integers(const Json& s, const std::string& pointer) {
    doc_.spend(kStepsOfNumber, pointer);
    double lo = -double(kMaxInteger), hi = double(kMaxInteger);
    check_number_format(s, pointer, lo, hi);
    if (const auto l = limit(s, true, pointer))
      lo = std::max(lo, l->exclusive ? std::floor(l->value) + 1 : std::ceil(l->value));
    if (const auto l = limit(s, false, pointer))
      hi = std::min(hi, l->exclusive ? std::ceil(l->value) - 1 : std::floor(l->value));
    if (lo > hi) return alternatives({});
    Expr range = grammar::integers(int64_t(lo), int64_t(hi));
    const auto m = multiple(s, pointer);
    if (!m || *m == 1) return range;
    const std::string place = doc_.place(pointer_to(pointer, "multipleOf"));
    const Payer payer{place, doc_.budget()};
    payer.spend(size_t(*m) * kStepsOfRemainder);
    return json_string_of(intersection(char_automaton(range, payer), multiples(*m), payer));
  }

  std::optional<Expr> numbers(const Json& s, const std::string& pointer) {
    if (s.contains("multipleOf")) return integers(s, pointer);
    doc_.spend(kStepsOfNumber, pointer);
    double lo = -1e300, hi = 1e300;
    check_number_format(s, pointer, lo, hi);
    const auto lower = limit(s, true, pointer), upper = limit(s, false, pointer);
    if (!lower && !upper) return std::nullopt;
    const auto place = [&](const Limit& l) { return doc_.place(pointer_to(pointer, l.key)); };
    std::optional<Bound> from, to;
    int digits = 6;
    if (lower) {
      from = bound_of(lower->value, lower->exclusive, place(*lower));
      digits = std::min(digits, safe_digits(*from));
    }
    if (upper) {
      to = bound_of(upper->value, upper->exclusive, place(*upper));
      digits = std::min(digits, safe_digits(*to));
    }
    if (!to) return numbers_from(*from, digits);
    if (!from) return numbers_to(*to, digits);
    const std::string name = place(*lower);
    const Payer payer{name, doc_.budget()};
    return json_string_of(intersection(char_automaton(numbers_from(*from, digits), payer),
                                       char_automaton(numbers_to(*to, digits), payer), payer));
  }

 private:
  // The bounds of numbers: minimum or exclusiveMinimum, whichever is above, and likewise below.
  struct Limit {
    double value = 0;
    bool exclusive = false;
    std::string key;
  };
  std::optional<Limit> limit(const Json& s, bool is_lower, const std::string& pointer) {
    std::optional<Limit> result;
    for (const char* key : {is_lower ? "minimum" : "maximum", is_lower ? "exclusiveMinimum" : "exclusiveMaximum"}) {
      if (!s.contains(key)) continue;
      if (!s[key].is_number())
        doc_.refuse(pointer_to(pointer, key), fmt::format("it is {}; use a number", json_text(s[key])));
      const Limit l{s[key].get<double>(), std::string_view(key).starts_with("ex"), key};
      const bool tighter = !result || (is_lower ? l.value >= result->value : l.value <= result->value);
      if (tighter) result = l;
    }
    return result;
  }

  static void tighten(const std::string& format, double& lo, double& hi) {
    if (format == "int32") lo = std::max(lo, -2147483648.0), hi = std::min(hi, 2147483647.0);
  }
  void check_number_format(const Json& s, const std::string& pointer, double& lo, double& hi) {
    if (!s.contains("format")) return;
    const std::string f = s["format"].is_string() ? s["format"].get<std::string>() : "";
    if (f != "int32" && f != "int64" && f != "float" && f != "double")
      doc_.refuse(pointer_to(pointer, "format"),
                  fmt::format("the format {} of a number is unknown; remove it", json_text(s["format"])));
    tighten(f, lo, hi);
  }

  std::optional<int64_t> multiple(const Json& s, const std::string& pointer) {
    if (!s.contains("multipleOf")) return std::nullopt;
    const Json& v = s["multipleOf"];
    const double m = v.is_number() ? v.get<double>() : 0;
    if (m < 1 || m > double(kMaxMultiple) || m != std::floor(m))
      doc_.refuse(
          pointer_to(pointer, "multipleOf"),
          fmt::format("it is {}; only whole numbers from 1 to {} can be expressed", json_text(v), kMaxMultiple));
    return int64_t(m);
  }

  const SchemaDocument& doc_;
};

}  // namespace

Expr json_string_of(CharAutomaton a) {
  return {.kind = Expr::json_string_of, .automaton = std::make_shared<CharAutomaton>(std::move(a))};
}

int64_t count_of(const SchemaDocument& doc, const Json& s, const char* key, int64_t otherwise,
                 const std::string& pointer) {
  if (!s.contains(key)) return otherwise;
  const Json& v = s[key];
  const std::string at = pointer_to(pointer, key);
  if (!v.is_number() || v.get<double>() < 0 || v.get<double>() != std::floor(v.get<double>()) || v.get<double>() > 1e9)
    doc.refuse(at, fmt::format("it is {}; use a whole number from 0 to 1000000000", json_text(v)));
  return int64_t(v.get<double>());
}

std::optional<Expr> string_texts(const SchemaDocument& doc, const Json& s, const std::string& pointer) {
  return Scalars(doc).strings(s, pointer);
}

Expr integer_texts(const SchemaDocument& doc, const Json& s, const std::string& pointer) {
  return Scalars(doc).integers(s, pointer);
}

std::optional<Expr> number_texts(const SchemaDocument& doc, const Json& s, const std::string& pointer) {
  return Scalars(doc).numbers(s, pointer);
}

}  // namespace toy::grammar
