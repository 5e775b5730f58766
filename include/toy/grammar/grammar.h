// What a text may be: a grammar in GBNF or a JSON Schema, and the tokens that may continue a text of it.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/text/constraint.h"
#include "toy/text/tokenizer.h"

namespace toy {

namespace grammar {
struct Automaton;
struct Trie;
}  // namespace grammar

/// The tokens of a vocabulary by their bytes, which the masks of all grammars read. Immutable and cheap to copy; make
/// it once per tokenizer.
class TokenTrie {
 public:
  /// Takes some ten milliseconds for 50,000 tokens. `named`: control tokens that stand for their names
  /// (Tokenizer::written()) in the texts of a grammar, as TextRequest::named.
  explicit TokenTrie(const Tokenizer& tokenizer, std::span<const int32_t> named = {});
  const std::shared_ptr<const grammar::Trie>& shared() const { return trie_; }

 private:
  std::shared_ptr<const grammar::Trie> trie_;
};

/// Where a text of a language begins within another text.
struct Trigger {
  std::string text;       ///< its first bytes
  bool at_start = false;  ///< only at the beginning of the other text
};

/// A part at the beginning of a text in which nothing triggers: from `open` to `close`.
struct Untriggered {
  std::string open, close;
  bool begun = false;  ///< the text begins inside of it
};

/// A language of texts. Immutable and cheap to copy.
class Grammar {
 public:
  /// Is this text one of the language?
  bool matches(std::string_view text) const;
  /// May text that begins like this become one of the language?
  bool begins(std::string_view text) const;
  /// For SamplerOptions::constraint: tokens whose bytes continue a text of the language. Masks that were computed once
  /// are shared by all clones.
  std::shared_ptr<const TokenConstraint> constraint(const TokenTrie& tokens) const;
  /// The same for parts of a text. The text is free until a trigger comes. What begins with the trigger is a text of
  /// the language, and what follows it is free again; with `once` the text ends there. Nothing triggers in
  /// `untriggered` at the beginning; both its texts are "" where there is none. Throws Error{bad_input} for a trigger
  /// that begins no text of the language.
  std::shared_ptr<const TokenConstraint> constraint(const TokenTrie& tokens, std::vector<Trigger> triggers, bool once,
                                                    const Untriggered& untriggered = {}) const;

  /// Made by parse_gbnf() and json_schema_grammar().
  explicit Grammar(std::shared_ptr<const grammar::Automaton> automaton) : automaton_(std::move(automaton)) {}

 private:
  std::shared_ptr<const grammar::Automaton> automaton_;
};

/// What all grammars that are compiled with it may cost together. It counts steps, not seconds, so the same grammars
/// are refused on every machine. One thread at a time.
class GrammarBudget {
 public:
  /// Throws Error{bad_input} "WHAT: ..." where fewer steps are left. A step is about ten nanoseconds, or sixteen bytes.
  void spend(size_t steps, std::string_view what) {
    if (steps > left_) refuse(what);
    left_ -= steps;
  }
  size_t left() const { return left_; }
  /// Was something refused?
  bool exceeded() const { return exceeded_; }

 private:
  [[noreturn]] void refuse(std::string_view what);
  size_t left_ = 40'000'000;
  bool exceeded_ = false;
};

/// A rule of a grammar that is a JSON Schema.
struct SchemaRule {
  std::string rule;
  std::shared_ptr<const nlohmann::ordered_json> schema;
  std::string name;                          ///< for messages
  std::optional<std::string> property = {};  ///< only the values of this property of the schema
};

/// A grammar in GBNF, as llama.cpp's guide documents it; the rule named by `root` is the complete text. Throws
/// Error{bad_input} "NAME: ..." with line and column for what is no grammar, for left recursion, for rules that no text
/// can complete, for grammars that are too large, and for tokens (`<think>`), which are not supported. A rule of
/// `schemas` is the JSON texts of its schema, as json_schema_grammar(). `budget` bounds what several grammars cost
/// together; nullptr: each has one of its own.
Grammar parse_gbnf(std::string_view text, const std::string& name = "grammar",
                   const std::vector<SchemaRule>& schemas = {}, const std::string& root = "root",
                   GrammarBudget* budget = nullptr);

/// The JSON texts of a schema (docs/structured-output.md lists the keywords). All of them are valid; where a schema
/// leaves the form open, one is chosen: properties in the order of the schema, and no others unless
/// additionalProperties says so. Throws Error{bad_input} "NAME: ..." with keyword and JSON pointer for what cannot be
/// expressed, for a schema that is too large, and for one that no text satisfies. `budget` as parse_gbnf()'s.
Grammar json_schema_grammar(const nlohmann::ordered_json& schema, const std::string& name = "schema",
                            GrammarBudget* budget = nullptr);

/// Any JSON object, as OpenAI's response_format json_object asks for.
Grammar json_object_grammar();

/// Memory that a constraint of a Grammar shares with its clones, about: it grows with the masks that texts need. 0 for
/// another kind of constraint.
size_t bytes_of(const TokenConstraint& constraint);

}  // namespace toy
