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
};

/// Most states of an automaton, and ten times as many edges.
inline constexpr size_t kMaxCharStates = 50'000;

/// Who pays for an automaton. Each function below throws Error{bad_input} "NAME: ..." where it would be too large.
struct Payer {
  const std::string& name;
  GrammarBudget& budget;
  void spend(size_t steps) const { budget.spend(steps, name); }
};

/// The texts of an expression without rules.
CharAutomaton char_automaton(const Expr& e, const Payer& payer);
/// The texts that are in both.
CharAutomaton intersection(const CharAutomaton& a, const CharAutomaton& b, const Payer& payer);
/// Texts of `least` to `most` code points; most -1: any number above.
CharAutomaton length_automaton(int64_t least, int64_t most, const Payer& payer);
/// All texts but these.
CharAutomaton all_but(const std::vector<std::string>& texts, const Payer& payer);

}  // namespace toy::grammar
