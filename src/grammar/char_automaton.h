// Automata on code points: sets of texts that can be intersected, for the strings of JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grammar/expr.h"
#include "toy/grammar/grammar.h"

namespace toy::grammar {

/// One of these code points leads to a state.
struct CharEdge {
  CharSet set;
  int32_t to = 0;
};

/// State 0 is the first. There are no edges without a code point.
struct CharAutomaton {
  struct State {
    std::vector<CharEdge> edges;
    bool accept = false;
  };
  std::vector<State> states;
  /// No text at all?
  bool empty() const;
  bool matches(const std::vector<uint32_t>& text, const struct Payer& payer) const;
};

/// Most states of an automaton, and ten times as many edges.
inline constexpr size_t kMaxCharStates = 50'000;

/// Who pays for an automaton. Each function below throws Error{bad_input} "NAME: ..." where it would be too large.
struct Payer {
  const std::string& name;
  GrammarBudget& budget;
  void spend(size_t steps) const { budget.spend(steps, name); }
  void spend_bytes(size_t bytes) const { budget.spend_bytes(bytes, name); }
  void pay_edge(const CharSet& set) const {
    spend(16 + set.size());
    spend_bytes(sizeof(CharEdge) * 2 + set.size() * sizeof(CharRange));
  }
};

/// Without the states from which no text can end.
CharAutomaton trimmed(const CharAutomaton& a);
/// The same texts, with one state for those from which all is equal.
CharAutomaton merged(CharAutomaton a, const Payer& payer);
/// The texts of an expression without rules.
CharAutomaton char_automaton(const Expr& e, const Payer& payer);
/// The texts that are in both.
CharAutomaton intersection(const CharAutomaton& a, const CharAutomaton& b, const Payer& payer);
/// The texts that are in one of them.
CharAutomaton either(const CharAutomaton& a, const CharAutomaton& b, const Payer& payer);
/// All other texts.
CharAutomaton complement(const CharAutomaton& a, const Payer& payer);
/// Texts of `least` to `most` code points; most -1: any number above.
CharAutomaton length_automaton(int64_t least, int64_t most, const Payer& payer);
/// All texts but these.
CharAutomaton all_but(const std::vector<std::string>& texts, const Payer& payer);

/// Texts as they stand in a JSON string, of `least` to `most` code points; most -1: any number above.
Expr json_string_of(CharAutomaton a, int64_t least = 0, int64_t most = -1);

/// How many code points lie between each state and an end: a set of numbers that has all or none from `horizon` on.
struct Lengths {
  static constexpr int32_t kNone = INT32_MAX;
  int32_t horizon = 0;        ///< at least 1; 0: there is none, since the lengths have a period
  std::vector<int32_t> next;  ///< of each state and number below the horizon: the least of the set that is not below it
  std::vector<bool> endless;  ///< of each state: does the set have all numbers from the horizon on?
  /// The least of a state's set that is not below `from`.
  int32_t at_least(size_t state, int32_t from) const {
    if (from < horizon) return next[state * size_t(horizon) + size_t(from)];
    return endless[state] ? from : kNone;
  }
};
/// Of an automaton without states from which no text can end.
Lengths lengths_of(const CharAutomaton& a, const Payer& payer);

}  // namespace toy::grammar
