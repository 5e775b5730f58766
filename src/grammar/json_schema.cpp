// JSON Schema to rules. The keywords are those of draft 2020-12; items as a list is that of older drafts.
#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <map>
#include <optional>

#include "grammar/automaton.h"
#include "grammar/char_automaton.h"
#include "grammar/json_text.h"
#include "grammar/numbers.h"
#include "grammar/regex.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_rules.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/grammar/grammar.h"

namespace toy {
namespace grammar {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMaxRules = 20'000;

class SchemaCompiler {
 public:
  explicit SchemaCompiler(const SchemaDocument& document) : doc_(document) {}

  std::vector<Rule> compile() {
    rules_.push_back({"the schema", {}});
    refs_["#"] = 0;
    Expr root = value_of(doc_.root(), "", 0);
    rules_[0].expr = std::move(root);
    while (!pending_.empty()) {
      const auto [index, ref] = pending_.front();
      pending_.pop_front();
      Expr e = value_of(doc_.resolve(ref, ref), ref.substr(1), 0);
      rules_[size_t(index)].expr = std::move(e);
    }
    return std::move(rules_);
  }
  std::vector<Rule> compile_any_object() {
    rules_.push_back({"an object", {}});
    Expr root = rule(named("object"));
    rules_[0].expr = std::move(root);
    return std::move(rules_);
  }

 private:
  int32_t add_rule(std::string name, Expr e = {}) {
    check(rules_.size() < kMaxRules, "{}: the schema is too large: it needs more than {} rules", doc_.name(),
          kMaxRules);
    rules_.push_back({std::move(name), std::move(e)});
    return int32_t(rules_.size()) - 1;
  }

  // Rules that all schemas share.
  int32_t named(const std::string& name) {
    const auto [found, is_new] = named_.try_emplace(name, 0);
    if (!is_new) return found->second;
    const int32_t index = found->second = add_rule(name);
    Expr e = definition(name);
    rules_[size_t(index)].expr = std::move(e);
    return index;
  }
  Expr space() { return rule(named("space")); }

  Expr definition(const std::string& name) {
    const Expr comma = sequence({literal(","), name == "space" ? Expr() : space()});
    if (name == "space")
      return alternatives(
          {{}, literal(" "), sequence({literal("\n"), repeat(chars({{' ', ' '}, {'\t', '\t'}}), 0, 20)})});
    if (name == "value")
      return alternatives({rule(named("object")), rule(named("array")), rule(named("string")), rule(named("number")),
                           literal("true"), literal("false"), literal("null")});
    if (name == "object") {
      const Expr pair = sequence({rule(named("string")), literal(":"), space(), rule(named("value"))});
      return braces(optional(sequence({pair, repeat(sequence({comma, pair}), 0, -1)})));
    }
    if (name == "array") {
      const Expr item = rule(named("value"));
      return brackets(optional(sequence({item, repeat(sequence({comma, item}), 0, -1)})));
    }
    if (name == "number") {
      const Expr digit = chars({{'0', '9'}});
      const Expr exponent =
          sequence({chars({{'e', 'e'}, {'E', 'E'}}), optional(chars({{'+', '+'}, {'-', '-'}})), repeat(digit, 1, 2)});
      return sequence({optional(literal("-")), integers(0, kMaxInteger),
                       optional(sequence({literal("."), repeat(digit, 1, 15)})), optional(exponent)});
    }
    // A string: characters as they are, or escaped; no half of a surrogate pair by itself.
    const CharSet hex{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    const Expr h = chars(hex), d = chars({{'D', 'D'}, {'d', 'd'}});
    const Expr unit =
        alternatives({sequence({chars({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}}), h, h, h}),
                      sequence({d, chars({{'0', '7'}}), h, h}),
                      sequence({d, chars({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), h, h, literal("\\u"), d,
                                chars({{'C', 'F'}, {'c', 'f'}}), h, h})});
    CharSet letters;
    for (const char c : std::string_view("\"\\/bfnrt")) letters.push_back({uint32_t(c), uint32_t(c)});
    const Expr plain = chars(complement(normalized({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}})));
    return sequence(
        {literal("\""),
         repeat(alternatives(
                    {plain, sequence({literal("\\"), alternatives({chars(letters), sequence({literal("u"), unit})})})}),
                0, -1),
         literal("\"")});
  }
  Expr braces(Expr inside) { return sequence({literal("{"), space(), std::move(inside), space(), literal("}")}); }
  Expr brackets(Expr inside) { return sequence({literal("["), space(), std::move(inside), space(), literal("]")}); }
  Expr comma() { return sequence({literal(","), space()}); }

  // The text of one value.
  Expr exactly(const Json& v) {
    Expr result;
    if (v.is_string()) return literal(json_quoted(v.get<std::string>()));
    if (!v.is_structured()) return literal(json_text(v));
    bool first = true;
    for (const auto& [key, value] : v.items()) {
      if (!std::exchange(first, false)) result.parts.push_back(comma());
      if (v.is_object()) result.parts.push_back(sequence({literal(json_quoted(key)), literal(":"), space()}));
      result.parts.push_back(exactly(value));
    }
    return v.is_object() ? braces(std::move(result)) : brackets(std::move(result));
  }

  // The texts of a schema at a pointer.
  Expr value_of(const Json& schema, const std::string& pointer, int depth) {
    if (depth > kMaxDepth || ++work_ > int64_t(kMaxRules))
      doc_.refuse(pointer, "the schema is too large, or allOf combines recursive schemas");
    doc_.check_keywords(schema, pointer);
    if (doc_.only(schema, "$ref") && schema["$ref"].is_string()) return rule(reference(schema["$ref"], pointer));
    const Json s = doc_.flat(schema, pointer);
    if (s.is_boolean()) return s.get<bool>() ? rule(named("value")) : alternatives({});
    for (const char* key : {"anyOf", "oneOf"})
      if (s.contains(key)) return branches(s, key, pointer, depth);
    if (s.contains("const") || s.contains("enum")) return listed(s, pointer);
    Expr result = alternatives({});
    const std::vector<std::string> types = doc_.types(s, pointer);
    if (types.size() > 5 && s.empty()) return rule(named("value"));
    for (const std::string& type : types) result.parts.push_back(of_type(s, type, pointer, depth));
    return result;
  }

  int32_t reference(const std::string& ref, const std::string& pointer) {
    doc_.resolve(ref, pointer);
    const auto [found, is_new] = refs_.try_emplace(ref, 0);
    if (!is_new) return found->second;
    found->second = add_rule(ref);
    pending_.push_back({found->second, ref});
    return found->second;
  }

  Expr branches(const Json& s, const std::string& key, const std::string& pointer, int depth) {
    const std::string at = pointer_to(pointer, key);
    if (!s[key].is_array() || s[key].empty()) doc_.refuse(at, "it is not an array of schemas");
    Json rest = s;
    rest.erase(key);
    std::vector<Json> list;
    for (const Json& branch : s[key])
      list.push_back(rest.empty() ? branch : doc_.merged(rest, doc_.flat(branch, at), at));
    if (key == "oneOf")
      for (size_t i = 0; i < list.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (!doc_.disjoint(list[j], list[i], at))
            doc_.refuse(at,
                        fmt::format("a value may be valid under both {} and {}, which oneOf forbids; use anyOf, or a "
                                    "required property with another const in each",
                                    j, i));
    Expr result = alternatives({});
    for (size_t i = 0; i < list.size(); ++i)
      result.parts.push_back(value_of(list[i], pointer_to(at, std::to_string(i)), depth + 1));
    return result;
  }

  Expr listed(const Json& s, const std::string& pointer) {
    for (const auto& [key, value] : s.items())
      if (key != "type" && key != "enum" && key != "const")
        doc_.refuse(
            pointer_to(pointer, key),
            fmt::format("'{}' cannot be combined with enum or const; leave out the values that it forbids", key));
    if (s.contains("enum") && !s["enum"].is_array()) doc_.refuse(pointer_to(pointer, "enum"), "it is not an array");
    Expr result = alternatives({});
    for (const Json& v : s.contains("enum") ? s["enum"] : Json::array({s["const"]})) {
      if (s.contains("const") && s["const"] != v) continue;
      if (s.contains("type") && doc_.disjoint({{"const", v}}, {{"type", s["type"]}}, pointer)) continue;
      result.parts.push_back(exactly(v));
    }
    return result;
  }

  Expr of_type(const Json& s, const std::string& type, const std::string& pointer, int depth) {
    if (type == "null") return literal("null");
    if (type == "boolean") return alternatives({literal("true"), literal("false")});
    if (type == "string") return string_of(s, pointer);
    if (type == "integer") return integer_of(s, pointer);
    if (type == "number") return number_of(s, pointer);
    if (type == "array") return array_of(s, pointer, depth);
    return object_of(s, pointer, depth);
  }

  // A count such as minLength; `otherwise` where it is absent.
  int64_t count(const Json& s, const char* key, int64_t otherwise, const std::string& pointer) {
    if (!s.contains(key)) return otherwise;
    const Json& v = s[key];
    const std::string at = pointer_to(pointer, key);
    if (!v.is_number() || v.get<double>() < 0 || v.get<double>() != std::floor(v.get<double>()) ||
        v.get<double>() > 1e9)
      doc_.refuse(at, fmt::format("it is {}; use a whole number from 0 to 1000000000", json_text(v)));
    return int64_t(v.get<double>());
  }

  std::string where(const std::string& pointer, const char* key) {
    return doc_.name() + ": " + pointer_to(pointer, key);
  }

  Expr string_of(const Json& s, const std::string& pointer) {
    std::optional<CharAutomaton> all;
    const auto add = [&](const CharAutomaton& a, const char* key) {
      all = all ? intersection(*all, a, where(pointer, key)) : a;
    };
    const auto each = [&](const char* key, auto&& use) {
      if (!s.contains(key)) return;
      for (const Json& v : s[key].is_array() ? s[key] : Json::array({s[key]})) {
        if (!v.is_string()) doc_.refuse(pointer_to(pointer, key), "it is not a string");
        use(v.template get<std::string>());
      }
    };
    each("pattern", [&](const std::string& v) {
      add(char_automaton(parse_regex(v, where(pointer, "pattern")), where(pointer, "pattern")), "pattern");
    });
    each("format", [&](const std::string& v) {
      const char* pattern = format_pattern(v);
      if (!pattern)
        doc_.refuse(pointer_to(pointer, "format"), fmt::format("the format '{}' cannot be expressed; use pattern", v));
      add(char_automaton(parse_regex(pattern, where(pointer, "format")), where(pointer, "format")), "format");
    });
    if (s.contains("minLength") || s.contains("maxLength")) {
      const int64_t least = count(s, "minLength", 0, pointer), most = count(s, "maxLength", -1, pointer);
      const char* key = s.contains("maxLength") ? "maxLength" : "minLength";
      if (most >= 0 && most < least) return alternatives({});
      add(length_automaton(least, most, where(pointer, key)), key);
    }
    if (!all) return rule(named("string"));
    return sequence({literal("\""), json_string(std::move(*all)), literal("\"")});
  }
  static Expr json_string(CharAutomaton a) {
    return {.kind = Expr::json_string_of, .automaton = std::make_shared<CharAutomaton>(std::move(a))};
  }

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

  Expr integer_of(const Json& s, const std::string& pointer) {
    double lo = -double(kMaxInteger), hi = double(kMaxInteger);
    check_number_format(s, pointer, lo, hi);
    if (const auto l = limit(s, true, pointer))
      lo = std::max(lo, l->exclusive ? std::floor(l->value) + 1 : std::ceil(l->value));
    if (const auto l = limit(s, false, pointer))
      hi = std::min(hi, l->exclusive ? std::ceil(l->value) - 1 : std::floor(l->value));
    if (lo > hi) return alternatives({});
    Expr range = integers(int64_t(lo), int64_t(hi));
    const auto m = multiple(s, pointer);
    if (!m || *m == 1) return range;
    const std::string name = where(pointer, "multipleOf");
    return json_string(intersection(char_automaton(range, name), multiples(*m), name));
  }

  Expr number_of(const Json& s, const std::string& pointer) {
    if (s.contains("multipleOf")) return integer_of(s, pointer);
    double lo = -1e300, hi = 1e300;
    check_number_format(s, pointer, lo, hi);
    const auto lower = limit(s, true, pointer), upper = limit(s, false, pointer);
    if (!lower && !upper) return rule(named("number"));
    std::optional<Bound> from, to;
    int digits = 6;
    if (lower) {
      from = bound_of(lower->value, lower->exclusive, where(pointer, lower->key.c_str()));
      digits = std::min(digits, safe_digits(*from));
    }
    if (upper) {
      to = bound_of(upper->value, upper->exclusive, where(pointer, upper->key.c_str()));
      digits = std::min(digits, safe_digits(*to));
    }
    const std::string name = where(pointer, (lower ? lower : upper)->key.c_str());
    if (!to) return numbers_from(*from, digits);
    if (!from) return numbers_to(*to, digits);
    return json_string(intersection(char_automaton(numbers_from(*from, digits), name),
                                    char_automaton(numbers_to(*to, digits), name), name));
  }

  Expr array_of(const Json& s, const std::string& pointer, int depth) {
    if (s.contains("uniqueItems") && s["uniqueItems"] != false)
      doc_.refuse(pointer_to(pointer, "uniqueItems"), "'uniqueItems' cannot be expressed; remove it");
    const bool old = s.contains("items") && s["items"].is_array();
    const char* prefix_key = old ? "items" : "prefixItems";
    const char* items_key = old || !s.contains("items") ? "additionalItems" : "items";
    const Json prefix = s.contains(prefix_key) ? s[prefix_key] : Json::array();
    if (!prefix.is_array()) doc_.refuse(pointer_to(pointer, prefix_key), "it is not an array");
    const int64_t least = count(s, "minItems", 0, pointer), n = int64_t(prefix.size());
    int64_t most = count(s, "maxItems", -1, pointer);
    if (n > 0 && !s.contains(items_key) && least <= n) most = most < 0 ? n : std::min(most, n);
    if (s.contains(items_key) && s[items_key] == false) most = most < 0 ? n : std::min(most, n);
    if (most >= 0 && most < least) return alternatives({});
    if (std::max(least, most) > int64_t(kMaxStates))
      doc_.refuse(pointer, fmt::format("an array of {} items is too large", std::max(least, most)));
    Expr item = alternatives({});
    if (most < 0 || most > n) {
      const Json any = true;
      Expr e = value_of(s.contains(items_key) ? s[items_key] : any, pointer_to(pointer, items_key), depth + 1);
      item = rule(add_rule(pointer_to(pointer, items_key), std::move(e)));
    }
    // From the last to the first: the text from item i on.
    int32_t next = -1;
    for (int64_t i = n; i >= 0; --i) {
      const auto separator = [&] { return i > 0 ? comma() : Expr(); };
      Expr from = alternatives({});
      if (i >= least) from.parts.emplace_back();
      if (i == n && (most < 0 || most > n)) {
        const int64_t more = std::max<int64_t>(least - n, 1) - 1;
        from.parts.push_back(
            sequence({separator(), item, repeat(sequence({comma(), item}), more, most < 0 ? -1 : most - n - 1)}));
      } else if (i < n && (most < 0 || i < most)) {
        const std::string at = pointer_to(pointer_to(pointer, prefix_key), std::to_string(i));
        from.parts.push_back(sequence({separator(), value_of(prefix[size_t(i)], at, depth + 1), rule(next)}));
      }
      next = add_rule(pointer, std::move(from));
    }
    return brackets(rule(next));
  }

  struct Pair {
    Expr expr;
    bool required = false;
  };

  Expr object_of(const Json& s, const std::string& pointer, int depth) {
    std::vector<std::string> names, required;
    const Json none = Json::object();
    const Json& properties = s.contains("properties") ? s["properties"] : none;
    if (!properties.is_object()) doc_.refuse(pointer_to(pointer, "properties"), "it is not an object");
    if (s.contains("required")) {
      if (!s["required"].is_array()) doc_.refuse(pointer_to(pointer, "required"), "it is not an array of names");
      for (const Json& name : s["required"]) {
        if (!name.is_string()) doc_.refuse(pointer_to(pointer, "required"), "it is not an array of names");
        required.push_back(name);
      }
    }
    const bool has_extra = s.contains("additionalProperties")
                               ? s["additionalProperties"] != false
                               : !s.contains("properties") && !s.contains("patternProperties");
    std::vector<Pair> pairs;
    const std::string at = pointer_to(pointer, "properties");
    const auto pair = [&](const std::string& name, const Json& value, const std::string& where_it_is) {
      names.push_back(name);
      Expr e = sequence({literal(json_quoted(name)), literal(":"), space(), value_of(value, where_it_is, depth + 1)});
      pairs.push_back({rule(add_rule(where_it_is, std::move(e))),
                       std::find(required.begin(), required.end(), name) != required.end()});
    };
    for (const auto& [name, value] : properties.items()) pair(name, value, pointer_to(at, name));
    for (const std::string& name : required) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      if (s.contains("patternProperties"))
        doc_.refuse(
            pointer_to(pointer, "required"),
            fmt::format("'{}' is not in properties, and patternProperties may be about it; add it to properties",
                        name));
      if (s.contains("additionalProperties") && s["additionalProperties"] == false) return alternatives({});
      const Json any = true;
      pair(name, s.contains("additionalProperties") ? s["additionalProperties"] : any, pointer_to(pointer, "required"));
    }
    std::optional<Expr> extra = extra_pair(s, names, has_extra, pointer, depth);
    return braces(rule(members(pairs, extra, s, pointer)));
  }

  // A pair whose name is not in `names`; none: there may be no such pairs.
  std::optional<Expr> extra_pair(const Json& s, const std::vector<std::string>& names, bool has_extra,
                                 const std::string& pointer, int depth) {
    const auto pair = [&](Expr key, Expr value) {
      return sequence({literal("\""), std::move(key), literal("\":"), space(), std::move(value)});
    };
    if (!s.contains("patternProperties")) {
      if (!has_extra) return std::nullopt;
      const Json any = true;
      Expr value = value_of(s.contains("additionalProperties") ? s["additionalProperties"] : any,
                            pointer_to(pointer, "additionalProperties"), depth + 1);
      if (names.empty()) return sequence({rule(named("string")), literal(":"), space(), std::move(value)});
      return pair(json_string(all_but(names)), std::move(value));
    }
    const std::string at = pointer_to(pointer, "patternProperties");
    if (!s["patternProperties"].is_object()) doc_.refuse(at, "it is not an object");
    if (has_extra)
      doc_.refuse(at, "'patternProperties' cannot be combined with additionalProperties; set them to false");
    if (s["patternProperties"].size() > 50) doc_.refuse(at, "more than 50 patterns cannot be expressed");
    Expr result = alternatives({});
    std::vector<CharAutomaton> before;
    for (const auto& [pattern, value] : s["patternProperties"].items()) {
      const std::string here = pointer_to(at, pattern), name = doc_.name() + ": " + here;
      CharAutomaton keys = char_automaton(parse_regex(pattern, name), name);
      for (const CharAutomaton& other : before)
        if (!intersection(keys, other, name).empty())
          doc_.refuse(here, "a name may match two patterns, which cannot be expressed");
      for (const std::string& n : names)
        if (!intersection(keys, char_automaton(literal(n), name), name).empty())
          doc_.refuse(here, fmt::format("the property '{}' matches this pattern, which cannot be expressed", n));
      before.push_back(keys);
      result.parts.push_back(pair(json_string(std::move(keys)), value_of(value, here, depth + 1)));
    }
    return result;
  }

  // The rule of the pairs of an object. What may follow depends on the next pair and on how many there are so far, as
  // far as that matters: whether there is one, and minProperties and maxProperties.
  int32_t members(const std::vector<Pair>& pairs, const std::optional<Expr>& extra, const Json& s,
                  const std::string& pointer) {
    const int64_t least = count(s, "minProperties", 0, pointer), most = count(s, "maxProperties", -1, pointer);
    const int64_t n = int64_t(pairs.size());
    const int64_t required = std::count_if(pairs.begin(), pairs.end(), [](const Pair& p) { return p.required; });
    // The names of further pairs may be equal, so that there are fewer of them than it seems.
    if (extra && least > std::max<int64_t>(required, 1))
      doc_.refuse(pointer_to(pointer, "minProperties"),
                  "it cannot be expressed together with properties of any name; require some");
    const int64_t cap = std::max<int64_t>(most >= 0 ? most : least, 1);
    if ((n + 1) * (cap + 1) > int64_t(kMaxRules))
      doc_.refuse(pointer, "minProperties and maxProperties are too large for so many properties");
    std::vector<int32_t> next(size_t(cap) + 1);  // by the number of pairs so far: the rest after pair i
    for (int64_t c = 0; c <= cap; ++c) next[size_t(c)] = add_rule(pointer);
    for (int64_t c = 0; c <= cap; ++c) {
      Expr e = alternatives({});
      if (c >= least) e.parts.emplace_back();
      if (extra && (most < 0 || c < most))
        e.parts.push_back(sequence({c > 0 ? comma() : Expr(), *extra, rule(next[size_t(std::min(c + 1, cap))])}));
      rules_[size_t(next[size_t(c)])].expr = std::move(e);
    }
    for (int64_t i = n; i-- > 0;) {
      std::vector<int32_t> here(size_t(cap) + 1);
      for (int64_t c = 0; c <= cap; ++c) {
        Expr e = alternatives({});
        if (most < 0 || c < most)
          e.parts.push_back(
              sequence({c > 0 ? comma() : Expr(), pairs[size_t(i)].expr, rule(next[size_t(std::min(c + 1, cap))])}));
        if (!pairs[size_t(i)].required) e.parts.push_back(rule(next[size_t(c)]));
        here[size_t(c)] = add_rule(pointer, std::move(e));
      }
      next = here;
    }
    return next[0];
  }

  const SchemaDocument& doc_;
  std::vector<Rule> rules_;
  std::map<std::string, int32_t> named_, refs_;
  std::deque<std::pair<int32_t, std::string>> pending_;
  int64_t work_ = 0;
};

Grammar compiled(const std::vector<Rule>& rules, const std::string& name) {
  return Grammar(std::make_shared<Automaton>(compile(rules, name)));
}

}  // namespace
}  // namespace grammar

std::vector<grammar::Rule> grammar::schema_rules(const nlohmann::ordered_json& schema, const std::string& name) {
  const SchemaDocument document(schema, name);
  return SchemaCompiler(document).compile();
}

Grammar json_schema_grammar(const nlohmann::ordered_json& schema, const std::string& name) {
  return grammar::compiled(grammar::schema_rules(schema, name), name);
}

Grammar json_object_grammar() {
  const nlohmann::ordered_json none;
  const grammar::SchemaDocument document(none, "JSON");
  return grammar::compiled(grammar::SchemaCompiler(document).compile_any_object(), "JSON");
}

}  // namespace toy
