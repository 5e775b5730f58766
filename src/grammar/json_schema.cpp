// JSON Schema to rules. The keywords are those of draft 2020-12; items as a list is that of older drafts.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "grammar/automaton.h"
#include "grammar/char_automaton.h"
#include "grammar/json_text.h"
#include "grammar/numbers.h"
#include "grammar/regex.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_rules.h"
#include "grammar/schema_scalars.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/grammar/grammar.h"

namespace toy {
namespace grammar {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMaxRules = 20'000;
constexpr size_t kStepsOfRule = 20, kStepsOfChar = 20, kBytesOfStep = 16;  // of a budget

class SchemaCompiler {
 public:
  explicit SchemaCompiler(const SchemaDocument& document) : doc_(document) {}

  std::vector<Rule> compile(const std::optional<std::string>& property) {
    rules_.push_back({"the schema", {}});
    if (!property) refs_["#"] = 0;
    Expr root = property ? value_of(doc_.root().at("properties").at(*property), pointer_to("/properties", *property), 0)
                         : value_of(doc_.root(), "", 0);
    rules_[0].expr = std::move(root);
    while (!pending_.empty()) {
      const auto [index, ref] = pending_.front();
      pending_.pop_front();
      Expr e = value_of(doc_.resolve(ref, ref), ref.substr(1), 0);
      rules_[size_t(index)].expr = std::move(e);
    }
    return std::move(rules_);
  }

 private:
  int32_t add_rule(std::string name, Expr e = {}) {
    if (rules_.size() >= kMaxRules)
      doc_.refuse("", fmt::format("the schema is too large: it needs more than {} rules", kMaxRules));
    doc_.spend(kStepsOfRule + name.size() / kBytesOfStep, name);
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

  Expr quoted(const std::string& text, const std::string& pointer) {
    doc_.spend(text.size() * kStepsOfChar, pointer);
    return literal(json_quoted(text));
  }
  // The text of one value.
  Expr exactly(const Json& v, const std::string& pointer) {
    Expr result;
    doc_.spend(kStepsOfChar, pointer);
    if (v.is_string()) return quoted(v.get_ref<const std::string&>(), pointer);
    if (!v.is_structured()) return literal(json_text(v));
    bool first = true;
    for (const auto& [key, value] : v.items()) {
      if (!std::exchange(first, false)) result.parts.push_back(comma());
      if (v.is_object()) result.parts.push_back(sequence({quoted(key, pointer), literal(":"), space()}));
      result.parts.push_back(exactly(value, pointer));
    }
    return v.is_object() ? braces(std::move(result)) : brackets(std::move(result));
  }

  // The texts of a schema at a pointer.
  Expr value_of(const Json& schema, const std::string& pointer, int depth) {
    if (depth > kMaxDepth || ++work_ > int64_t(kMaxRules))
      doc_.refuse(pointer, "the schema is too large, or allOf combines recursive schemas");
    doc_.spend(kStepsOfRule + pointer.size() / kBytesOfStep, pointer);
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
    const std::vector<std::string> types = doc_.types(s, pointer);
    Expr result = alternatives({});
    for (const Json& v : s.contains("enum") ? s["enum"] : Json::array({s["const"]})) {
      if (s.contains("const") && s["const"] != v) continue;
      if (s.contains("type") && !has_type(types, type_of(v))) continue;
      result.parts.push_back(exactly(v, pointer));
    }
    return result;
  }

  Expr of_type(const Json& s, const std::string& type, const std::string& pointer, int depth) {
    if (type == "null") return literal("null");
    if (type == "boolean") return alternatives({literal("true"), literal("false")});
    if (type == "string") return string_texts(doc_, s, pointer).value_or(rule(named("string")));
    if (type == "integer") return integer_texts(doc_, s, pointer);
    if (type == "number") return number_texts(doc_, s, pointer).value_or(rule(named("number")));
    if (type == "array") return array_of(s, pointer, depth);
    return object_of(s, pointer, depth);
  }

  Expr array_of(const Json& s, const std::string& pointer, int depth) {
    if (s.contains("uniqueItems") && s["uniqueItems"] != false)
      doc_.refuse(pointer_to(pointer, "uniqueItems"), "'uniqueItems' cannot be expressed; remove it");
    const bool old = s.contains("items") && s["items"].is_array();
    const char* prefix_key = old ? "items" : "prefixItems";
    const char* items_key = old || !s.contains("items") ? "additionalItems" : "items";
    const Json prefix = s.contains(prefix_key) ? s[prefix_key] : Json::array();
    if (!prefix.is_array()) doc_.refuse(pointer_to(pointer, prefix_key), "it is not an array");
    const int64_t least = count_of(doc_, s, "minItems", 0, pointer), n = int64_t(prefix.size());
    int64_t most = count_of(doc_, s, "maxItems", -1, pointer);
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
    std::vector<std::string> names;
    std::set<std::string> required, known;
    const Json none = Json::object();
    const Json& properties = s.contains("properties") ? s["properties"] : none;
    if (!properties.is_object()) doc_.refuse(pointer_to(pointer, "properties"), "it is not an object");
    if (s.contains("required")) {
      if (!s["required"].is_array()) doc_.refuse(pointer_to(pointer, "required"), "it is not an array of names");
      for (const Json& name : s["required"]) {
        if (!name.is_string()) doc_.refuse(pointer_to(pointer, "required"), "it is not an array of names");
        required.insert(name);
      }
    }
    const bool has_extra = s.contains("additionalProperties")
                               ? s["additionalProperties"] != false
                               : !s.contains("properties") && !s.contains("patternProperties");
    std::vector<Pair> pairs;
    const std::string at = pointer_to(pointer, "properties");
    const auto pair = [&](const std::string& name, const Json& value, const std::string& where_it_is) {
      names.push_back(name);
      known.insert(name);
      Expr e = sequence({quoted(name, where_it_is), literal(":"), space(), value_of(value, where_it_is, depth + 1)});
      pairs.push_back({rule(add_rule(where_it_is, std::move(e))), required.contains(name)});
    };
    for (const auto& [name, value] : properties.items()) pair(name, value, pointer_to(at, name));
    for (const Json& entry : s.contains("required") ? s["required"] : Json::array()) {
      const std::string name = entry;
      if (known.contains(name)) continue;
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
    if (extra) extra = rule(add_rule(pointer, std::move(*extra)));
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
      const std::string place = doc_.place(pointer_to(pointer, "additionalProperties"));
      if (names.empty()) return sequence({rule(named("string")), literal(":"), space(), std::move(value)});
      return pair(json_string_of(all_but(names, {place, doc_.budget()})), std::move(value));
    }
    const std::string at = pointer_to(pointer, "patternProperties");
    if (!s["patternProperties"].is_object()) doc_.refuse(at, "it is not an object");
    if (has_extra)
      doc_.refuse(at, "'patternProperties' cannot be combined with additionalProperties; set them to false");
    if (s["patternProperties"].size() > 50) doc_.refuse(at, "more than 50 patterns cannot be expressed");
    Expr result = alternatives({});
    std::vector<CharAutomaton> before;
    for (const auto& [pattern, value] : s["patternProperties"].items()) {
      const std::string here = pointer_to(at, pattern), place = doc_.place(here);
      const Payer payer{place, doc_.budget()};
      CharAutomaton keys = char_automaton(parse_regex(pattern, payer), payer);
      for (const CharAutomaton& other : before)
        if (!intersection(keys, other, payer).empty())
          doc_.refuse(here, "a name may match two patterns, which cannot be expressed");
      for (const std::string& n : names)
        if (!intersection(keys, char_automaton(literal(n), payer), payer).empty())
          doc_.refuse(here, fmt::format("the property '{}' matches this pattern, which cannot be expressed", n));
      before.push_back(keys);
      result.parts.push_back(pair(json_string_of(std::move(keys)), value_of(value, here, depth + 1)));
    }
    return result;
  }

  // The rule of the pairs of an object. What may follow depends on the next pair and on how many there are so far, as
  // far as that matters: whether there is one, and minProperties and maxProperties.
  int32_t members(const std::vector<Pair>& pairs, const std::optional<Expr>& extra, const Json& s,
                  const std::string& pointer) {
    const int64_t least = count_of(doc_, s, "minProperties", 0, pointer),
                  most = count_of(doc_, s, "maxProperties", -1, pointer);
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

}  // namespace
}  // namespace grammar

std::vector<grammar::Rule> grammar::schema_rules(const nlohmann::ordered_json& schema, const std::string& name,
                                                 GrammarBudget& budget, const std::optional<std::string>& property) {
  const SchemaDocument document(schema, name, budget);
  return SchemaCompiler(document).compile(property);
}

Grammar json_schema_grammar(const nlohmann::ordered_json& schema, const std::string& name, GrammarBudget* budget) {
  GrammarBudget own;
  GrammarBudget& b = budget ? *budget : own;
  const std::vector<grammar::Rule> rules = grammar::schema_rules(schema, name, b);
  return Grammar(std::make_shared<grammar::Automaton>(grammar::compile(rules, name, b)));
}

Grammar json_object_grammar() {
  const nlohmann::ordered_json any{{"type", "object"}};
  return json_schema_grammar(any, "JSON");
}

}  // namespace toy
