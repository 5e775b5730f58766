#include "grammar/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::grammar {
namespace {

constexpr int kMaxDepth = 64;
constexpr int64_t kMaxWork = 50'000;
constexpr const char* kNotes[] = {
    "title",      "description", "default",   "examples",         "$comment",        "$schema", "$id",
    "deprecated", "readOnly",    "writeOnly", "contentMediaType", "contentEncoding", "$defs",   "definitions"};
constexpr const char* kKnown[] = {"type",
                                  "enum",
                                  "const",
                                  "properties",
                                  "required",
                                  "additionalProperties",
                                  "patternProperties",
                                  "minProperties",
                                  "maxProperties",
                                  "items",
                                  "prefixItems",
                                  "additionalItems",
                                  "minItems",
                                  "maxItems",
                                  "uniqueItems",
                                  "pattern",
                                  "format",
                                  "minLength",
                                  "maxLength",
                                  "minimum",
                                  "maximum",
                                  "exclusiveMinimum",
                                  "exclusiveMaximum",
                                  "multipleOf",
                                  "anyOf",
                                  "oneOf",
                                  "allOf",
                                  "$ref"};
const std::vector<std::string> kAllTypes{"object", "array", "string", "number", "integer", "boolean", "null"};

template <class List>
bool contains(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

bool is_note(std::string_view key) { return contains(kNotes, key) || key.starts_with("x-"); }

// The type that a keyword is about, or "".
std::string_view type_of_keyword(std::string_view key) {
  if (contains(std::initializer_list<const char*>{"properties", "required", "additionalProperties", "patternProperties",
                                                  "minProperties", "maxProperties"},
               key))
    return "object";
  if (contains(std::initializer_list<const char*>{"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}, key))
    return "array";
  if (contains(std::initializer_list<const char*>{"pattern", "format", "minLength", "maxLength"}, key)) return "string";
  if (contains(std::initializer_list<const char*>{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                                  "multipleOf"},
               key))
    return "number";
  return "";
}

// The values of enum and const; null: neither.
Json listed(const Json& schema) {
  if (schema.contains("const")) return Json::array({schema["const"]});
  return schema.contains("enum") ? schema["enum"] : Json();
}

Json all_of(const Json& a, const Json& b) {
  if (a == b) return a;
  return {{"allOf", Json::array({a, b})}};
}

// nullptr: there is none.
const Json* property_in(const Json& schema, const std::string& name) {
  if (!schema.contains("properties")) return nullptr;
  const auto found = schema["properties"].find(name);
  return found == schema["properties"].end() ? nullptr : &*found;
}

size_t count_in(const Json& schema, const char* key) { return schema.contains(key) ? schema[key].size() : 0; }

// Steps of a budget for a copy.
size_t copy_steps(const Json& value) {
  constexpr size_t kValue = 10, kBytes = 16;
  if (value.is_string()) return kValue + value.get_ref<const std::string&>().size() / kBytes;
  size_t steps = kValue;
  if (value.is_array())
    for (const Json& part : value) steps += copy_steps(part);
  if (value.is_object())
    for (const auto& [key, part] : value.items()) steps += key.size() / kBytes + copy_steps(part);
  return steps;
}

}  // namespace

std::string type_of(const Json& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  if (value.is_number_integer()) return "integer";
  const double d = value.get<double>();
  return d == std::floor(d) ? "integer" : "number";
}

bool has_type(const std::vector<std::string>& types, const std::string& type) {
  return contains(types, type) || (type == "integer" && contains(types, "number"));
}

std::string pointer_to(const std::string& pointer, std::string_view key) {
  std::string result = pointer + "/";
  for (const char c : key) {
    if (c == '~')
      result += "~0";
    else if (c == '/')
      result += "~1";
    else
      result += c;
  }
  return result;
}

std::string SchemaDocument::place(const std::string& pointer) const {
  return fmt::format("{}: {}", name_, pointer.empty() ? "the schema" : pointer);
}

void SchemaDocument::refuse(const std::string& pointer, const std::string& what) const {
  fail("{}", one_line(fmt::format("{}: {}", place(pointer), what)));
}

const Json& SchemaDocument::resolve(const std::string& ref, const std::string& pointer) const {
  if (!ref.starts_with('#'))
    refuse(pointer, fmt::format("$ref '{}' leads out of the schema; copy its target to $defs", ref));
  std::string path;
  for (size_t i = 1; i < ref.size(); ++i) {
    unsigned c = 0;
    if (ref[i] == '%' && i + 2 < ref.size() && std::sscanf(ref.substr(i + 1, 2).c_str(), "%2x", &c) == 1) {
      path += char(c);
      i += 2;
    } else {
      path += ref[i];
    }
  }
  if (!path.empty() && path[0] != '/') refuse(pointer, fmt::format("$ref '{}' is an anchor; use a JSON pointer", ref));
  try {
    const Json* at = &root_;
    for (size_t begin = 0, end = 0; begin < path.size(); begin = end) {
      end = std::min(path.find('/', begin + 1), path.size());
      spend(10 + at->size(), pointer);
      at = &at->at(nlohmann::json_pointer<std::string>(path.substr(begin, end - begin)));
    }
    return *at;
  } catch (const nlohmann::json::exception&) {
    refuse(pointer, fmt::format("$ref '{}' leads to nothing", ref));
  }
}

void SchemaDocument::check_keywords(const Json& schema, const std::string& pointer) const {
  if (schema.is_boolean()) return;
  if (!schema.is_object())
    refuse(pointer, fmt::format("a schema is an object or a boolean, not {}", json_text(schema)));
  spend(schema.size() * 10, pointer);
  for (const auto& [key, value] : schema.items())
    if (!contains(kKnown, key) && !is_note(key))
      refuse(pointer_to(pointer, key), fmt::format("the keyword '{}' cannot be expressed; remove it", key));
}

bool SchemaDocument::only(const Json& schema, std::string_view keyword) const {
  if (!schema.is_object() || !schema.contains(keyword)) return false;
  for (const auto& [key, value] : schema.items())
    if (key != keyword && !is_note(key)) return false;
  return true;
}

Json SchemaDocument::flat(const Json& schema, const std::string& pointer, int depth) const {
  if (depth > kMaxDepth) refuse(pointer, "$ref and allOf refer to themselves, or nest too deeply");
  if (++work_ > kMaxWork) refuse(pointer, "the schema is too large, or allOf combines recursive schemas");
  check_keywords(schema, pointer);
  if (schema.is_boolean()) return schema;
  Json result = Json::object();
  for (const auto& [key, value] : schema.items())
    if (!is_note(key) && key != "$ref" && key != "allOf") spend(copy_steps(value), pointer), result[key] = value;
  if (schema.contains("$ref")) {
    if (!schema["$ref"].is_string()) refuse(pointer_to(pointer, "$ref"), "it is not a string");
    const std::string ref = schema["$ref"];
    result = merged(flat(resolve(ref, pointer), pointer, depth + 1), result, pointer);
  }
  if (schema.contains("allOf")) {
    const std::string at = pointer_to(pointer, "allOf");
    if (!schema["allOf"].is_array()) refuse(at, "it is not an array");
    for (const Json& part : schema["allOf"]) result = merged(result, flat(part, at, depth + 1), at);
  }
  return result;
}

Json SchemaDocument::merged(const Json& a, const Json& b, const std::string& pointer) const {
  if (a.is_boolean()) return a.get<bool>() ? b : a;
  if (b.is_boolean()) return b.get<bool>() ? a : b;
  if (a.empty()) return b;
  spend(copy_steps(a) + copy_steps(b), pointer);
  for (const char* key : {"required", "enum"})  // each of one list is looked for in the other
    if (a.contains(key) && b.contains(key)) spend(copy_steps(a[key]) * b[key].size() / 8, pointer);
  Json r = a;
  for (const auto& [key, value] : b.items()) {
    if (key == "properties" || key == "additionalProperties") continue;
    if (!a.contains(key) || a[key] == value) {
      r[key] = value;
    } else if (key == "type") {
      std::vector<std::string> both;
      const auto x = types(a, pointer), y = types(b, pointer);
      for (const std::string& t : kAllTypes)
        if ((contains(x, t) && has_type(y, t)) || (contains(y, t) && has_type(x, t))) both.push_back(t);
      if (contains(both, "number")) std::erase(both, "integer");
      if (both.empty()) return false;
      r["type"] = both;
    } else if (key == "required") {
      if (!value.is_array() || !r[key].is_array()) refuse(pointer, "'required' is not an array");
      for (const Json& name : value)
        if (std::find(r[key].begin(), r[key].end(), name) == r[key].end()) r[key].push_back(name);
    } else if (key == "enum" && value.is_array() && a[key].is_array()) {
      Json both = Json::array();
      for (const Json& v : value)
        if (std::find(a[key].begin(), a[key].end(), v) != a[key].end()) both.push_back(v);
      r[key] = both;
    } else if (key == "const") {
      return false;
    } else if ((key.starts_with("min") || key == "exclusiveMinimum") && value.is_number() && a[key].is_number()) {
      r[key] = value > a[key] ? value : a[key];
    } else if ((key.starts_with("max") || key == "exclusiveMaximum") && value.is_number() && a[key].is_number()) {
      r[key] = value < a[key] ? value : a[key];
    } else if (key == "pattern" || key == "format") {  // a list is all of them
      Json list = a[key].is_array() ? a[key] : Json::array({a[key]});
      for (const Json& v : value.is_array() ? value : Json::array({value})) list.push_back(v);
      r[key] = list;
    } else if (key == "items" && !value.is_array() && !a[key].is_array()) {
      r[key] = all_of(a[key], value);
    } else if (key == "anyOf" && value.is_array() && a[key].is_array()) {
      Json list = Json::array();
      if (a[key].size() * value.size() > 1000) refuse(pointer, "too many combinations of anyOf");
      spend(copy_steps(a[key]) * value.size() + copy_steps(value) * a[key].size(), pointer);
      for (const Json& x : a[key])
        for (const Json& y : value) list.push_back(all_of(x, y));
      r[key] = list;
    } else {
      refuse(pointer, fmt::format("'{}' is stated twice (allOf, $ref) and cannot be combined", key));
    }
  }
  if (a.contains("patternProperties") != b.contains("patternProperties") &&
      (a.contains("properties") || b.contains("properties")))
    refuse(pointer, "'patternProperties' cannot be combined with the properties of another schema");
  for (const auto& [s, t] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (s->contains("prefixItems") && !t->contains("prefixItems") && t->contains("items"))
      refuse(pointer, "'prefixItems' cannot be combined with the items of another schema");
    if (s->contains("patternProperties") && !t->contains("patternProperties") && t->contains("additionalProperties") &&
        (*t)["additionalProperties"] != true)
      refuse(pointer, "'patternProperties' cannot be combined with the additionalProperties of another schema");
  }
  const auto extra = [](const Json& s) {
    return s.contains("additionalProperties") ? s["additionalProperties"] : Json();
  };
  const Json xa = extra(a), xb = extra(b);
  Json properties = Json::object();
  const auto add = [&](const Json& from, const Json& other, const Json& other_extra) {
    if (!from.contains("properties")) return;
    spend(from["properties"].size() * (from["properties"].size() + properties.size() + copy_steps(other_extra)),
          pointer);
    for (const auto& [name, value] : from["properties"].items()) {
      if (properties.contains(name)) continue;
      if (const Json* there = property_in(other, name))
        properties[name] = all_of(value, *there);
      else
        properties[name] = other_extra.is_null() || other_extra == true ? value : all_of(value, other_extra);
    }
  };
  add(a, b, xb);
  add(b, a, xa);
  if (!properties.empty() || a.contains("properties") || b.contains("properties")) r["properties"] = properties;
  if (!xa.is_null() && !xb.is_null())
    r["additionalProperties"] = xa == false || xb == false ? Json(false)
                                : xa == true               ? xb
                                : xb == true               ? xa
                                                           : all_of(xa, xb);
  else if (!xb.is_null())
    r["additionalProperties"] = xb;
  return r;
}

std::vector<std::string> SchemaDocument::types(const Json& schema, const std::string& pointer) const {
  if (schema.is_boolean()) return schema.get<bool>() ? kAllTypes : std::vector<std::string>{};
  std::vector<std::string> result;
  if (schema.contains("type")) {
    const std::string at = pointer_to(pointer, "type");
    for (const Json& t : schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]})) {
      if (!t.is_string() || !contains(kAllTypes, t.get<std::string>()))
        refuse(at, fmt::format("the type {} is unknown; known are {}", json_text(t), fmt::join(kAllTypes, ", ")));
      if (!contains(result, t.get<std::string>())) result.push_back(t);
    }
    if (result.empty()) refuse(at, "it is empty");
    if (contains(result, "number")) std::erase(result, "integer");
    return result;
  }
  for (const auto& [key, value] : schema.items())
    if (const std::string_view t = type_of_keyword(key); !t.empty() && !contains(result, t)) result.emplace_back(t);
  if (!result.empty()) return result;
  result = kAllTypes;
  std::erase(result, "integer");
  return result;
}

bool SchemaDocument::disjoint(const Json& x, const Json& y, const std::string& pointer, int depth) const {
  if (depth > 16 || work_ > kMaxWork / 2) return false;
  const Json a = flat(x, pointer), b = flat(y, pointer);
  if (a == false || b == false) return true;
  if (a == true || b == true) return false;
  for (const char* key : {"anyOf", "oneOf"}) {
    if (a.contains(key))
      return std::all_of(a[key].begin(), a[key].end(),
                         [&](const Json& s) { return disjoint(s, b, pointer, depth + 1); });
    if (b.contains(key))
      return std::all_of(b[key].begin(), b[key].end(),
                         [&](const Json& s) { return disjoint(a, s, pointer, depth + 1); });
  }
  const Json va = listed(a), vb = listed(b);
  spend(copy_steps(va) * vb.size() / 8, pointer);
  // Types that are stated: a schema without them allows all values of other types.
  const auto stated = [&](const Json& s) { return s.contains("type") ? types(s, pointer) : kAllTypes; };
  const auto ta = stated(a), tb = stated(b);
  const auto outside = [](const Json& values, const std::vector<std::string>& list) {
    return std::none_of(values.begin(), values.end(), [&](const Json& v) { return has_type(list, type_of(v)); });
  };
  if (!va.is_null() && !vb.is_null())
    return std::none_of(va.begin(), va.end(),
                        [&](const Json& v) { return std::find(vb.begin(), vb.end(), v) != vb.end(); });
  if (!va.is_null()) return outside(va, tb);
  if (!vb.is_null()) return outside(vb, ta);
  std::vector<std::string> both;
  for (const std::string& t : kAllTypes)
    if (has_type(ta, t) && has_type(tb, t)) both.push_back(t);
  if (both.empty()) return true;
  if (both.size() == 1 && both[0] == "object") return excludes(a, b, pointer, depth) && excludes(b, a, pointer, depth);
  const auto numeric = [](const std::string& t) { return t == "integer" || t == "number"; };
  if (std::all_of(both.begin(), both.end(), numeric)) {
    const auto below = [](const Json& s, const Json& t) {
      return s.contains("maximum") && t.contains("minimum") && s["maximum"].is_number() && s["maximum"] < t["minimum"];
    };
    return below(a, b) || below(b, a);
  }
  return false;
}

// Is no object that is generated for `a` valid under `b`?
bool SchemaDocument::excludes(const Json& a, const Json& b, const std::string& pointer, int depth) const {
  const size_t in_a = count_in(a, "required"), in_b = count_in(b, "required");
  spend(in_b * (in_a + count_in(a, "properties")) + in_a * (count_in(a, "properties") + count_in(b, "properties")),
        pointer);
  const Json none = Json::array();
  const Json required_a = a.contains("required") ? a["required"] : none,
             required_b = b.contains("required") ? b["required"] : none;
  const bool open = (a.contains("additionalProperties") && a["additionalProperties"] != false) ||
                    a.contains("patternProperties") || !a.contains("properties");
  for (const Json& name : required_b)
    if (!open && name.is_string() && property_in(a, name) == nullptr &&
        std::find(required_a.begin(), required_a.end(), name) == required_a.end())
      return true;
  for (const Json& name : required_a) {
    if (!name.is_string()) continue;
    const Json *pa = property_in(a, name), *pb = property_in(b, name);
    if (pa && pb && disjoint(*pa, *pb, pointer, depth + 1)) return true;
    if (!pb && !b.contains("patternProperties") && b.contains("additionalProperties") &&
        b["additionalProperties"] == false)
      return true;
  }
  return false;
}

}  // namespace toy::grammar
