// What a text may be: a grammar in GBNF or a JSON Schema, and the tokens that may continue a text of it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

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
  /// Takes some ten milliseconds for 50,000 tokens.
  explicit TokenTrie(const Tokenizer& tokenizer);
  const std::shared_ptr<const grammar::Trie>& shared() const { return trie_; }

 private:
  std::shared_ptr<const grammar::Trie> trie_;
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

  /// Made by parse_gbnf() and json_schema_grammar().
  explicit Grammar(std::shared_ptr<const grammar::Automaton> automaton) : automaton_(std::move(automaton)) {}

 private:
  std::shared_ptr<const grammar::Automaton> automaton_;
};

/// A grammar in GBNF, as llama.cpp's guide documents it; the rule `root` is the complete text. Throws Error{bad_input}
/// "NAME: ..." with line and column for what is no grammar, for left recursion, for rules that no text can complete,
/// for grammars that are too large, and for tokens (`<think>`), which are not supported.
Grammar parse_gbnf(std::string_view text, const std::string& name = "grammar");

/// The JSON texts of a schema (docs/structured-output.md lists the keywords). All of them are valid; where a schema
/// leaves the form open, one is chosen: properties in the order of the schema, and no others unless
/// additionalProperties says so. Throws Error{bad_input} "NAME: ..." with keyword and JSON pointer for what cannot be
/// expressed, and for a schema that no text satisfies.
Grammar json_schema_grammar(const nlohmann::ordered_json& schema, const std::string& name = "schema");

/// Any JSON object, as OpenAI's response_format json_object asks for.
Grammar json_object_grammar();

}  // namespace toy
