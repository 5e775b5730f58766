// Schemas as data: references, what several of them say together, and whether two of them exclude each other.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "toy/grammar/grammar.h"

namespace toy::grammar {

using Json = nlohmann::ordered_json;

/// A schema and its references. Messages name `name` and JSON pointers. What it does is paid from a budget.
class SchemaDocument {
 public:
  SchemaDocument(const Json& root, std::string name, GrammarBudget& budget)
      : root_(root), name_(std::move(name)), budget_(budget) {}
  const Json& root() const { return root_; }
  GrammarBudget& budget() const { return budget_; }

  /// "NAME: /pointer".
  std::string place(const std::string& pointer) const;
  /// Throws Error{bad_input} "NAME: /pointer: what".
  [[noreturn]] void refuse(const std::string& pointer, const std::string& what) const;
  /// Throws Error{bad_input} where the budget has fewer steps.
  void spend(size_t steps, const std::string& pointer) const {
    if (steps > budget_.left()) budget_.spend(steps, place(pointer));
    budget_.spend(steps, name_);
  }
  /// The schema that a $ref names. Throws for a reference out of the document, or to nothing.
  const Json& resolve(const std::string& ref, const std::string& pointer) const;
  /// Throws for keywords that are unknown or cannot be expressed, naming the first.
  void check_keywords(const Json& schema, const std::string& pointer) const;
  /// Has the schema nothing but this keyword, and notes that restrict nothing?
  bool only(const Json& schema, std::string_view keyword) const;
  /// The schema without $ref and allOf: what it, the schema it refers to and all parts say together. Throws where that
  /// cannot be stated as one schema.
  Json flat(const Json& schema, const std::string& pointer, int depth = 0) const;
  /// One schema that says what both do. Neither has $ref or allOf.
  Json merged(const Json& a, const Json& b, const std::string& pointer) const;
  /// The types that a value may have: those of `type`, or those that other keywords are about.
  std::vector<std::string> types(const Json& schema, const std::string& pointer) const;
  /// Is certainly no text that is generated for one of the schemas valid under the other?
  bool disjoint(const Json& a, const Json& b, const std::string& pointer, int depth = 0) const;

 private:
  bool excludes(const Json& a, const Json& b, const std::string& pointer, int depth) const;
  const Json& root_;
  std::string name_;
  GrammarBudget& budget_;
  mutable int64_t work_ = 0;  // schemas that were merged or compared: combinations grow exponentially
};

/// The type of a value; whole numbers are integers.
std::string type_of(const Json& value);
/// Is a value of this type one of these types?
bool has_type(const std::vector<std::string>& types, const std::string& type);
/// A keyword as a step of a JSON pointer.
std::string pointer_to(const std::string& pointer, std::string_view key);

}  // namespace toy::grammar
