// The shapes of a schema as rules of a grammar.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "grammar/expr.h"
#include "grammar/schema_shapes.h"

namespace toy::grammar {

class RuleMaker {
 public:
  explicit RuleMaker(SchemaDocument& document) : doc_(document), shapes_(document) {}
  /// The rules; the first is the texts of the term.
  std::vector<Rule> make(const Term& term);

  SchemaDocument& document() { return doc_; }
  ShapeMaker& shapes() { return shapes_; }
  /// The texts of the values of a term: in place where they are short, else as a rule.
  Expr value(const Term& term);
  int32_t add_rule(std::string name, Expr e = {});
  Rule& at(int32_t rule) { return rules_[size_t(rule)]; }
  /// Rules that all schemas share: space, value, object, array, string, number.
  int32_t named(const std::string& name);
  Expr space() { return rule(named("space")); }
  Expr comma() { return sequence({literal(","), space()}); }
  Expr braces(Expr inside) { return sequence({literal("{"), space(), std::move(inside), space(), literal("}")}); }
  Expr brackets(Expr inside) { return sequence({literal("["), space(), std::move(inside), space(), literal("]")}); }
  /// Where the values of a term are described; "" where nothing says so.
  std::string pointer_of(const Term& term) const;
  /// A string literal.
  Expr quoted(const std::string& text, const std::string& pointer);
  /// The values of a list, and nothing else.
  Expr listed(const std::vector<const Json*>& values, const std::string& pointer);

 private:
  Expr texts(const Term& term, const std::string& pointer);
  Expr string_of(const StringShape& s);
  Expr number_of(const NumberLimits& l, const std::string& pointer);
  Expr exactly(const Json& value, const std::string& pointer);
  Expr definition(const std::string& name);

  SchemaDocument& doc_;
  ShapeMaker shapes_;
  std::vector<Rule> rules_;
  std::map<std::string, int32_t> named_;
  std::map<Term, int32_t> terms_;
  std::deque<std::pair<int32_t, Term>> pending_;
  std::vector<std::pair<StringShape, Expr>> strings_;
  std::map<std::string, Expr> numbers_;
};

/// @{
/// The texts of arrays and objects.
Expr array_texts(RuleMaker& maker, const ArrayShape& shape);
Expr object_texts(RuleMaker& maker, const ObjectShape& shape);
/// @}

inline constexpr size_t kMaxRules = 50'000;

}  // namespace toy::grammar
