// A grammar as a pushdown automaton on bytes. Every rule is a nondeterministic automaton some of whose edges call
// another rule; what a call returns to is on a stack.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "grammar/expr.h"
#include "toy/grammar/grammar.h"

namespace toy::grammar {

/// Bytes lo to hi lead to a state.
struct ByteEdge {
  uint8_t lo = 0, hi = 0;
  int32_t to = 0;
};

/// A state of one rule.
struct NfaState {
  std::vector<ByteEdge> bytes;
  std::vector<int32_t> free;    ///< states reached without a byte
  int32_t call = -1, ret = -1;  ///< a rule to be matched here, and the state after it
  bool accept = false;          ///< the rule may end here
  bool alive = false;           ///< some text leads from here to the end of the rule
  bool nullable = false;        ///< the rule may end here or without another byte
  bool tail = false;            ///< nothing but the end of the rule follows
};

/// The compiled form. Immutable.
struct Automaton {
  std::vector<NfaState> states;
  std::vector<int32_t> starts;             ///< of each rule
  std::vector<std::string> names;          ///< of each rule
  std::vector<int32_t> order;              ///< of each rule: callers without a byte between come first
  std::array<uint8_t, 256> class_of = {};  ///< bytes of a class lead to the same states everywhere
  std::vector<uint8_t> byte_of;            ///< one byte of each class
};

/// Most states of a grammar: about 40 MB.
inline constexpr size_t kMaxStates = 200'000;

/// Compiles rules; the first is the complete text. Throws Error{bad_input} "NAME: ..." for left recursion, a grammar
/// of more than kMaxStates states or beyond the budget, and one that no text satisfies.
Automaton compile(const std::vector<Rule>& rules, const std::string& name, GrammarBudget& budget);

}  // namespace toy::grammar
