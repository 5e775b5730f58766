// Whether a value that a schema lists is valid under what else it says.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_shapes.h"
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

bool ShapeMaker::contains(const Term& term, const Json& value, const Json* skip) {
  return std::all_of(term.begin(), term.end(), [&](Fact f) { return valid(f / 2, value, skip, 0) == (f % 2 == 0); });
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

// `skip`: a list that the value is known to be in.
bool ShapeMaker::valid(int32_t node, const Json& value, const Json* skip, int depth) {
  if (node <= SchemaDocument::kNothing) return node == SchemaDocument::kAnything;
  const SchemaDocument::Node& n = doc_.at(node);
  const Json& s = *n.schema;
  if (depth > kMaxDepth) doc_.refuse(n.pointer, "it refers to itself, or nests too deeply");
  doc_.spend(50 + s.size() * 10, n.pointer);
  const auto under = [&](const Json& part, const std::string& key) {
    return valid(doc_.node(part, pointer_to(n.pointer, key), node), value, skip, depth + 1);
  };
  const auto count = [&](const char* key) {
    return std::count_if(s[key].begin(), s[key].end(), [&](const Json& part) { return under(part, key); });
  };
  const auto get = [&](const char* key) { return s.find(key); };
  const auto none = s.end();
  for (const char* key : {"$ref", "$dynamicRef", "$recursiveRef"})
    if (const auto ref = get(key); ref != none) {
      if (!ref->is_string()) doc_.refuse(pointer_to(n.pointer, key), "it is not a string");
      const int32_t target =
          key[1] == 'r' && key[2] == 'e' && key[3] == 'f' ? doc_.resolve(node, *ref) : doc_.resolve_dynamic(node, *ref);
      if (!valid(target, value, skip, depth + 1)) return false;
    }
  if (const auto t = get("type"); t != none && !has_type(*t, value)) return false;
  if (const auto v = get("const"); v != none && &*v != skip && !equal(*v, value)) return false;
  if (const auto v = get("enum"); v != none && &*v != skip && !is_listed(*v, value, n.pointer)) return false;
  for (const char* key : {"allOf", "anyOf", "oneOf"})
    if (const auto list = get(key); list != none && !list->is_array())
      doc_.refuse(pointer_to(n.pointer, key), "it is not an array of schemas");
  if (const auto all = get("allOf"); all != none && count("allOf") < int64_t(all->size())) return false;
  if (get("anyOf") != none && count("anyOf") == 0) return false;
  if (get("oneOf") != none && count("oneOf") != 1) return false;
  if (const auto part = get("not"); part != none && under(*part, "not")) return false;
  if (const auto part = get("if"); part != none) {
    const char* next = under(*part, "if") ? "then" : "else";
    if (const auto then = get(next); then != none && !under(*then, next)) return false;
  }
  for (const char* key : {"unevaluatedProperties", "unevaluatedItems"})
    if (get(key) != none && *get(key) != true && value.is_structured())
      doc_.refuse(pointer_to(n.pointer, key), fmt::format("'{}' cannot be combined with enum or const", key));
  if (value.is_object()) return valid_object(n, node, value, depth);
  if (value.is_array()) return valid_array(n, node, value, depth);
  return valid_scalar(n, value);
}

bool ShapeMaker::valid_object(const SchemaDocument::Node& n, int32_t node, const Json& value, int depth) {
  const Json& s = *n.schema;
  const Json none = Json::object();
  const auto get = [&](const char* key) -> const Json& { return s.contains(key) ? s[key] : none; };
  const auto under = [&](const Json& part, const Json& v, const std::string& key) {
    return valid(doc_.node(part, pointer_to(n.pointer, key), node), v, nullptr, depth + 1);
  };
  const Json no_list = Json::array();
  for (const Json& name : s.contains("required") ? s["required"] : no_list)
    if (!name.is_string() || !value.contains(name.get<std::string>())) return false;
  const int64_t size = int64_t(value.size()), most = doc_.count_of(s, "maxProperties", -1, n.pointer);
  if (size < doc_.count_of(s, "minProperties", 0, n.pointer) || (most >= 0 && size > most)) return false;
  for (const auto& [name, v] : value.items()) {
    bool covered = false;
    if (const Json& p = get("properties"); p.contains(name)) {
      covered = true;
      if (!under(p[name], v, "properties")) return false;
    }
    for (const auto& [pattern, part] : get("patternProperties").items()) {
      const std::string at = pointer_to(n.pointer, "patternProperties"), here = doc_.place(at);
      if (!doc_.pattern(pattern, at).matches(code_points(name, "a name"), {here, doc_.budget()})) continue;
      covered = true;
      if (!under(part, v, "patternProperties")) return false;
    }
    if (!covered && s.contains("additionalProperties") && !under(s["additionalProperties"], v, "additionalProperties"))
      return false;
    if (s.contains("propertyNames") && !under(s["propertyNames"], Json(name), "propertyNames")) return false;
  }
  for (const char* key : {"dependencies", "dependentRequired", "dependentSchemas"})
    for (const auto& [name, needs] : get(key).items()) {
      if (!value.contains(name)) continue;
      if (!needs.is_array()) {
        if (!under(needs, value, key)) return false;
      } else {
        for (const Json& other : needs)
          if (!other.is_string() || !value.contains(other.get<std::string>())) return false;
      }
    }
  return true;
}

bool ShapeMaker::valid_array(const SchemaDocument::Node& n, int32_t node, const Json& value, int depth) {
  const Json& s = *n.schema;
  const auto under = [&](const Json& part, const Json& v, const std::string& key) {
    return valid(doc_.node(part, pointer_to(n.pointer, key), node), v, nullptr, depth + 1);
  };
  const int64_t size = int64_t(value.size()), most = doc_.count_of(s, "maxItems", -1, n.pointer);
  if (size < doc_.count_of(s, "minItems", 0, n.pointer) || (most >= 0 && size > most)) return false;
  const bool old = s.contains("items") && s["items"].is_array();
  const char* rest = old ? "additionalItems" : "items";
  const Json none = Json::array();
  const Json& prefix = old ? s["items"] : s.contains("prefixItems") ? s["prefixItems"] : none;
  int64_t found = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    if (i < prefix.size() ? !under(prefix[i], value[i], "prefixItems")
                          : s.contains(rest) && !under(s[rest], value[i], rest))
      return false;
    if (s.contains("contains") && under(s["contains"], value[i], "contains")) ++found;
    if (s.contains("uniqueItems") && s["uniqueItems"] == true)
      for (size_t k = 0; k < i; ++k) {
        doc_.spend(10, n.pointer);
        if (equal(value[i], value[k])) return false;
      }
  }
  if (!s.contains("contains")) return true;
  const int64_t most_found = doc_.count_of(s, "maxContains", -1, n.pointer);
  return found >= doc_.count_of(s, "minContains", 1, n.pointer) && (most_found < 0 || found <= most_found);
}

bool ShapeMaker::valid_scalar(const SchemaDocument::Node& n, const Json& value) {
  const Json& s = *n.schema;
  const std::string here = doc_.place(n.pointer);
  if (value.is_string()) {
    const std::vector<uint32_t> text = code_points(value.get_ref<const std::string&>(), here);
    const int64_t size = int64_t(text.size()), most = doc_.count_of(s, "maxLength", -1, n.pointer);
    if (size < doc_.count_of(s, "minLength", 0, n.pointer) || (most >= 0 && size > most)) return false;
    const Payer payer{here, doc_.budget()};
    if (s.contains("pattern") && s["pattern"].is_string() &&
        !doc_.pattern(s["pattern"], pointer_to(n.pointer, "pattern")).matches(text, payer))
      return false;
    if (s.contains("format") && s["format"].is_string())
      if (const auto* f = doc_.format(s["format"], pointer_to(n.pointer, "format")))
        return (f->most < 0 || size <= f->most) && f->automaton.matches(text, payer);
    return true;
  }
  if (!value.is_number()) return true;
  const Decimal v = Decimal::of(value, here);
  NumberLimits limits;
  add_number_limits(doc_, n, limits);
  return limits.contains(v);
}

}  // namespace toy::grammar
