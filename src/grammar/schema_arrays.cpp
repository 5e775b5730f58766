// Arrays of a schema as rules: one for what follows each item.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "grammar/automaton.h"
#include "grammar/rule_maker.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::grammar {
namespace {

constexpr size_t kMostDifferent = 10;  // values of items that are all different, in any order

class ArrayRules {
 public:
  ArrayRules(RuleMaker& maker, const ArrayShape& shape)
      : maker_(maker), doc_(maker.document()), a_(shape), least_(shape.least), most_(shape.most) {
    const int64_t n = int64_t(a_.prefix.size());
    if (n > 0 && !a_.rest_stated && least_ <= n) most_ = most_ < 0 ? n : std::min(most_, n);
    if (is_never(a_.rest)) most_ = most_ < 0 ? n : std::min(most_, n);
  }

  Expr texts() {
    if (most_ >= 0 && most_ < least_) return rule(maker_.add_rule(a_.size_pointer, alternatives({})));
    if (std::max(least_, most_) > int64_t(kMaxStates))
      doc_.refuse(a_.size_pointer, fmt::format("an array of {} items is too large; use at most {}",
                                               std::max(least_, most_), kMaxStates));
    if (a_.unique && (most_ < 0 || most_ > 1)) return different();
    if (!a_.contains.empty()) return containing();
    const int64_t n = int64_t(a_.prefix.size());
    Expr item = alternatives({});
    if (most_ < 0 || most_ > n) item = rule(maker_.add_rule(place_of(a_.rest, a_.pointer), maker_.value(a_.rest)));
    const std::string rest = a_.size_pointer.empty() ? a_.pointer : a_.size_pointer;
    // From the last to the first: the text from item i on.
    int32_t next = -1;
    for (int64_t i = n; i >= 0; --i) {
      Expr from = alternatives({});
      if (i >= least_) from.parts.emplace_back();
      if (i == n && (most_ < 0 || most_ > n)) {
        const int64_t more = std::max<int64_t>(least_ - n, 1) - 1;
        from.parts.push_back(sequence(
            {separator(i), item, repeat(sequence({maker_.comma(), item}), more, most_ < 0 ? -1 : most_ - n - 1)}));
      } else if (i < n && (most_ < 0 || i < most_)) {
        from.parts.push_back(sequence({separator(i), maker_.value(a_.prefix[size_t(i)]), rule(next)}));
      }
      next = maker_.add_rule(i < n ? place_of(a_.prefix[size_t(i)], a_.pointer) : rest, std::move(from));
    }
    return maker_.brackets(rule(next));
  }

 private:
  std::string place_of(const Term& t, const std::string& otherwise) const {
    const std::string pointer = maker_.pointer_of(t);
    return pointer.empty() ? otherwise : pointer;
  }
  Expr separator(int64_t i) { return i > 0 ? maker_.comma() : Expr(); }

  // The rules are by the number of items so far and of those that count, as far as they matter.
  Expr containing() {
    const ArrayShape::Contains& c = a_.contains[0];
    if (a_.contains.size() > 1)
      doc_.refuse(a_.contains[1].pointer, "'contains' is stated twice, or 'not' needs it, which cannot be expressed");
    const int64_t last = std::max({int64_t(a_.prefix.size()), least_, most_, int64_t(1)}),
                  enough = std::max(c.least, c.most >= 0 ? c.most + 1 : 0);
    if ((last + 1) * (enough + 1) > 10'000) doc_.refuse(c.pointer, "'contains' with so many items is too large");
    std::map<std::pair<int64_t, int64_t>, int32_t> rules;
    for (int64_t i = 0; i <= last; ++i)
      for (int64_t k = 0; k <= enough; ++k) rules[{i, k}] = maker_.add_rule(c.pointer);
    for (int64_t i = 0; i <= last; ++i)
      for (int64_t k = 0; k <= enough; ++k) {
        Expr from = alternatives({});
        if (i >= least_ && k >= c.least && (c.most < 0 || k <= c.most)) from.parts.emplace_back();
        if (most_ < 0 || i < most_) {
          const Term& here = a_.item(size_t(i));
          const Term other = c.most >= 0 ? both(here, opposite(c.item)) : here;
          const int64_t i_next = std::min(i + 1, last), k_next = std::min(k + 1, enough);
          from.parts.push_back(sequence({separator(i), maker_.value(other), rule(rules[{i_next, k}])}));
          if (c.most < 0 || k < c.most)
            from.parts.push_back(
                sequence({separator(i), maker_.value(both(here, c.item)), rule(rules[{i_next, k_next}])}));
        }
        maker_.at(rules[{i, k}]).expr = std::move(from);
      }
    return maker_.brackets(rule(rules[{0, 0}]));
  }
  Term opposite(const Term& t) const {
    if (t.empty()) return kNever;
    if (t.size() > 1) doc_.refuse(a_.contains[0].pointer, "maxContains cannot be combined with what other schemas say");
    return {t[0] ^ 1};
  }

  // Items that are all different: the rules are by the values so far.
  Expr different() {
    const auto refuse = [&](const char* what) {
      doc_.refuse(
          a_.unique_pointer,
          fmt::format("'uniqueItems' cannot be expressed for {}; remove it (in pydantic, use list instead of set) "
                      "and drop repeated items, or list at most {} values in an enum",
                      what, kMostDifferent));
    };
    if (!a_.prefix.empty() || !a_.contains.empty()) refuse("such items");
    if (a_.rest.empty()) refuse("items of any value");
    const Shapes& s = maker_.shapes().of(a_.rest);
    if (s.values.size() > 4 * kMostDifferent) refuse("so many values");
    std::vector<Expr> values;
    std::vector<const Json*> known;
    for (const Json* v : s.values) {
      if (std::any_of(known.begin(), known.end(), [&](const Json* k) { return equal(*k, *v); })) continue;
      known.push_back(v);
      values.push_back(maker_.listed({v}, s.values_pointer));
    }
    bool words[3] = {};
    for (const Shape& shape : s.shapes) {
      if (shape.number || shape.string || shape.array || shape.object) refuse("items of so many values");
      const bool has[3] = {shape.null, shape.yes, shape.no};
      for (int i = 0; i < 3; ++i) words[i] = words[i] || has[i];
    }
    const Json kWords[3] = {nullptr, true, false};
    for (int i = 0; i < 3; ++i)
      if (words[i] && std::none_of(known.begin(), known.end(), [&](const Json* k) { return *k == kWords[i]; }))
        values.push_back(literal(json_text(kWords[i])));
    if (values.size() > kMostDifferent) refuse("so many values");
    const size_t sets = size_t(1) << values.size();
    doc_.spend(sets * values.size() * 100, a_.unique_pointer);
    doc_.spend_bytes(sets * values.size() * 3 * sizeof(Expr), a_.unique_pointer);
    for (Expr& v : values) v = rule(maker_.add_rule(s.values_pointer, std::move(v)));
    std::vector<int32_t> rules(sets);
    for (int32_t& r : rules) r = maker_.add_rule(a_.unique_pointer);
    for (size_t set = 0; set < sets; ++set) {
      const int64_t count = __builtin_popcountll(set);
      Expr from = alternatives({});
      if (count >= least_) from.parts.emplace_back();
      for (size_t i = 0; i < values.size() && (most_ < 0 || count < most_); ++i)
        if (!(set >> i & 1))
          from.parts.push_back(sequence({separator(count), values[i], rule(rules[set | size_t(1) << i])}));
      maker_.at(rules[set]).expr = std::move(from);
    }
    return maker_.brackets(rule(rules[0]));
  }

  RuleMaker& maker_;
  SchemaDocument& doc_;
  const ArrayShape& a_;
  int64_t least_, most_;
};

}  // namespace

Expr array_texts(RuleMaker& maker, const ArrayShape& shape) { return ArrayRules(maker, shape).texts(); }

}  // namespace toy::grammar
