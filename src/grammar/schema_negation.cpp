// What holds for the values that a schema forbids: one of its keywords says no.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_draft.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::grammar {
namespace {

class Negation {
 public:
  using Way = Draft::Way;
  Negation(ShapeMaker& maker, int32_t node)
      : maker_(maker), doc_(maker.document()), node_(node), n_(doc_.at(node)), s_(*n_.schema) {}

  std::vector<Way> ways(const Draft& d) {
    if (d.is_closed_object() && has("required") && s_["required"].is_array())
      for (const Json& name : s_["required"])  // it is not written with such a property anyway
        if (name.is_string() && !d.declares(name) && !d.shape.object->required.contains(name))
          return {[w = without(name)](Draft& x) { w(x), x.is_narrowed = true; }};
    for (const auto& [key, value] : s_.items()) {
      doc_.spend(10 + value.size() * 10, n_.pointer);
      if (!is_note(key)) add(key, value, d.shape);
    }
    return std::move(ways_);
  }

 private:
  bool has(const char* key) const { return s_.contains(key); }
  Fact fact() const { return fails(node_); }
  void way(Way w) { ways_.push_back(std::move(w)); }
  void fact_way(Fact f) {
    way([f, origin = fact()](Draft& x) { x.add(f, origin); });
  }
  // A way for the values of one type.
  template <class Change>
  void typed(const char* type, Change&& change) {
    way([=](Draft& x) {
      x.shape.keep({type});
      if (!x.shape.is_empty()) change(x);
    });
  }
  Way without(const std::string& name) const {
    return [name, origin = fact()](Draft& x) {
      x.shape.keep({"object"});
      x.derive(name, kNever, origin);
    };
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& why = "") const {
    doc_.refuse(pointer_to(n_.pointer, key),
                fmt::format("the opposite of '{}' cannot be expressed{} (not, oneOf and if need it)", key, why));
  }
  int32_t sub(const std::string& key) { return child(doc_, node_, key.c_str()); }
  int32_t sub(const std::string& key, const std::string& entry) { return child(doc_, node_, key.c_str(), &entry); }
  std::vector<int32_t> list(const std::string& key) {
    std::vector<int32_t> result;
    if (!s_[key].is_array()) doc_.refuse(pointer_to(n_.pointer, key), "it is not an array of schemas");
    for (size_t i = 0; i < s_[key].size(); ++i) result.push_back(sub(key, std::to_string(i)));
    return result;
  }

  void add(const std::string& key, const Json& v, const Shape& shape) {
    if (combines(key, v)) return;
    if (key == "type") {
      const std::vector<std::string> types = types_of(doc_, n_);
      way([types](Draft& x) { drop(x.shape, types); });
    } else if (key == "enum" || key == "const") {
      exclude(key == "enum" ? v : Json::array({v}), key, shape);
    } else if (shape.number && number(key)) {
    } else if (shape.string && string(key)) {
    } else if (shape.array && array(key, v)) {
    } else if (shape.object) {
      object(key, v);
    }
  }

  static void drop(Shape& s, const std::vector<std::string>& types) {
    const auto has = [&](const char* t) { return std::find(types.begin(), types.end(), t) != types.end(); };
    s.null = s.null && !has("null");
    s.yes = s.yes && !has("boolean"), s.no = s.no && !has("boolean");
    if (has("string")) s.string.reset();
    if (has("array")) s.array.reset();
    if (has("object")) s.object.reset();
    if (s.number && (has("number") || (has("integer") && s.number->kind == NumberLimits::whole))) s.number.reset();
    if (s.number && has("integer")) s.number->kind = NumberLimits::fractional;
  }

  bool combines(const std::string& key, const Json&) {
    if (key == "$ref" || key == "$dynamicRef" || key == "$recursiveRef") {
      fact_way(fails(target_of(doc_, node_, key.c_str())));
    } else if (key == "allOf") {
      for (const int32_t part : list(key)) fact_way(fails(part));
    } else if (key == "anyOf") {
      way([parts = list(key), origin = fact()](Draft& x) {
        for (const int32_t part : parts) x.add(fails(part), origin);
      });
    } else if (key == "oneOf") {
      const std::vector<int32_t> parts = list(key);
      way([parts, origin = fact()](Draft& x) {
        for (const int32_t part : parts) x.add(fails(part), origin);
      });
      for (size_t i = 0; i < parts.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (!maker_.is_empty(both({holds(parts[i])}, {holds(parts[j])})))
            way([a = holds(parts[i]), b = holds(parts[j]), origin = fact()](Draft& x) {
              x.add(a, origin), x.add(b, origin);
            });
    } else if (key == "not") {
      fact_way(holds(sub(key)));
    } else if (key == "if") {
      const int32_t condition = sub(key);
      for (const char* next : {"then", "else"}) {
        if (!has(next)) continue;
        const Fact f = next[0] == 't' ? holds(condition) : fails(condition);
        way([f, other = fails(sub(next)), origin = fact()](Draft& x) { x.add(f, origin), x.add(other, origin); });
      }
    } else {
      return key == "then" || key == "else";
    }
    return true;
  }

  // Values other than these.
  void exclude(const Json& values, const std::string& key, const Shape& shape) {
    if (!values.is_array()) doc_.refuse(pointer_to(n_.pointer, key), "it is not an array");
    Shape other;
    std::vector<Decimal> numbers;
    bool no_empty_array = false, no_empty_object = false;
    const std::string at = pointer_to(n_.pointer, key), place = doc_.place(at);
    for (const Json& v : values) {
      doc_.spend(50, at);
      if (v.is_null()) other.null = false;
      if (v == true) other.yes = false;
      if (v == false) other.no = false;
      if (v.is_string()) other.string->excluded.push_back(v);
      if (v.is_number()) numbers.push_back(Decimal::of(v, place));
      no_empty_array = no_empty_array || (v.is_array() && v.empty());
      no_empty_object = no_empty_object || (v.is_object() && v.empty());
      if (!v.empty() && ((v.is_array() && shape.array) || (v.is_object() && shape.object)))
        refuse(key, " for arrays and objects with anything in them");
    }
    way([=](Draft& x) {
      Shape& s = x.shape;
      s.null = s.null && other.null, s.yes = s.yes && other.yes, s.no = s.no && other.no;
      if (s.string) {
        auto& list = s.string->excluded;
        list.insert(list.end(), other.string->excluded.begin(), other.string->excluded.end());
        if (!list.empty()) s.string->pointer = at;
      }
      if (s.number && !numbers.empty()) {
        s.number->excluded.insert(s.number->excluded.end(), numbers.begin(), numbers.end());
        s.number_pointer = at;
      }
      if (s.array && no_empty_array) s.array->least = std::max<int64_t>(s.array->least, 1);
      if (s.object && no_empty_object) s.object->least = std::max<int64_t>(s.object->least, 1);
    });
  }

  bool number(const std::string& key) {
    NumberLimits l;
    const std::string at = pointer_to(n_.pointer, key);
    if (key == "multipleOf") {
      add_number_limits(doc_, n_, l);
      typed("number", [f = l.factors[0], at](Draft& x) {
        x.shape.number->other_factors.push_back(f);
        x.shape.number_pointer = at;
      });
    } else if (key == "minimum" || key == "exclusiveMinimum" || key == "maximum" || key == "exclusiveMaximum") {
      add_number_limits(doc_, n_, l);
      if (s_[key].is_boolean()) return true;  // draft 4: a part of the other keyword
      const bool lower = key == "minimum" || key == "exclusiveMinimum";
      const Bound b = lower ? *l.lower : *l.upper;
      typed("number", [=](Draft& x) {
        const Bound other{b.value, !b.exclusive};
        lower ? x.shape.number->at_most(other) : x.shape.number->at_least(other);
        x.shape.number_pointer = at;
      });
    } else if (const auto range = key == "format" ? integer_format(s_) : std::nullopt) {
      typed("number", [=](Draft& x) { x.shape.number->at_most({range->first, true}), x.shape.number_pointer = at; });
      typed("number", [=](Draft& x) { x.shape.number->at_least({range->second, true}), x.shape.number_pointer = at; });
    } else {
      return false;
    }
    return true;
  }

  bool string(const std::string& key) {
    const std::string at = pointer_to(n_.pointer, key);
    if (key == "minLength" || key == "maxLength") {
      const int64_t count = doc_.count_of(s_, key.c_str(), 0, n_.pointer);
      const bool least = key == "minLength";
      typed("string", [=](Draft& x) {
        StringShape& t = *x.shape.string;
        t.pointer = at;
        if (!least)
          t.least = std::max(t.least, count + 1);
        else if (count == 0)
          x.shape.string.reset();
        else
          t.most = t.most < 0 ? count - 1 : std::min(t.most, count - 1);
      });
      return true;
    }
    if (key != "pattern" && key != "format") return false;
    if (!s_[key].is_string()) doc_.refuse(at, "it is not a string");
    if (key == "format" && !doc_.format(s_[key], at)) return true;
    typed("string", [c = StringShape::Condition{s_[key], at, key == "format", false}](Draft& x) {
      x.shape.string->conditions.push_back(c);
      x.shape.string->pointer = c.pointer;
    });
    return true;
  }

  bool array(const std::string& key, const Json& v) {
    const std::string at = pointer_to(n_.pointer, key);
    if (key == "minItems" || key == "maxItems") {
      const int64_t count = doc_.count_of(s_, key.c_str(), 0, n_.pointer);
      const bool least = key == "minItems";
      typed("array", [=](Draft& x) {
        ArrayShape& a = *x.shape.array;
        a.size_pointer = at;
        if (!least)
          a.least = std::max(a.least, count + 1);
        else if (count == 0)
          x.shape.array.reset();
        else
          a.most = a.most < 0 ? count - 1 : std::min(a.most, count - 1);
      });
    } else if ((key == "items" && v.is_array()) || key == "prefixItems") {
      const std::vector<int32_t> parts = list(key);
      for (size_t i = 0; i < parts.size(); ++i)
        typed("array", [i, other = fails(parts[i])](Draft& x) {
          ArrayShape& a = *x.shape.array;
          while (a.prefix.size() <= i) a.prefix.push_back(a.rest);
          a.prefix[i] = both(a.prefix[i], {other});
          a.least = std::max(a.least, int64_t(i) + 1);
        });
    } else if (key == "items" && !has("prefixItems")) {
      typed("array", [at, other = both({fails(sub(key))}, {})](Draft& x) {
        x.shape.array->contains.push_back({other, 1, -1, at});
      });
    } else if (key == "contains") {
      const int64_t least = doc_.count_of(s_, "minContains", 1, n_.pointer),
                    most = doc_.count_of(s_, "maxContains", -1, n_.pointer);
      const Term item = both({holds(sub(key))}, {});
      if (least > 0) typed("array", [=](Draft& x) { x.shape.array->contains.push_back({item, 0, least - 1, at}); });
      if (most >= 0) typed("array", [=](Draft& x) { x.shape.array->contains.push_back({item, most + 1, -1, at}); });
    } else if (key == "minContains" || key == "maxContains" || (key == "additionalItems" && !has("items")) ||
               (key == "uniqueItems" && v == false)) {
      return true;
    } else if (key == "items" || key == "additionalItems" || key == "uniqueItems" || key == "unevaluatedItems") {
      if (v != true || key == "uniqueItems") refuse(key);
    } else {
      return false;
    }
    return true;
  }

  void object(const std::string& key, const Json& v) {
    const std::string at = pointer_to(n_.pointer, key);
    if (key == "required") {
      if (!v.is_array()) doc_.refuse(pointer_to(n_.pointer, key), "it is not an array of names");
      for (const Json& name : v)
        if (name.is_string()) way(without(name));
    } else if (key == "properties") {
      if (!v.is_object()) doc_.refuse(pointer_to(n_.pointer, key), "it is not an object");
      for (const auto& [name, part] : v.items())
        if (part != true)
          typed("object", [name = name, other = both({fails(sub(key, name))}, {}), origin = fact()](Draft& x) {
            x.shape.object->required.insert(name);
            x.derive(name, other, origin);
          });
    } else if (key == "minProperties" || key == "maxProperties") {
      const int64_t count = doc_.count_of(s_, key.c_str(), 0, n_.pointer);
      const bool least = key == "minProperties";
      typed("object", [=](Draft& x) {
        ObjectShape& o = *x.shape.object;
        o.size_pointer = at;
        if (!least)
          o.least = std::max(o.least, count + 1);
        else if (count == 0)
          x.shape.object.reset();
        else
          o.most = o.most < 0 ? count - 1 : std::min(o.most, count - 1);
      });
    } else if (key.starts_with("depend")) {
      for (const auto& [name, needs] : v.items()) depend(key, name, needs);
    } else if (key == "additionalProperties" && v == false && !has("properties") && !has("patternProperties")) {
      typed("object", [](Draft& x) { x.shape.object->least = std::max<int64_t>(x.shape.object->least, 1); });
    } else if (key == "patternProperties" ? !v.empty() : v != true) {
      static constexpr const char* kOfObjects[] = {"additionalProperties", "patternProperties", "propertyNames",
                                                   "unevaluatedProperties"};
      if (std::find(std::begin(kOfObjects), std::end(kOfObjects), key) != std::end(kOfObjects)) refuse(key);
    }
  }

  // The property is there, and something that it needs is not.
  void depend(const std::string& key, const std::string& name, const Json& needs) {
    const Fact origin = fact();
    const auto others = doc_.names_needed(needs, pointer_to(pointer_to(n_.pointer, key), name));
    if (!others) {
      typed("object", [=, other = fails(sub(key, name))](Draft& x) {
        x.shape.object->required.insert(name);
        x.add(other, origin);
      });
      return;
    }
    for (const std::string& other : *others)
      typed("object", [=](Draft& x) {
        x.shape.object->required.insert(name);
        x.derive(other, kNever, origin);
      });
  }

  ShapeMaker& maker_;
  SchemaDocument& doc_;
  int32_t node_;
  const SchemaDocument::Node& n_;
  const Json& s_;
  std::vector<Way> ways_;
};

}  // namespace

void add_failing(ShapeMaker& maker, Draft& draft, int32_t node) {
  if (node == SchemaDocument::kAnything) return draft.shape.keep({});
  if (node == SchemaDocument::kNothing) return;
  draft.choices.push_back({maker.document().at(node).pointer, 3,
                           [maker = &maker, node](const Draft& d) { return Negation(*maker, node).ways(d); }});
}

}  // namespace toy::grammar
