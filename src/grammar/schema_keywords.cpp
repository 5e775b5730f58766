// What the keywords of a schema say of its values.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_draft.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::grammar {
namespace {

const std::vector<std::string> kAllTypes{"object", "array", "string", "number", "integer", "boolean", "null"};

class Keywords {
 public:
  Keywords(ShapeMaker& maker, Draft& draft, int32_t node)
      : maker_(maker), doc_(maker.document()), d_(draft), node_(node), n_(doc_.at(node)), s_(*n_.schema) {}

  void add() {
    doc_.spend(s_.size() * 10 + 20, n_.pointer);
    for (const char* key : {"$ref", "$dynamicRef", "$recursiveRef"})
      if (const int32_t target = target_of(doc_, node_, key); target >= 0)
        d_.add(holds(target), fact(), Draft::by_reference);
    if (has("type")) d_.shape.keep(types_of(doc_, n_));
    if (has("enum")) {
      if (!s_["enum"].is_array()) doc_.refuse(at("enum"), "it is not an array");
      d_.lists.push_back({&s_["enum"], false, at("enum")});
    }
    if (has("const")) d_.lists.push_back({&s_["const"], true, at("const")});
    numbers();
    strings();
    arrays();
    objects();
    combinations();
    for (const char* key : {"unevaluatedProperties", "unevaluatedItems"}) {
      if (!has(key) || s_[key] == true) continue;
      if (s_[key] != false) doc_.refuse(at(key), "only true and false can be expressed here");
      d_.unevaluated.push_back(fact());
    }
  }

 private:
  bool has(const char* key) const { return s_.contains(key); }
  std::string at(const char* key) const { return pointer_to(n_.pointer, key); }
  Fact fact() const { return holds(node_); }
  bool any_of(std::initializer_list<const char*> keys) const {
    return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return has(key); });
  }
  Term term(const char* key) { return both({holds(child(doc_, node_, key))}, {}); }
  Term term(const char* key, const std::string& entry) { return both({holds(child(doc_, node_, key, &entry))}, {}); }
  int32_t entry(const char* key, size_t i) {
    const std::string index = std::to_string(i);
    return child(doc_, node_, key, &index);
  }
  const Json& object_at(const char* key) {
    if (!s_[key].is_object()) doc_.refuse(at(key), "it is not an object");
    return s_[key];
  }
  const Json& list_at(const char* key) {
    if (!s_[key].is_array() || s_[key].empty()) doc_.refuse(at(key), "it is not an array of schemas");
    return s_[key];
  }
  void bounds(int64_t& least, int64_t& most, const char* least_key, const char* most_key, std::string& pointer) {
    least = std::max(least, doc_.count_of(s_, least_key, 0, n_.pointer));
    if (const int64_t m = doc_.count_of(s_, most_key, -1, n_.pointer); m >= 0) most = most < 0 ? m : std::min(most, m);
    for (const char* key : {least_key, most_key})
      if (has(key)) pointer = at(key);
  }

  void numbers() {
    static constexpr std::initializer_list<const char*> kKeys = {"minimum", "maximum", "exclusiveMinimum",
                                                                 "exclusiveMaximum", "multipleOf"};
    if (!d_.shape.number) return;
    add_number_limits(doc_, n_, *d_.shape.number);
    for (const char* key : kKeys)
      if (has(key)) d_.shape.number_pointer = at(key);
  }

  void strings() {
    for (const char* key : {"pattern", "format"}) {
      if (!has(key)) continue;
      if (!s_[key].is_string()) doc_.refuse(at(key), "it is not a string");
      const bool is_format = key[0] == 'f';
      if (is_format && !doc_.format(s_[key], at(key))) continue;
      StringShape::Condition c{s_[key], at(key), is_format, true};
      if (d_.shape.string &&
          std::none_of(d_.shape.string->conditions.begin(), d_.shape.string->conditions.end(),
                       [&](const auto& x) { return x.text == c.text && x.is_format == is_format && x.holds; })) {
        d_.shape.string->pointer = c.pointer;
        d_.shape.string->conditions.push_back(std::move(c));
      }
    }
    if (StringShape* t = d_.shape.string ? &*d_.shape.string : nullptr)
      bounds(t->least, t->most, "minLength", "maxLength", t->pointer);
  }

  void arrays() {
    if (!any_of({"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"}) || !d_.shape.array) return;
    ArrayShape& a = *d_.shape.array;
    if (a.pointer.empty()) a.pointer = n_.pointer;
    bounds(a.least, a.most, "minItems", "maxItems", a.size_pointer);
    if (has("uniqueItems") && s_["uniqueItems"] != false) a.unique = true, a.unique_pointer = at("uniqueItems");
    const bool old = has("items") && s_["items"].is_array();
    const char* prefix = old ? "items" : "prefixItems";
    const char* rest = old ? "additionalItems" : "items";
    if (has("prefixItems") && !old && !s_["prefixItems"].is_array())
      doc_.refuse(at("prefixItems"), "it is not an array of schemas");
    const size_t n = old || has("prefixItems") ? s_[prefix].size() : 0;
    while (a.prefix.size() < n) a.prefix.push_back(a.rest);
    const Term others = has(rest) ? term(rest) : Term();
    for (size_t i = 0; i < a.prefix.size(); ++i)
      a.prefix[i] = both(a.prefix[i], i < n ? term(prefix, std::to_string(i)) : others);
    a.rest = both(a.rest, others);
    a.rest_stated = a.rest_stated || has(rest);
    if (n > 0 || has(rest)) d_.array_origins.push_back(fact());
    if (!has("contains")) return;
    ArrayShape::Contains c{term("contains")};
    c.least = doc_.count_of(s_, "minContains", 1, n_.pointer);
    c.most = doc_.count_of(s_, "maxContains", -1, n_.pointer);
    c.pointer = at("contains");
    if (c.least > 0 || c.most >= 0) a.contains.push_back(std::move(c));
  }

  void objects() {
    if (!any_of({"properties", "required", "additionalProperties", "patternProperties", "minProperties",
                 "maxProperties", "propertyNames", "dependencies", "dependentRequired", "dependentSchemas"}) ||
        !d_.shape.object)
      return;
    ObjectShape& o = *d_.shape.object;
    if (o.pointer.empty()) o.pointer = n_.pointer;
    bounds(o.least, o.most, "minProperties", "maxProperties", o.size_pointer);
    if (has("required")) {
      const std::string required = at("required");
      const auto no_names = [&] { doc_.refuse(required, "it is not an array of names"); };
      if (!s_["required"].is_array()) no_names();
      for (const Json& name : s_["required"]) {
        if (!name.is_string()) no_names();
        doc_.spend(20, required);
        o.required.insert(name);
      }
    }
    if (has("propertyNames") && s_["propertyNames"] != true) o.names.push_back(term("propertyNames"));
    if (has("properties") || has("patternProperties") || has("additionalProperties")) o.parts.push_back(part());
    for (const char* key : {"dependencies", "dependentRequired", "dependentSchemas"})
      if (has(key))
        for (const auto& [name, needs] : object_at(key).items()) depend(key, name, needs);
  }

  std::shared_ptr<const ObjectPart> part() {
    auto p = std::make_shared<ObjectPart>();
    p->origin = fact();
    p->path = d_.path_of(fact());
    p->path.push_back(Draft::itself);
    p->pointer = n_.pointer;
    for (const char* key : {"properties", "patternProperties"})
      if (has(key))
        for (const auto& [name, schema] : object_at(key).items()) {
          doc_.spend_bytes(100 + name.size(), p->pointer);
          (key[1] == 'r' ? p->properties : p->patterns).push_back({name, term(key, name)});
        }
    if (has("additionalProperties")) p->rest = term("additionalProperties");
    return p;
  }

  // Either the property is absent, or what it needs is there.
  void depend(const char* key, const std::string& name, const Json& needs) {
    const Fact origin = fact();
    std::vector<std::string> names{name};
    int32_t schema = SchemaDocument::kAnything;
    if (const auto others = doc_.names_needed(needs, pointer_to(at(key), name)))
      names.insert(names.end(), others->begin(), others->end());
    else
      schema = child(doc_, node_, key, &name);
    if (schema == SchemaDocument::kAnything && names.size() == 1) return;
    const auto ways = [=](const Draft& d) {
      std::vector<Draft::Way> result;
      const bool is_there = d.shape.object && d.shape.object->required.contains(name);
      result.push_back([=](Draft& x) {  // values of other types have no properties
        if (is_there)
          x.shape.object.reset();
        else
          x.derive(name, kNever, origin);
      });
      result.push_back([=](Draft& x) {
        x.shape.keep({"object"});
        if (x.shape.object) x.shape.object->required.insert(names.begin(), names.end());
        x.add(holds(schema), origin);
      });
      return result;
    };
    d_.choices.push_back({at(key), 2, ways});
  }

  void combinations() {
    const Fact origin = fact();
    if (has("allOf"))
      for (size_t i = 0; i < list_at("allOf").size(); ++i)
        d_.add(holds(entry("allOf", i)), origin, Draft::by_all_of, int32_t(i));
    if (has("not")) d_.add(fails(child(doc_, node_, "not")), origin);
    if (has("anyOf")) {
      std::vector<Draft::Way> ways;
      for (const int32_t branch : branches("anyOf")) ways.push_back([=](Draft& x) { x.add(holds(branch), origin); });
      d_.choices.push_back({at("anyOf"), 1, [=](const Draft&) { return ways; }});
    }
    if (has("oneOf")) d_.choices.push_back({at("oneOf"), 1, one_of(branches("oneOf"))});
    if (!has("if") || (!has("then") && !has("else"))) return;
    const int32_t condition = child(doc_, node_, "if");
    const int32_t then = has("then") ? child(doc_, node_, "then") : SchemaDocument::kAnything;
    const int32_t otherwise = has("else") ? child(doc_, node_, "else") : SchemaDocument::kAnything;
    const std::vector<Draft::Way> ways{
        [=](Draft& x) { x.add(holds(condition), origin), x.add(holds(then), origin); },
        [=](Draft& x) { x.add(fails(condition), origin), x.add(holds(otherwise), origin); }};
    d_.choices.push_back({at("if"), 2, [=](const Draft&) { return ways; }});
  }

  std::vector<int32_t> branches(const char* key) {
    std::vector<int32_t> result;
    for (size_t i = 0; i < list_at(key).size(); ++i) result.push_back(entry(key, i));
    return result;
  }

  // One of them, and none of those that have values in common with it.
  std::function<std::vector<Draft::Way>(const Draft&)> one_of(const std::vector<int32_t>& list) {
    return [list, origin = fact(), maker = &maker_, pointer = at("oneOf")](const Draft&) {
      std::vector<Draft::Way> result;
      for (size_t i = 0; i < list.size(); ++i) {
        std::vector<Fact> facts{holds(list[i])};
        for (size_t j = 0; j < list.size(); ++j) {
          maker->document().spend(20, pointer);
          if (j != i && !maker->is_empty(both({holds(list[i])}, {holds(list[j])}))) facts.push_back(fails(list[j]));
        }
        result.push_back([facts, origin](Draft& x) {
          for (const Fact f : facts) x.add(f, origin);
        });
      }
      return result;
    };
  }

  ShapeMaker& maker_;
  SchemaDocument& doc_;
  Draft& d_;
  int32_t node_;
  const SchemaDocument::Node& n_;
  const Json& s_;
};

}  // namespace

int32_t child(SchemaDocument& doc, int32_t node, const char* key, const std::string* entry) {
  const SchemaDocument::Node& n = doc.at(node);
  const Json* part = &(*n.schema)[key];
  std::string pointer = pointer_to(n.pointer, key);
  if (entry) {
    part = part->is_array() ? &(*part)[size_t(std::stoul(*entry))] : &(*part)[*entry];
    pointer = pointer_to(pointer, *entry);
  }
  return doc.node(*part, std::move(pointer), node);
}

int32_t target_of(SchemaDocument& doc, int32_t node, const char* key) {
  const SchemaDocument::Node& n = doc.at(node);
  const auto found = n.schema->find(key);
  if (found == n.schema->end()) return -1;
  if (!found->is_string()) doc.refuse(pointer_to(n.pointer, key), "it is not a string");
  const bool is_static = std::string_view(key) == "$ref";
  return is_static ? doc.resolve(node, *found) : doc.resolve_dynamic(node, *found);
}

std::vector<std::string> types_of(const SchemaDocument& doc, const SchemaDocument::Node& n) {
  const Json& type = (*n.schema)["type"];
  std::vector<std::string> result;
  for (const Json& t : type.is_array() ? type : Json::array({type})) {
    if (t == "json_schema")
      doc.refuse(pointer_to(n.pointer, "type"),
                 "it is OpenAI's response_format; give the schema that is its json_schema.schema");
    if (!t.is_string() || std::find(kAllTypes.begin(), kAllTypes.end(), t.get<std::string>()) == kAllTypes.end())
      doc.refuse(pointer_to(n.pointer, "type"),
                 fmt::format("the type {} is unknown; known are {}", json_text(t), fmt::join(kAllTypes, ", ")));
    result.push_back(t);
  }
  if (result.empty()) doc.refuse(pointer_to(n.pointer, "type"), "it is empty");
  return result;
}

void add_holding(ShapeMaker& maker, Draft& draft, int32_t node) {
  if (node == SchemaDocument::kNothing) return draft.shape.keep({});
  if (node != SchemaDocument::kAnything) Keywords(maker, draft, node).add();
}

std::optional<std::pair<Decimal, Decimal>> integer_format(const Json& schema) {
  static const std::map<std::string, std::pair<Decimal, Decimal>> kFormats{
      {"int8", {{true, "128", ""}, {false, "127", ""}}},
      {"uint8", {{}, {false, "255", ""}}},
      {"int16", {{true, "32768", ""}, {false, "32767", ""}}},
      {"uint16", {{}, {false, "65535", ""}}},
      {"int32", {{true, "2147483648", ""}, {false, "2147483647", ""}}},
      {"uint32", {{}, {false, "4294967295", ""}}},
      {"int64", {{true, "9223372036854775808", ""}, {false, "9223372036854775807", ""}}},
      {"uint64", {{}, {false, "18446744073709551615", ""}}}};
  if (!schema.contains("format") || !schema["format"].is_string()) return std::nullopt;
  const auto found = kFormats.find(schema["format"].get<std::string>());
  if (found == kFormats.end()) return std::nullopt;
  return found->second;
}

void add_number_limits(const SchemaDocument& doc, const SchemaDocument::Node& n, NumberLimits& limits, bool wide) {
  const Json& s = *n.schema;
  const auto number = [&](const char* key) {
    const std::string at = pointer_to(n.pointer, key);
    if (!s[key].is_number()) doc.refuse(at, fmt::format("it is {}; use a number", json_text(s[key])));
    return Decimal::of(s[key], doc.place(at));
  };
  for (const bool lower : {true, false}) {
    const char* plain = lower ? "minimum" : "maximum";
    const char* strict = lower ? "exclusiveMinimum" : "exclusiveMaximum";
    const auto add = [&](const Bound& b) { lower ? limits.at_least(b) : limits.at_most(b); };
    const bool old = s.contains(strict) && s[strict].is_boolean();  // draft 4
    if (s.contains(plain)) add({number(plain), old && s[strict] == true});
    if (s.contains(strict) && !old) add({number(strict), true});
  }
  if (s.contains("multipleOf")) {
    const Decimal factor = number("multipleOf");
    if (factor.negative || factor.is_zero())
      doc.refuse(pointer_to(n.pointer, "multipleOf"),
                 fmt::format("it is {}; use a number above 0", json_text(s["multipleOf"])));
    if (std::find(limits.factors.begin(), limits.factors.end(), factor) == limits.factors.end())
      limits.factors.push_back(factor);
  }
  const auto range = integer_format(s);
  if (!range) return;
  limits.at_least({range->first, false});
  limits.at_most({range->second, false});
  if (!wide) limits.factors.push_back({false, "1", ""});
}

}  // namespace toy::grammar
