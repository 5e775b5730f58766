// Objects of a schema as rules: one for what follows each pair.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/rule_maker.h"
#include "toy/base/error.h"

namespace toy::grammar {
namespace {

constexpr size_t kMostCells = 200;

class ObjectRules {
 public:
  ObjectRules(RuleMaker& maker, const ObjectShape& shape)
      : maker_(maker), doc_(maker.document()), o_(shape), is_open_(!shape.closed) {
    std::stable_sort(o_.parts.begin(), o_.parts.end(), [](const auto& x, const auto& y) { return x->path < y->path; });
    bool stated = false, declared = false;
    for (const auto& p : o_.parts) {
      stated = stated || p->rest;
      declared = declared || (!p->derived && !p->rest);
    }
    // Without additionalProperties there are no others, unless nothing says which there are.
    is_open_ = is_open_ && (stated || !declared);
  }

  Expr texts() {
    find_names();
    if (impossible_) return alternatives({});
    std::vector<Pair> pairs;
    for (const std::string& name : names_) {
      const bool required = o_.required.contains(name);
      Term term;
      if (!term_of(name, term) || is_never(term)) {
        if (required) return rule(maker_.add_rule(place_of(name), alternatives({})));
        continue;
      }
      const std::string at = place_of(name);
      Expr e = sequence({maker_.quoted(name, at), literal(":"), maker_.space(), maker_.value(term)});
      pairs.push_back({rule(maker_.add_rule(at, std::move(e))), required});
    }
    std::vector<Expr> extra = extra_pairs();
    std::optional<Expr> others;
    if (!extra.empty()) others = rule(maker_.add_rule(o_.pointer, alternatives(std::move(extra))));
    return maker_.braces(rule(members(pairs, others)));
  }

 private:
  struct Pair {
    Expr expr;
    bool required = false;
  };
  // Names of the same patterns: one kind of pairs.
  struct Cell {
    CharAutomaton names;
    Term value;
    std::vector<bool> matched;  // of each part: is there a pattern?
  };

  std::string place_of(const std::string& name) const {
    const auto declared = declared_by_.find(name);
    if (declared == declared_by_.end()) return pointer_to(o_.pointer, "required");
    return pointer_to(pointer_to(declared->second->pointer, "properties"), name);
  }
  // What tells how many pairs there are.
  std::string place_of_size() const {
    return o_.size_pointer.empty() ? pointer_to(o_.pointer, "properties") : o_.size_pointer;
  }
  std::vector<uint32_t> points(const std::string& name) const { return code_points(name, "a name"); }

  // The names that are written out, in the order of the schema; those that are only required last.
  void find_names() {
    std::set<std::string> known;
    const auto add = [&](const std::string& name) {
      doc_.spend(20, o_.pointer);
      if (known.insert(name).second) names_.push_back(name);
    };
    for (const auto& p : o_.parts)
      if (!p->derived)
        for (const auto& [name, term] : p->properties) add(name), declared_by_.try_emplace(name, p.get());
    for (const auto& p : o_.parts)
      if (p->derived)
        for (const auto& [name, term] : p->properties)
          if (is_open_ || o_.required.contains(name) || matches_pattern(name)) add(name);
    for (const std::string& name : o_.required) {
      if (!known.contains(name) && o_.closed) impossible_ = true;
      add(name);
    }
  }

  bool matches_pattern(const std::string& name) {
    return std::any_of(o_.parts.begin(), o_.parts.end(), [&](const auto& p) {
      return std::any_of(p->patterns.begin(), p->patterns.end(),
                         [&](const auto& entry) { return matches(entry.first, *p, name); });
    });
  }
  bool matches(const std::string& pattern, const ObjectPart& p, const std::string& name) {
    const std::string at = pointer_to(pointer_to(p.pointer, "patternProperties"), pattern), here = doc_.place(at);
    return doc_.pattern(pattern, at).matches(points(name), {here, doc_.budget()});
  }

  // What all parts say of the value of a name; false: there is no such name.
  bool term_of(const std::string& name, Term& term) {
    for (const auto& p : o_.parts) {
      doc_.spend(10 + p->properties.size(), o_.pointer);
      const Term* found = p->find(name);
      bool covered = found != nullptr;
      if (found) term = both(term, *found);
      for (const auto& [pattern, value] : p->patterns)
        if (matches(pattern, *p, name)) covered = true, term = both(term, value);
      if (!covered && p->rest) term = both(term, *p->rest);
    }
    return std::all_of(o_.names.begin(), o_.names.end(),
                       [&](const Term& t) { return maker_.shapes().contains(t, Json(name)).sure; });
  }

  std::vector<Expr> extra_pairs() {
    std::vector<Expr> result;
    std::vector<std::pair<size_t, const std::pair<std::string, Term>*>> patterns;
    for (size_t i = 0; i < o_.parts.size(); ++i)
      for (const auto& entry : o_.parts[i]->patterns) patterns.push_back({i, &entry});
    if (!is_open_ && patterns.empty()) return result;
    const std::string at = pointer_to(o_.pointer, patterns.empty() ? "additionalProperties" : "patternProperties"),
                      place = doc_.place(at);
    const Payer payer{place, doc_.budget()};
    std::vector<Cell> cells;
    cells.push_back({all_but(names_, payer), {}, std::vector<bool>(o_.parts.size())});
    bool any_name = names_.empty();
    for (const Term& t : o_.names)
      if (const auto strings = maker_.shapes().strings_of(t, pointer_to(o_.pointer, "propertyNames"))) {
        cells[0].names = intersection(cells[0].names, *strings, payer);
        any_name = false;
      }
    for (const auto& [part, entry] : patterns) split(cells, part, *entry, payer);
    for (Cell& c : cells) {
      const bool is_matched = std::find(c.matched.begin(), c.matched.end(), true) != c.matched.end();
      if (!is_matched && !is_open_) continue;
      for (size_t i = 0; i < o_.parts.size(); ++i)
        if (!c.matched[i] && o_.parts[i]->rest) c.value = both(c.value, *o_.parts[i]->rest);
      if (is_never(c.value) || c.names.empty()) continue;
      const bool is_any = any_name && patterns.empty();
      Expr key = is_any ? rule(maker_.named("string"))
                        : sequence({literal("\""), json_string_of(std::move(c.names)), literal("\"")});
      result.push_back(sequence({std::move(key), literal(":"), maker_.space(), maker_.value(c.value)}));
    }
    return result;
  }

  // Each kind of names becomes two: those that match the pattern as well, and the others.
  void split(std::vector<Cell>& cells, size_t part, const std::pair<std::string, Term>& entry, const Payer& payer) {
    const std::string at = pointer_to(pointer_to(o_.parts[part]->pointer, "patternProperties"), entry.first);
    const CharAutomaton &in = doc_.pattern(entry.first, at), &out = doc_.no_pattern(entry.first, at);
    std::vector<Cell> result;
    for (Cell& c : cells) {
      Cell matching{intersection(c.names, in, payer), both(c.value, entry.second), c.matched};
      matching.matched[part] = true;
      if (matching.names.empty()) {
        result.push_back(std::move(c));
        continue;
      }
      c.names = intersection(c.names, out, payer);
      result.push_back(std::move(matching));
      if (!c.names.empty()) result.push_back(std::move(c));
    }
    if (result.size() > kMostCells) doc_.refuse(at, "too many patterns match the same names");
    cells = std::move(result);
  }

  // The rule of the pairs of an object. What may follow depends on the next pair and on how many there are so far, as
  // far as that matters: whether there is one, and minProperties and maxProperties.
  int32_t members(const std::vector<Pair>& pairs, const std::optional<Expr>& extra) {
    const int64_t least = o_.least, most = o_.most, n = int64_t(pairs.size());
    const int64_t required = std::count_if(pairs.begin(), pairs.end(), [](const Pair& p) { return p.required; });
    // The names of further pairs may be equal, so that there are fewer of them than it seems.
    if (extra && least > std::max<int64_t>(required, 1))
      doc_.refuse(place_of_size(), "it cannot be expressed together with properties of any name; require some");
    int64_t cap = std::max<int64_t>(most >= 0 ? most : least, 1);
    if (!extra) cap = std::min(cap, n + 1);
    if ((n + 1) * (cap + 1) > 20'000)
      doc_.refuse(place_of_size(), "minProperties and maxProperties are too large for so many properties");
    const std::string place = place_of_size();
    std::vector<int32_t> next(size_t(cap) + 1);  // by the number of pairs so far: the rest after pair i
    for (int64_t c = 0; c <= cap; ++c) next[size_t(c)] = maker_.add_rule(place);
    for (int64_t c = 0; c <= cap; ++c) {
      Expr e = alternatives({});
      if (c >= least) e.parts.emplace_back();
      if (extra && (most < 0 || c < most)) e.parts.push_back(after(c, *extra, next[size_t(std::min(c + 1, cap))]));
      maker_.at(next[size_t(c)]).expr = std::move(e);
    }
    for (int64_t i = n; i-- > 0;) {
      std::vector<int32_t> here(size_t(cap) + 1);
      for (int64_t c = 0; c <= cap; ++c) {
        Expr e = alternatives({});
        const Pair& p = pairs[size_t(i)];
        if (most < 0 || c < most) e.parts.push_back(after(c, p.expr, next[size_t(std::min(c + 1, cap))]));
        if (!p.required) e.parts.push_back(rule(next[size_t(c)]));
        here[size_t(c)] = maker_.add_rule(place, std::move(e));
      }
      next = here;
    }
    return next[0];
  }
  Expr after(int64_t count, const Expr& pair, int32_t next) {
    doc_.spend_bytes(6 * sizeof(Expr), o_.size_pointer.empty() ? o_.pointer : o_.size_pointer);
    return sequence({count > 0 ? maker_.comma() : Expr(), pair, rule(next)});
  }

  RuleMaker& maker_;
  SchemaDocument& doc_;
  ObjectShape o_;
  bool is_open_, impossible_ = false;
  std::vector<std::string> names_;
  std::map<std::string, const ObjectPart*> declared_by_;
};

}  // namespace

Expr object_texts(RuleMaker& maker, const ObjectShape& shape) { return ObjectRules(maker, shape).texts(); }

}  // namespace toy::grammar
