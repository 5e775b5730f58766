// A shape while it is made: what is known of it, and which facts and choices are left.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "grammar/schema_shapes.h"

namespace toy::grammar {

struct Draft {
  /// One way to make a choice. It adds to the draft.
  using Way = std::function<void(Draft&)>;
  struct Choice {
    std::string pointer;  ///< whose choice it is
    int rank = 0;         ///< lower ones are made first
    std::function<std::vector<Way>(const Draft&)> ways;
  };

  Shape shape;
  /// The fact that another comes from, and the keywords on the way: $ref, its own, allOf, others.
  struct Source {
    Fact origin = 0;
    std::vector<int32_t> path;
  };
  enum Step { by_reference, itself, by_all_of, by_choice };

  std::vector<std::pair<Fact, Source>> todo;
  std::map<Fact, Source> from;  ///< of those that were looked at
  std::vector<Choice> choices;
  /// Values of an enum, or the one of a const.
  struct List {
    const Json* values = nullptr;
    bool is_const = false;
    std::string pointer;
  };
  std::vector<List> lists;
  std::vector<Fact> unevaluated;    ///< schemas with unevaluatedProperties or unevaluatedItems false
  std::vector<Fact> array_origins;  ///< schemas that say something about items
  bool is_branch = false;           ///< after a choice
  bool is_narrowed = false;         ///< some valid values are left out

  void add(Fact fact, Fact origin, Step step = by_choice, int32_t index = 0) {
    Source source{origin, path_of(origin)};
    source.path.insert(source.path.end(), {step, index});
    todo.push_back({fact, std::move(source)});
  }
  std::vector<int32_t> path_of(Fact fact) const {
    const auto found = from.find(fact);
    return found == from.end() ? std::vector<int32_t>() : found->second.path;
  }
  bool comes_from(Fact fact, Fact ancestor) const;
  /// The same through facts that hold.
  bool comes_from_holding(Fact fact, Fact ancestor) const;
  /// Is it an object of declared names only, as far as is known?
  bool is_closed_object() const;
  bool declares(const std::string& name) const;
  /// Adds a property that is not offered for that.
  void derive(const std::string& name, Term term, Fact origin);
};

/// @{
/// Adds what the keywords of a subschema say, or the choice of what to say against one of them.
void add_holding(ShapeMaker& maker, Draft& draft, int32_t node);
void add_failing(ShapeMaker& maker, Draft& draft, int32_t node);
/// @}

/// The subschema at a keyword, or at an entry of it.
int32_t child(SchemaDocument& doc, int32_t node, const char* key, const std::string* entry = nullptr);
/// The schema that a reference of the node leads to; -1: it has no such keyword.
int32_t target_of(SchemaDocument& doc, int32_t node, const char* key);
/// The types that a `type` names; throws for others.
std::vector<std::string> types_of(const SchemaDocument& doc, const SchemaDocument::Node& n);

}  // namespace toy::grammar
