#include "grammar/schema_shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_draft.h"
#include "toy/base/error.h"

namespace toy::grammar {
namespace {

constexpr size_t kMostDrafts = 3000, kMostShapes = 500;
constexpr int kMaxEmptyDepth = 6;

bool contains_word(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

Term both(const Term& a, const Term& b) {
  Term result;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  std::erase(result, holds(SchemaDocument::kAnything));
  std::erase(result, fails(SchemaDocument::kNothing));
  return is_never(result) ? kNever : result;
}

bool is_never(const Term& t) {
  for (size_t i = 0; i < t.size(); ++i) {
    if (t[i] == holds(SchemaDocument::kNothing) || t[i] == fails(SchemaDocument::kAnything)) return true;
    if (i > 0 && t[i] / 2 == t[i - 1] / 2) return true;
  }
  return false;
}

const Term* ObjectPart::find(const std::string& name) const {
  const auto found = std::find_if(properties.begin(), properties.end(), [&](const auto& p) { return p.first == name; });
  return found == properties.end() ? nullptr : &found->second;
}

void Shape::keep(const std::vector<std::string>& types) {
  const auto has = [&](std::string_view t) { return contains_word(types, t); };
  null = null && has("null");
  yes = yes && has("boolean"), no = no && has("boolean");
  if (!has("string")) string.reset();
  if (!has("array")) array.reset();
  if (!has("object")) object.reset();
  if (has("number") || !number) return;
  if (!has("integer") || number->kind == NumberLimits::fractional)
    number.reset();
  else
    number->kind = NumberLimits::whole;
}

bool Draft::comes_from(Fact fact, Fact ancestor) const {
  while (fact != ancestor) {
    const auto found = from.find(fact);
    if (found == from.end() || found->second.origin == fact) return false;
    fact = found->second.origin;
  }
  return true;
}

bool Draft::comes_from_holding(Fact fact, Fact ancestor) const {
  while (fact != ancestor) {
    const auto found = from.find(fact);
    if (fact % 2 == 1 || found == from.end() || found->second.origin == fact) return false;
    fact = found->second.origin;
  }
  return true;
}

bool Draft::declares(const std::string& name) const {
  return std::any_of(shape.object->parts.begin(), shape.object->parts.end(),
                     [&](const auto& p) { return p->rest || !p->patterns.empty() || (!p->derived && p->find(name)); });
}

bool Draft::is_closed_object() const {
  const Shape& s = shape;
  if (!s.object || s.null || s.yes || s.no || s.number || s.string || s.array) return false;
  return std::any_of(s.object->parts.begin(), s.object->parts.end(),
                     [](const auto& p) { return !p->derived && !p->properties.empty(); });
}

void Draft::derive(const std::string& name, Term term, Fact origin) {
  if (!shape.object) return;
  auto part = std::make_shared<ObjectPart>();
  part->properties.push_back({name, std::move(term)});
  part->derived = true;
  part->origin = origin;
  shape.object->parts.push_back(std::move(part));
}

// Makes all choices of a term in all ways.
class Expansion {
 public:
  Expansion(ShapeMaker& maker, const Term& term) : maker_(maker), doc_(maker.doc_), term_(term) {}

  Shapes run() {
    Draft first;
    for (const Fact f : term_) first.add(f, f);
    std::vector<Draft> drafts;
    drafts.push_back(std::move(first));
    std::string last_choice = place();
    while (!drafts.empty()) {
      Draft d = std::move(drafts.back());
      drafts.pop_back();
      if (++drafts_ > kMostDrafts) too_many(last_choice);
      doc_.spend(200, place());
      look(d);
      if (d.shape.is_empty()) continue;
      if (d.choices.empty()) {
        if (result_.shapes.size() >= kMostShapes) too_many(last_choice);
        finish(d);
        continue;
      }
      const auto next = std::min_element(d.choices.begin(), d.choices.end(),
                                         [](const auto& x, const auto& y) { return x.rank < y.rank; });
      const Draft::Choice choice = std::move(*next);
      d.choices.erase(next);
      last_choice = choice.pointer;
      const std::vector<Draft::Way> ways = choice.ways(d);
      d.is_branch = d.is_branch || ways.size() > 1;
      for (size_t i = ways.size(); i-- > 0;) {
        doc_.spend(200 + d.from.size() * 8, place());
        doc_.spend_bytes(d.from.size() * 64, place());
        Draft branch = d;
        ways[i](branch);
        result_.has_others = result_.has_others || branch.is_narrowed;
        if (!branch.shape.is_empty()) drafts.push_back(std::move(branch));
      }
    }
    return std::move(result_);
  }

 private:
  const std::string& place() const { return doc_.at(term_.empty() ? doc_.root() : term_[0] / 2).pointer; }
  [[noreturn]] void too_many(const std::string& at) const {
    doc_.refuse(at, "its anyOf, oneOf, if and not have too many combinations; state fewer, or fewer together");
  }

  void look(Draft& d) {
    while (!d.todo.empty()) {
      const auto [fact, source] = std::move(d.todo.back());
      const Fact origin = source.origin;
      d.todo.pop_back();
      if (d.from.contains(fact)) {
        if (d.comes_from(origin, fact))
          doc_.refuse(doc_.at(fact / 2).pointer, "$ref, allOf and others refer to themselves, without a value between");
        continue;
      }
      if (d.from.contains(fact ^ 1)) {
        d.shape = {.null = false, .yes = false, .no = false, .number = {}, .string = {}, .array = {}, .object = {}};
        return;
      }
      d.from[fact] = source;
      if (fact % 2 == 0)
        add_holding(maker_, d, fact / 2);
      else
        add_failing(maker_, d, fact / 2);
      if (d.shape.is_empty()) return;
    }
  }

  void finish(Draft& d) {
    if (!d.lists.empty()) {
      const Json& list = *d.lists[0].values;
      result_.values_pointer = d.lists[0].pointer;
      const auto add = [&](const Json& v) {
        const ShapeMaker::Verdict verdict = maker_.contains(term_, v, &list);
        if (verdict.sure && seen_.insert(&v).second) result_.values.push_back(&v);
        result_.has_others = result_.has_others || (verdict.maybe && !verdict.sure);
      };
      if (d.lists[0].is_const)
        add(list);
      else
        for (const Json& v : list) add(v);
      return;
    }
    check_unevaluated(d);
    if (d.is_branch) maker_.drop_empty(d.shape, 0);
    if (d.shape.is_empty()) return;
    doc_.spend_bytes(sizeof(Shape) + 200, place());
    result_.shapes.push_back(std::move(d.shape));
  }

  // What other subschemas look at is not what these keywords are about.
  void check_unevaluated(Draft& d) {
    for (const Fact u : d.unevaluated) {
      const SchemaDocument::Node& n = doc_.at(u / 2);
      const auto inside = [&](Fact origin) { return d.comes_from_holding(origin, u); };
      const auto refuse = [&](const char* key) {
        doc_.refuse(pointer_to(n.pointer, key),
                    fmt::format("'{}' cannot be combined with what other schemas, or not, say", key));
      };
      if (n.schema->contains("unevaluatedProperties") && d.shape.object) {
        for (const auto& p : d.shape.object->parts)
          if (p->derived ? !is_never(p->properties[0].second) : !inside(p->origin)) refuse("unevaluatedProperties");
        if (std::none_of(d.shape.object->parts.begin(), d.shape.object->parts.end(),
                         [](const auto& p) { return p->rest.has_value(); }))
          d.shape.object->closed = true;
      }
      if (n.schema->contains("unevaluatedItems") && d.shape.array) {
        if (!std::all_of(d.array_origins.begin(), d.array_origins.end(), inside) || !d.shape.array->contains.empty())
          refuse("unevaluatedItems");
        if (!d.shape.array->rest_stated) d.shape.array->rest = kNever, d.shape.array->rest_stated = true;
      }
    }
  }

  ShapeMaker& maker_;
  SchemaDocument& doc_;
  const Term& term_;
  Shapes result_;
  std::set<const Json*> seen_;
  size_t drafts_ = 0;
};

const Shapes& ShapeMaker::of(const Term& term) {
  const auto [found, is_new] = made_.try_emplace(term);
  if (!is_new) {
    if (!found->second) fail_internal("a schema's shapes are asked for while they are made");
    return *found->second;
  }
  auto shapes = std::make_shared<const Shapes>(is_never(term) ? Shapes() : Expansion(*this, term).run());
  return *(made_[term] = std::move(shapes));
}

bool ShapeMaker::is_empty(const Term& term, int depth) {
  if (is_never(term)) return true;
  if (term.empty() || depth > kMaxEmptyDepth) return false;
  if (const auto known = empty_.find(term); known != empty_.end()) return known->second;
  if (const auto making = made_.find(term); making != made_.end() && !making->second) return false;
  const Shapes& shapes = of(term);
  if (!shapes.values.empty() || shapes.has_others) return empty_[term] = false;
  empty_[term] = false;  // while it is looked at
  const bool result = std::all_of(shapes.shapes.begin(), shapes.shapes.end(), [&](const Shape& s) {
    Shape left = s;
    drop_empty(left, depth + 1);
    return left.is_empty();
  });
  return empty_[term] = result;
}

void ShapeMaker::drop_empty(Shape& s, int depth) {
  if (s.string && s.string->most >= 0 && s.string->most < s.string->least) s.string.reset();
  if (s.string && s.string->conditions.size() > 1) {
    int64_t most = s.string->most;
    if (automaton_of(*s.string, most, true).empty()) s.string.reset();
  }
  if (s.number && s.number->lower && s.number->upper) {
    const Bound &lo = *s.number->lower, &hi = *s.number->upper;
    if (hi.value < lo.value || (hi.value == lo.value && (lo.exclusive || hi.exclusive))) s.number.reset();
  }
  if (s.array) {
    const ArrayShape& a = *s.array;
    bool dead = a.most >= 0 && a.most < a.least;
    for (size_t i = 0; !dead && i < std::min(size_t(a.least), a.prefix.size() + 1); ++i)
      dead = is_empty(a.item(i), depth);
    if (dead) s.array.reset();
  }
  if (!s.object) return;
  const ObjectShape& o = *s.object;
  bool dead = o.most >= 0 && o.most < std::max<int64_t>(o.least, int64_t(o.required.size()));
  for (const std::string& name : o.required) {
    Term term;
    for (const auto& p : o.parts) {
      doc_.spend(p->properties.size() + 4, p->pointer);
      const Term* found = p->find(name);
      if (found)
        term = both(term, *found);
      else if (p->rest && p->patterns.empty())
        term = both(term, *p->rest);
    }
    if (dead || (dead = is_empty(term, depth))) break;
  }
  if (dead) s.object.reset();
}

CharAutomaton ShapeMaker::automaton_of(const StringShape& s, int64_t& most, bool wide) {
  const CharSet any{{0, kLastCodePoint}};
  CharAutomaton result;
  result.states.push_back({.edges = {{any, 0}}, .accept = true});
  bool is_any = true;
  const auto add = [&](const CharAutomaton& a, const std::string& at) {
    const std::string name = doc_.place(at);
    result = is_any ? a : intersection(result, a, {name, doc_.budget()});
    is_any = false;
  };
  most = s.most;
  for (const StringShape::Condition& c : s.conditions) {
    if (!c.is_format) {
      add(c.holds ? doc_.pattern(c.text, c.pointer) : doc_.no_pattern(c.text, c.pointer), c.pointer);
      continue;
    }
    const FormatTexts* f = doc_.format(c.text, c.pointer);
    if (!f) continue;
    if (!c.holds || wide) {
      add(c.holds ? doc_.wide_format(c.text, c.pointer) : doc_.no_format(c.text, c.pointer), c.pointer);
      continue;
    }
    add(f->automaton, c.pointer);
    if (f->most >= 0) most = most < 0 ? f->most : std::min(most, f->most);
  }
  if (!s.excluded.empty()) {
    const std::string name = doc_.place(s.pointer);
    add(all_but(s.excluded, {name, doc_.budget()}), s.pointer);
  }
  return result;
}

std::optional<CharAutomaton> ShapeMaker::strings_of(const Term& term, const std::string& pointer) {
  const Shapes& shapes = of(term);
  const std::string name = doc_.place(pointer);
  const Payer payer{name, doc_.budget()};
  CharAutomaton result;
  result.states.emplace_back();
  std::vector<std::string> texts;
  for (const Json* v : shapes.values)
    if (v->is_string()) texts.push_back(*v);
  if (!texts.empty()) result = char_automaton(one_of(std::move(texts)), payer);
  for (const Shape& s : shapes.shapes) {
    if (!s.string) continue;
    if (s.string->is_open()) return std::nullopt;
    int64_t most = -1;
    CharAutomaton a = automaton_of(*s.string, most);
    if (s.string->least > 0 || most >= 0) a = intersection(a, length_automaton(s.string->least, most, payer), payer);
    result = either(result, a, payer);
  }
  return result;
}

}  // namespace toy::grammar
