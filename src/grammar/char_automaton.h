// Automata on code points: sets of texts that can be intersected, for the strings of JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grammar/expr.h"

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

/// The texts of an expression without rules. `name` is for messages. Throws Error{bad_input} where it is too large.
CharAutomaton char_automaton(const Expr& e, const std::string& name);
/// The texts that are in both. Throws Error{bad_input} where the result is too large.
CharAutomaton intersection(const CharAutomaton& a, const CharAutomaton& b, const std::string& name);
/// Texts of `least` to `most` code points; most -1: any number above.
CharAutomaton length_automaton(int64_t least, int64_t most, const std::string& name);
/// All texts but these.
CharAutomaton all_but(const std::vector<std::string>& texts);

}  // namespace toy::grammar
