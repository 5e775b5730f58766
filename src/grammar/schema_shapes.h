// What values a schema allows, as a union of shapes. A shape is what is allowed of each type; so all keywords that
// combine schemas become unions and intersections of shapes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "grammar/numbers.h"
#include "grammar/schema_document.h"

namespace toy::grammar {

/// A subschema that holds (2 * node), or does not (2 * node + 1).
using Fact = int32_t;
constexpr Fact holds(int32_t node) { return 2 * node; }
constexpr Fact fails(int32_t node) { return 2 * node + 1; }
/// The values for which all of these facts are true. Sorted; none: all values.
using Term = std::vector<Fact>;
Term both(const Term& a, const Term& b);
inline const Term kNever{holds(SchemaDocument::kNothing)};
bool is_never(const Term& t);

struct StringShape {
  struct Condition {
    std::string text;     ///< a pattern, or the name of a format
    std::string pointer;  ///< for messages
    bool is_format = false, holds = true;
  };
  std::vector<Condition> conditions;
  std::vector<std::string> excluded;
  int64_t least = 0, most = -1;  ///< code points; -1: any number
  std::string pointer;           ///< the last keyword that restricts it
  bool is_open() const { return conditions.empty() && excluded.empty() && least <= 0 && most < 0; }
};

struct ArrayShape {
  struct Contains {
    Term item;
    int64_t least = 1, most = -1;
    std::string pointer = {};
  };
  std::vector<Term> prefix;
  Term rest;                 ///< of items after the prefix
  bool rest_stated = false;  ///< may there be any, if their number does not demand it?
  int64_t least = 0, most = -1;
  bool unique = false;
  std::vector<Contains> contains;
  std::string pointer, size_pointer, unique_pointer;  ///< the schema, and keywords
  const Term& item(size_t i) const { return i < prefix.size() ? prefix[i] : rest; }
};

/// What one subschema says about the pairs of an object.
struct ObjectPart {
  std::vector<std::pair<std::string, Term>> properties, patterns;
  std::optional<Term> rest;  ///< of names that are not in properties and match no pattern
  bool derived = false;      ///< from a negation: the names are not offered for that
  Fact origin = 0;
  std::vector<int32_t> path = {};  ///< for the order: through which keywords it is reached
  std::string pointer = {};
  const Term* find(const std::string& name) const;
};

struct ObjectShape {
  std::vector<std::shared_ptr<const ObjectPart>> parts;
  std::set<std::string> required;
  std::vector<Term> names;  ///< what names are as strings
  int64_t least = 0, most = -1;
  bool closed = false;                ///< no names but those of parts
  std::string pointer, size_pointer;  ///< the schema, and a keyword
};

struct Shape {
  bool null = true, yes = true, no = true;
  std::optional<NumberLimits> number = NumberLimits();
  std::optional<StringShape> string = StringShape();
  std::optional<ArrayShape> array = ArrayShape();
  std::optional<ObjectShape> object = ObjectShape();
  std::string number_pointer;
  bool is_empty() const { return !null && !yes && !no && !number && !string && !array && !object; }
  /// Leaves one type, by its name.
  void keep(const std::vector<std::string>& types);
};

/// The least and the largest value of a format of numbers (int8 to uint64), if the schema has one.
std::optional<std::pair<Decimal, Decimal>> integer_format(const Json& schema);
/// Adds the bounds and factors of a schema. `wide`: a format of whole numbers allows others as well.
void add_number_limits(const SchemaDocument& doc, const SchemaDocument::Node& n, NumberLimits& limits,
                       bool wide = false);

struct Shapes {
  std::vector<const Json*> values;  ///< of enum and const
  std::string values_pointer;       ///< the keyword
  std::vector<Shape> shapes;        ///< all others
  bool has_others = false;          ///< may there be values beside these?
  bool empty() const { return values.empty() && shapes.empty(); }
};

/// Turns facts about subschemas into shapes, once each.
class ShapeMaker {
 public:
  explicit ShapeMaker(SchemaDocument& document) : doc_(document) {}
  SchemaDocument& document() { return doc_; }
  /// Throws Error{bad_input} naming keyword and place for what cannot be expressed.
  const Shapes& of(const Term& term);
  /// Is there certainly no value? False where it takes too long to see.
  bool is_empty(const Term& term, int depth = 0);
  /// Whether a value is valid: certainly, and perhaps. They differ for formats whose texts are not all known.
  struct Verdict {
    bool sure = true, maybe = true;
    Verdict operator!() const { return {!maybe, !sure}; }
    Verdict operator&(Verdict o) const { return {sure && o.sure, maybe && o.maybe}; }
    Verdict operator|(Verdict o) const { return {sure || o.sure, maybe || o.maybe}; }
  };
  /// Is the value one of the term? `skip`: a list that it is known to be in.
  Verdict contains(const Term& term, const Json& value, const Json* skip = nullptr);
  /// The strings of a term as an automaton; nullopt: all.
  std::optional<CharAutomaton> strings_of(const Term& term, const std::string& pointer);
  /// The strings of a shape, without their lengths. `wide`: all that may be valid, not those that are written.
  CharAutomaton automaton_of(const StringShape& s, int64_t& most, bool wide = false);

 private:
  friend class Expansion;
  static constexpr Verdict kInvalid{false, false};
  Verdict valid(int32_t node, const Json& value, const Json* skip, int depth);
  Verdict valid_object(const SchemaDocument::Node& n, int32_t node, const Json& value, int depth);
  Verdict valid_array(const SchemaDocument::Node& n, int32_t node, const Json& value, int depth);
  Verdict valid_scalar(const SchemaDocument::Node& n, const Json& value);
  bool is_listed(const Json& list, const Json& value, const std::string& pointer);
  void drop_empty(Shape& s, int depth);

  SchemaDocument& doc_;
  std::map<Term, std::shared_ptr<const Shapes>> made_;
  std::map<Term, bool> empty_;
  std::map<const Json*, std::set<std::string>> strings_in_;  // the strings of long lists
};

}  // namespace toy::grammar
