// A JSON Schema as a document: its subschemas by number, references, messages, and what work on it costs.
#pragma once

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "grammar/char_automaton.h"
#include "grammar/formats.h"
#include "toy/grammar/grammar.h"

namespace toy::grammar {

using Json = nlohmann::ordered_json;

/// Messages name `name` and JSON pointers. What it does is paid from a budget.
class SchemaDocument {
 public:
  SchemaDocument(const Json& root, std::string name, GrammarBudget& budget);

  /// A subschema. Throws for what is no object or boolean.
  struct Node {
    const Json* schema = nullptr;
    std::string pointer;
    const Json* resource = nullptr;  ///< the schema with the $id that its references begin at
  };
  /// The subschema `schema`, which is a part of the one of number `in`, at the pointer.
  int32_t node(const Json& schema, std::string pointer, int32_t in);
  int32_t root() const { return 2; }
  const Node& at(int32_t node) const { return nodes_[size_t(node)]; }
  /// The subschemas `true` and `false`.
  static constexpr int32_t kAnything = 0, kNothing = 1;
  /// The subschema that a $ref in another one names. Throws for a reference out of the document, or to nothing.
  int32_t resolve(int32_t from, const std::string& ref);
  /// The same for $dynamicRef. Throws where the target depends on how the schema is reached.
  int32_t resolve_dynamic(int32_t from, const std::string& ref);

  GrammarBudget& budget() const { return budget_; }
  /// "NAME: /pointer".
  std::string place(const std::string& pointer) const;
  /// Throws Error{bad_input} "NAME: /pointer: what".
  [[noreturn]] void refuse(const std::string& pointer, const std::string& what) const;
  /// Throws Error{bad_input} where the budget has fewer steps, or bytes.
  void spend(size_t steps, const std::string& pointer) const {
    if (steps > budget_.left()) budget_.spend(steps, place(pointer));
    budget_.spend(steps, name_);
  }
  void spend_bytes(size_t bytes, const std::string& pointer) const {
    if (bytes > budget_.bytes_left()) budget_.spend_bytes(bytes, place(pointer));
    budget_.spend_bytes(bytes, name_);
  }
  /// A count such as minLength; `otherwise` where it is absent.
  int64_t count_of(const Json& schema, const char* key, int64_t otherwise, const std::string& pointer) const;
  /// @{
  /// The texts of a pattern or a format; nullptr for a format that is not known. Made once each.
  const CharAutomaton& pattern(const std::string& pattern, const std::string& pointer);
  const CharAutomaton& no_pattern(const std::string& pattern, const std::string& pointer);
  const FormatTexts* format(const std::string& format, const std::string& pointer);
  /// @}
  /// @{
  /// Of a format that is known: all texts that may be valid, and those that certainly are not.
  const CharAutomaton& wide_format(const std::string& format, const std::string& pointer);
  const CharAutomaton& no_format(const std::string& format, const std::string& pointer);
  /// @}
  /// What a dependency needs, if it is a list of names or, as in draft 3, one name; nullopt: it is a schema.
  std::optional<std::vector<std::string>> names_needed(const Json& needs, const std::string& pointer) const;

 private:
  void make_index();
  const Json& follow(const Json& resource, const std::string& path, const std::string& ref, const std::string& pointer,
                     const Json*& nearest) const;

  const Json& root_;
  std::string name_;
  GrammarBudget& budget_;
  std::deque<Node> nodes_;  // stay where they are
  std::map<const Json*, int32_t> numbers_;
  bool has_index_ = false;
  std::map<std::string, const Json*> resources_;                        // by their URI
  std::map<const Json*, std::string> uris_;                             // of resources
  std::map<std::pair<const Json*, std::string>, const Json*> anchors_;  // of a resource, by name
  std::map<std::string, int> dynamic_anchors_;                          // how many of a name there are
  std::map<std::string, CharAutomaton> patterns_, other_patterns_, other_formats_;
  std::map<std::string, std::optional<FormatTexts>> formats_;
  std::map<std::string, std::optional<CharAutomaton>> wide_formats_;
};

/// A keyword as a step of a JSON pointer.
std::string pointer_to(const std::string& pointer, std::string_view key);
/// The type of a value; whole numbers are integers.
std::string type_of(const Json& value);
/// Are two values equal, as JSON Schema defines it: numbers by value, objects in any order?
bool equal(const Json& a, const Json& b);
/// Does a keyword only annotate: is it unknown, or known as one that restricts nothing?
bool is_note(std::string_view key);

}  // namespace toy::grammar
