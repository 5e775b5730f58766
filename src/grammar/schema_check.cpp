// Whether a value that a schema lists is valid under what else it says.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_draft.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::grammar {
namespace {

constexpr int kMaxDepth = 200;

bool has_type(const Json& types, const Json& value) {
  const std::string is = type_of(value);
  const auto fits = [&](const Json& t) { return t == is || (is == "integer" && t == "number"); };
  return types.is_array() ? std::any_of(types.begin(), types.end(), fits) : fits(types);
}

}  // namespace

ShapeMaker::Verdict ShapeMaker::contains(const Term& term, const Json& value, const Json* skip) {
  Verdict result;
  for (const Fact f : term) {
    const Verdict v = valid(f / 2, value, skip, 0);
    result = result & (f % 2 == 0 ? v : !v);
    if (!result.maybe) break;
  }
  return result;
}

bool ShapeMaker::is_listed(const Json& list, const Json& value, const std::string& pointer) {
  if (value.is_string() && list.size() > 16) {
    const auto [strings, is_new] = strings_in_.try_emplace(&list);
    if (is_new)
      for (const Json& v : list)
        if (v.is_string()) {
          doc_.spend_bytes(100 + v.get_ref<const std::string&>().size(), pointer);
          strings->second.insert(v);
        }
    doc_.spend(20, pointer);
    return strings->second.contains(value.get_ref<const std::string&>());
  }
  doc_.spend(list.size() * 4, pointer);
  return std::any_of(list.begin(), list.end(), [&](const Json& v) { return equal(v, value); });
}

ShapeMaker::Verdict ShapeMaker::valid(int32_t node, const Json& value, const Json* skip, int depth) {
  if (node <= SchemaDocument::kNothing) return node == SchemaDocument::kAnything ? Verdict{} : kInvalid;
  const SchemaDocument::Node& n = doc_.at(node);
  const Json& s = *n.schema;
  if (depth > kMaxDepth) doc_.refuse(n.pointer, "it refers to itself, or nests too deeply");
  doc_.spend(50 + s.size() * 10, n.pointer);
  const auto under = [&](const char* key) { return valid(child(doc_, node, key), value, skip, depth + 1); };
  const auto get = [&](const char* key) { return s.find(key); };
  const auto none = s.end();
  Verdict result;
  for (const char* key : {"$ref", "$dynamicRef", "$recursiveRef"})
    if (const int32_t target = target_of(doc_, node, key); target >= 0)
      if (!(result = result & valid(target, value, skip, depth + 1)).maybe) return kInvalid;
  if (const auto t = get("type"); t != none && !has_type(*t, value)) return kInvalid;
  if (const auto v = get("const"); v != none && &*v != skip && !equal(*v, value)) return kInvalid;
  if (const auto v = get("enum"); v != none && &*v != skip && !is_listed(*v, value, n.pointer)) return kInvalid;
  for (const char* key : {"allOf", "anyOf", "oneOf"}) {
    const auto list = get(key);
    if (list == none) continue;
    if (!list->is_array()) doc_.refuse(pointer_to(n.pointer, key), "it is not an array of schemas");
    int64_t sure = 0, maybe = 0;
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string entry = std::to_string(i);
      const Verdict v = valid(child(doc_, node, key, &entry), value, skip, depth + 1);
      sure += v.sure, maybe += v.maybe;
    }
    const int64_t all = int64_t(list->size());
    if (key[1] == 'l')
      result = result & Verdict{sure == all, maybe == all};
    else if (key[0] == 'a')
      result = result & Verdict{sure > 0, maybe > 0};
    else
      result = result & Verdict{sure == 1 && maybe == 1, maybe > 0 && sure <= 1};
    if (!result.maybe) return kInvalid;
  }
  if (get("not") != none) result = result & !under("not");
  if (get("if") != none && (get("then") != none || get("else") != none)) {
    const Verdict condition = under("if");
    if (condition.maybe && get("then") != none) result = result & ((!condition) | under("then"));
    if (!condition.sure && get("else") != none) result = result & (condition | under("else"));
  }
  for (const char* key : {"unevaluatedProperties", "unevaluatedItems"})
    if (get(key) != none && *get(key) != true && value.is_structured())
      doc_.refuse(pointer_to(n.pointer, key), fmt::format("'{}' cannot be combined with enum or const", key));
  if (!result.maybe) return kInvalid;
  if (value.is_object()) return result & valid_object(n, node, value, depth);
  if (value.is_array()) return result & valid_array(n, node, value, depth);
  return result & valid_scalar(n, value);
}

ShapeMaker::Verdict ShapeMaker::valid_object(const SchemaDocument::Node& n, int32_t node, const Json& value,
                                             int depth) {
  const Json& s = *n.schema;
  const Json none = Json::object();
  const auto get = [&](const char* key) -> const Json& {
    if (!s.contains(key)) return none;
    if (!s[key].is_object()) doc_.refuse(pointer_to(n.pointer, key), "it is not an object");
    return s[key];
  };
  Verdict result;
  const auto under = [&](const Json& v, const char* key, const std::string* entry = nullptr) {
    result = result & valid(child(doc_, node, key, entry), v, nullptr, depth + 1);
  };
  if (s.contains("required")) {
    if (!s["required"].is_array()) doc_.refuse(pointer_to(n.pointer, "required"), "it is not an array of names");
    for (const Json& name : s["required"])
      if (!name.is_string() || !value.contains(name.get<std::string>())) return kInvalid;
  }
  const int64_t size = int64_t(value.size()), most = doc_.count_of(s, "maxProperties", -1, n.pointer);
  if (size < doc_.count_of(s, "minProperties", 0, n.pointer) || (most >= 0 && size > most)) return kInvalid;
  for (const auto& [name, v] : value.items()) {
    bool covered = false;
    if (get("properties").contains(name)) covered = true, under(v, "properties", &name);
    for (const auto& [pattern, part] : get("patternProperties").items()) {
      const std::string at = pointer_to(pointer_to(n.pointer, "patternProperties"), pattern), here = doc_.place(at);
      if (!doc_.pattern(pattern, at).matches(code_points(name, "a name"), {here, doc_.budget()})) continue;
      covered = true;
      under(v, "patternProperties", &pattern);
    }
    if (!covered && s.contains("additionalProperties")) under(v, "additionalProperties");
    if (s.contains("propertyNames")) under(Json(name), "propertyNames");
    if (!result.maybe) return kInvalid;
  }
  for (const char* key : {"dependencies", "dependentRequired", "dependentSchemas"})
    for (const auto& [name, needs] : get(key).items()) {
      if (!value.contains(name)) continue;
      if (const auto others = doc_.names_needed(needs, pointer_to(pointer_to(n.pointer, key), name))) {
        for (const std::string& other : *others)
          if (!value.contains(other)) return kInvalid;
      } else {
        under(value, key, &name);
      }
    }
  return result;
}

ShapeMaker::Verdict ShapeMaker::valid_array(const SchemaDocument::Node& n, int32_t node, const Json& value, int depth) {
  const Json& s = *n.schema;
  const auto under = [&](const Json& v, const char* key, const std::string* entry = nullptr) {
    return valid(child(doc_, node, key, entry), v, nullptr, depth + 1);
  };
  const int64_t size = int64_t(value.size()), most = doc_.count_of(s, "maxItems", -1, n.pointer);
  if (size < doc_.count_of(s, "minItems", 0, n.pointer) || (most >= 0 && size > most)) return kInvalid;
  const bool old = s.contains("items") && s["items"].is_array();
  const char *prefix = old ? "items" : "prefixItems", *rest = old ? "additionalItems" : "items";
  if (s.contains(prefix) && !s[prefix].is_array())
    doc_.refuse(pointer_to(n.pointer, prefix), "it is not an array of schemas");
  const size_t prefix_size = s.contains(prefix) ? s[prefix].size() : 0;
  Verdict result;
  int64_t sure = 0, maybe = 0;  // of those that are counted
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string index = std::to_string(i);
    if (i < prefix_size)
      result = result & under(value[i], prefix, &index);
    else if (s.contains(rest))
      result = result & under(value[i], rest);
    if (!result.maybe) return kInvalid;
    if (s.contains("contains")) {
      const Verdict v = under(value[i], "contains");
      sure += v.sure, maybe += v.maybe;
    }
    if (s.contains("uniqueItems") && s["uniqueItems"] == true)
      for (size_t k = 0; k < i; ++k) {
        doc_.spend(10, n.pointer);
        if (equal(value[i], value[k])) return kInvalid;
      }
  }
  if (!s.contains("contains")) return result;
  const int64_t least = doc_.count_of(s, "minContains", 1, n.pointer),
                most_found = doc_.count_of(s, "maxContains", -1, n.pointer);
  const auto few = [&](int64_t found) { return most_found < 0 || found <= most_found; };
  return result & Verdict{sure >= least && few(maybe), maybe >= least && few(sure)};
}

ShapeMaker::Verdict ShapeMaker::valid_scalar(const SchemaDocument::Node& n, const Json& value) {
  const Json& s = *n.schema;
  const std::string here = doc_.place(n.pointer);
  if (value.is_string()) {
    const std::vector<uint32_t> text = code_points(value.get_ref<const std::string&>(), here);
    const int64_t size = int64_t(text.size()), most = doc_.count_of(s, "maxLength", -1, n.pointer);
    if (size < doc_.count_of(s, "minLength", 0, n.pointer) || (most >= 0 && size > most)) return kInvalid;
    const Payer payer{here, doc_.budget()};
    const auto text_of = [&](const char* key) {
      return s.contains(key) && s[key].is_string() ? s[key].get<std::string>() : "";
    };
    if (const std::string pattern = text_of("pattern"); !pattern.empty())
      if (!doc_.pattern(pattern, pointer_to(n.pointer, "pattern")).matches(text, payer)) return kInvalid;
    const std::string format = text_of("format"), at = pointer_to(n.pointer, "format");
    const FormatTexts* f = format.empty() ? nullptr : doc_.format(format, at);
    if (!f) return {};
    if ((f->most < 0 || size <= f->most) && f->automaton.matches(text, payer)) return {};
    return {false, doc_.wide_format(format, at).matches(text, payer)};
  }
  if (!value.is_number()) return {};
  const Decimal v = Decimal::of(value, here);
  NumberLimits limits, wide;
  add_number_limits(doc_, n, limits);
  add_number_limits(doc_, n, wide, true);
  return {limits.contains(v), wide.contains(v)};
}

}  // namespace toy::grammar
