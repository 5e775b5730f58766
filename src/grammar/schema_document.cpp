#include "grammar/schema_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "grammar/formats.h"
#include "grammar/regex.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/utf8.h"

namespace toy::grammar {
namespace {

const Json kTrue = true, kFalse = false;

// Every keyword that may restrict something. Others annotate: JSON Schema 2020-12, core, 6.5.
constexpr const char* kKeywords[] = {"type",
                                     "enum",
                                     "const",
                                     "properties",
                                     "required",
                                     "additionalProperties",
                                     "propertyNames",
                                     "minProperties",
                                     "patternProperties",
                                     "maxProperties",
                                     "items",
                                     "prefixItems",
                                     "minItems",
                                     "maxItems",
                                     "additionalItems",
                                     "uniqueItems",
                                     "contains",
                                     "minContains",
                                     "maxContains",
                                     "pattern",
                                     "format",
                                     "minLength",
                                     "maxLength",
                                     "minimum",
                                     "maximum",
                                     "multipleOf",
                                     "exclusiveMinimum",
                                     "anyOf",
                                     "oneOf",
                                     "exclusiveMaximum",
                                     "allOf",
                                     "not",
                                     "if",
                                     "then",
                                     "else",
                                     "dependencies",
                                     "$ref",
                                     "$dynamicRef",
                                     "dependentRequired",
                                     "$recursiveRef",
                                     "dependentSchemas",
                                     "unevaluatedProperties",
                                     "unevaluatedItems"};

// Keywords that restrict nothing.
constexpr const char* kAnnotations[] = {
    "title",     "description", "default",         "example",       "examples",         "deprecated", "readOnly",
    "writeOnly", "nullable",    "contentEncoding", "contentSchema", "contentMediaType", "definitions"};

// Of a schema that everything would follow, as none of its keys is a keyword: what was probably meant. Else "".
std::string why_no_schema(const Json& schema) {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : schema.items()) {
    if (!is_note(key) || key.starts_with('$')) return "";
    if (std::ranges::find(kAnnotations, key) == std::end(kAnnotations) && !key.starts_with("x-"))
      unknown.push_back("'" + one_line(key) + "'");
  }
  if (unknown.empty()) return "";
  const std::vector<std::string> keywords(std::begin(kKeywords), std::end(kKeywords));
  const std::string near = nearest(schema.begin().key(), keywords);
  return fmt::format(
      "{} {} of JSON Schema; {}", fmt::join(unknown, ", "), unknown.size() > 1 ? "are no keywords" : "is no keyword",
      near.empty() ? R"(a schema of objects is {"type": "object", "properties": {"NAME": {"type": "string"}}})"
                   : fmt::format("did you mean '{}'?", near));
}

bool is_definitions(std::string_view key) { return key == "$defs" || key == "definitions"; }
// Is the keyword's value an object of schemas by names, or by patterns?
bool holds_names(std::string_view key) {
  return is_definitions(key) || key == "properties" || key == "patternProperties" || key.starts_with("depend");
}

bool has_scheme(const std::string& uri) {
  const size_t colon = uri.find(':');
  return colon != uri.npos && uri.find_first_of("/?#") > colon;
}

// RFC 3986, 5.2, as far as references between schemas need it.
std::string resolved(const std::string& base, const std::string& uri) {
  if (uri.empty() || has_scheme(uri)) return uri.empty() ? base : uri;
  const size_t authority = base.find("://");
  const size_t path = authority == base.npos ? 0 : std::min(base.find('/', authority + 3), base.size());
  std::string result;
  if (uri.starts_with("//")) return base.substr(0, authority == base.npos ? 0 : authority + 1) + uri;
  if (uri[0] == '/')
    result = base.substr(0, path) + uri;
  else if (const size_t slash = base.rfind('/'); slash != base.npos && slash >= path && path < base.size())
    result = base.substr(0, slash + 1) + uri;
  else
    result = path > 0 ? base + "/" + uri : uri;
  for (size_t up; (up = result.find("/../", path)) != result.npos && up > path;) {
    const size_t before = result.rfind('/', up - 1);
    if (before == result.npos || before < path) break;
    result.erase(before, up + 3 - before);
  }
  return result;
}

std::string text_of(const Json& schema, const char* key) {
  const auto found = schema.find(key);
  return found != schema.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string unescaped(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned c = 0;
    if (text[i] == '%' && i + 2 < text.size() && std::sscanf(text.substr(i + 1, 2).c_str(), "%2x", &c) == 1)
      result += char(c), i += 2;
    else
      result += text[i];
  }
  return result;
}

}  // namespace

bool is_note(std::string_view key) {
  return std::find(std::begin(kKeywords), std::end(kKeywords), key) == std::end(kKeywords);
}

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

bool equal(const Json& a, const Json& b) {
  if (a.is_object() && b.is_object())
    return a.size() == b.size() && std::all_of(a.items().begin(), a.items().end(), [&](const auto& item) {
             const auto other = b.find(item.key());
             return other != b.end() && equal(item.value(), *other);
           });
  if (a.is_array() && b.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
  return a == b;
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

SchemaDocument::SchemaDocument(const Json& root, std::string name, GrammarBudget& budget)
    : root_(root), name_(std::move(name)), budget_(budget) {
  nodes_.push_back({&kTrue, "", &root_});
  nodes_.push_back({&kFalse, "", &root_});
  nodes_.push_back({&root_, "", &root_});
  numbers_[&root_] = 2;
  if (!root.is_object() && !root.is_boolean())
    refuse("", fmt::format("a schema is an object or a boolean, not {}", json_text(root)));
  if (const std::string why = root.is_object() ? why_no_schema(root) : ""; !why.empty()) refuse("", why);
}

int32_t SchemaDocument::node(const Json& schema, std::string pointer, int32_t in) {
  if (schema.is_boolean()) return schema.get<bool>() ? kAnything : kNothing;
  const auto [found, is_new] = numbers_.try_emplace(&schema, int32_t(nodes_.size()));
  if (!is_new) return found->second;
  if (!schema.is_object())
    refuse(pointer, fmt::format("a schema is an object or a boolean, not {}", json_text(schema)));
  if (const std::string why = why_no_schema(schema); !why.empty()) refuse(pointer, why);
  spend(20 + pointer.size() / 16, pointer);
  spend_bytes(200 + pointer.size(), pointer);
  const std::string id = text_of(schema, "$id");
  const Json* resource = !id.empty() && id[0] != '#' ? &schema : at(in).resource;
  nodes_.push_back({&schema, std::move(pointer), resource});
  return found->second;
}

// Where the schemas with an $id and those with an anchor are.
void SchemaDocument::make_index() {
  has_index_ = true;
  struct Part {
    const Json* schema;
    const Json* resource;
  };
  resources_[""] = &root_;
  std::vector<Part> todo{{&root_, &root_}};
  while (!todo.empty()) {
    auto [schema, resource] = todo.back();
    todo.pop_back();
    spend(10 + schema->size() * 4, "");
    if (!schema->is_object()) continue;
    std::string id = text_of(*schema, "$id");
    if (id.empty() && schema == &root_) id = text_of(*schema, "id");
    if (!id.empty() && id[0] != '#') {
      const std::string uri = resolved(uris_[resource], id.substr(0, id.find('#')));
      resource = schema;
      uris_[resource] = uri;
      resources_.emplace(uri, resource);
    } else if (!id.empty()) {
      anchors_.emplace(std::pair(resource, id.substr(1)), schema);
    }
    for (const char* key : {"$anchor", "$dynamicAnchor"})
      if (const std::string name = text_of(*schema, key); !name.empty())
        anchors_.emplace(std::pair(resource, name), schema);
    if (const std::string name = text_of(*schema, "$dynamicAnchor"); !name.empty()) ++dynamic_anchors_[name];
    if (schema->contains("$recursiveAnchor")) ++dynamic_anchors_[""];
    for (const auto& [key, part] : schema->items()) {
      if (!part.is_structured() || key == "enum" || key == "const" || (is_note(key) && !is_definitions(key))) continue;
      if (part.is_array() || holds_names(key))
        for (const Json& entry : part) todo.push_back({&entry, resource});
      else
        todo.push_back({&part, resource});
    }
  }
}

const Json& SchemaDocument::follow(const Json& resource, const std::string& path, const std::string& ref,
                                   const std::string& pointer, const Json*& nearest) const {
  try {
    const Json* at = &resource;
    for (size_t begin = 0, end = 0; begin < path.size(); begin = end) {
      end = std::min(path.find('/', begin + 1), path.size());
      spend(10 + at->size(), pointer);
      at = &at->at(nlohmann::json_pointer<std::string>(path.substr(begin, end - begin)));
      if (end < path.size() && at->is_object() && at->contains("$id")) nearest = at;
    }
    return *at;
  } catch (const nlohmann::json::exception&) {
    refuse(pointer, fmt::format("$ref '{}' leads to nothing", ref));
  }
}

int32_t SchemaDocument::resolve(int32_t from, const std::string& ref) {
  const std::string pointer = at(from).pointer;
  const Json* resource = at(from).resource;
  const size_t hash = std::min(ref.find('#'), ref.size());
  const std::string uri = ref.substr(0, hash), fragment = unescaped(ref.substr(std::min(hash + 1, ref.size())));
  if (!uri.empty()) {
    if (!has_index_) make_index();
    const auto found = resources_.find(resolved(uris_[resource], uri));
    if (found == resources_.end())
      refuse(pointer, fmt::format("$ref '{}' leads out of the schema; copy its target to $defs", ref));
    resource = found->second;
  }
  const Json* target = resource;
  const Json* nearest = resource;
  if (!fragment.empty() && fragment[0] != '/') {
    if (!has_index_) make_index();
    const auto found = anchors_.find({resource, fragment});
    if (found == anchors_.end())
      refuse(pointer, fmt::format("$ref '{}' leads to nothing: there is no such anchor", ref));
    target = found->second;
  } else {
    target = &follow(*resource, fragment, ref, pointer, nearest);
  }
  if (const auto known = numbers_.find(target); known != numbers_.end()) return known->second;
  const std::string there =
      uri.empty() && resource == &root_ && !fragment.empty() && fragment[0] == '/' ? fragment : ref;
  const int32_t result = node(*target, there, from);
  if (result > kNothing && nodes_[size_t(result)].resource != target) nodes_[size_t(result)].resource = nearest;
  return result;
}

int32_t SchemaDocument::resolve_dynamic(int32_t from, const std::string& ref) {
  if (!has_index_) make_index();
  const std::string name = ref.substr(std::min(ref.find('#') + 1, ref.size()));
  const bool is_recursive = ref == "#";
  const auto found = dynamic_anchors_.find(is_recursive ? "" : name);
  const int count = found == dynamic_anchors_.end() ? 0 : found->second;
  if (count > 1 || (is_recursive && count > 0))
    refuse(at(from).pointer, fmt::format("what '{}' refers to depends on how it is reached; use $ref", ref));
  return resolve(from, ref);
}

std::string SchemaDocument::place(const std::string& pointer) const {
  return fmt::format("{}: {}", name_, pointer.empty() ? "the schema" : pointer);
}

void SchemaDocument::refuse(const std::string& pointer, const std::string& what) const {
  fail("{}", one_line(fmt::format("{}: {}", place(pointer), what)));
}

int64_t SchemaDocument::count_of(const Json& s, const char* key, int64_t otherwise, const std::string& pointer) const {
  const auto found = s.find(key);
  if (found == s.end()) return otherwise;
  const double v = found->is_number() ? found->get<double>() : -1;
  if (v < 0 || v != std::floor(v) || v > 1e18)
    refuse(pointer_to(pointer, key), fmt::format("it is {}; use a whole number from 0 on", json_text(*found)));
  return int64_t(std::min(v, 2e9));  // there are no longer texts
}

const CharAutomaton& SchemaDocument::pattern(const std::string& pattern, const std::string& pointer) {
  const auto [found, is_new] = patterns_.try_emplace(pattern);
  if (is_new) {
    const std::string name = place(pointer);
    found->second = regex_automaton(pattern, {name, budget_});
  }
  return found->second;
}

const CharAutomaton& SchemaDocument::no_pattern(const std::string& pattern, const std::string& pointer) {
  const auto [found, is_new] = other_patterns_.try_emplace(pattern);
  if (is_new) {
    const std::string name = place(pointer);
    found->second = complement(this->pattern(pattern, pointer), {name, budget_});
  }
  return found->second;
}

const FormatTexts* SchemaDocument::format(const std::string& format, const std::string& pointer) {
  const auto [found, is_new] = formats_.try_emplace(format);
  if (is_new) {
    const std::string name = place(pointer);
    found->second = format_texts(format, {name, budget_});
  }
  return found->second ? &*found->second : nullptr;
}

const CharAutomaton& SchemaDocument::wide_format(const std::string& format, const std::string& pointer) {
  const auto [found, is_new] = wide_formats_.try_emplace(format);
  if (is_new) {
    const std::string name = place(pointer);
    found->second = wide_format_texts(format, {name, budget_});
  }
  return found->second ? *found->second : this->format(format, pointer)->automaton;
}

const CharAutomaton& SchemaDocument::no_format(const std::string& format, const std::string& pointer) {
  const auto [found, is_new] = other_formats_.try_emplace(format);
  if (is_new) {
    const std::string name = place(pointer);
    found->second = complement(wide_format(format, pointer), {name, budget_});
  }
  return found->second;
}

std::optional<std::vector<std::string>> SchemaDocument::names_needed(const Json& needs,
                                                                     const std::string& pointer) const {
  if (!needs.is_array() && !needs.is_string()) return std::nullopt;
  std::vector<std::string> names;
  for (const Json& name : needs.is_array() ? needs : Json::array({needs})) {
    if (!name.is_string()) refuse(pointer, "it is not an array of names");
    names.push_back(name);
  }
  return names;
}

}  // namespace toy::grammar
