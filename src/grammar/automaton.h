// A grammar as a pushdown automaton on bytes. Every rule is a nondeterministic automaton some of whose edges call
// another rule; what a call returns to is on a stack.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "grammar/char_automaton.h"
#include "toy/grammar/grammar.h"

namespace toy::grammar {

/// Bytes lo to hi lead to a state.
struct ByteEdge {
  uint8_t lo = 0, hi = 0;
  bool counts = false;  ///< it begins a character of a counted part
  int32_t to = 0;
};

inline constexpr int32_t kNoLimit = INT32_MAX;

/// A part of a rule whose characters are counted beside the states, which would otherwise be needed once per count.
struct Counter {
  int32_t least = 0, most = 0;  ///< characters at its end; most kNoLimit: any number
  Lengths lengths;              ///< from its states to its end
  int32_t farthest = 0;         ///< the most characters that an end needs
  bool open = false;            ///< may every text that is too short go on until it is not?
};

/// A state of one rule.
struct NfaState {
  std::vector<ByteEdge> bytes;
  std::vector<int32_t> free;      ///< states reached without a byte
  int32_t call = -1, ret = -1;    ///< a rule to be matched here, and the state after it
  bool accept = false;            ///< the rule may end here
  bool alive = false;             ///< some text leads from here to the end of the rule
  bool nullable = false;          ///< the rule may end here or without another byte
  bool tail = false;              ///< nothing but the end of the rule follows
  int32_t counter = -1, row = 0;  ///< the counted part that it is in, and its state of the lengths
};

/// The compiled form. Immutable.
struct Automaton {
  std::vector<NfaState> states;
  std::vector<Counter> counters;
  std::vector<int32_t> starts;             ///< of each rule
  std::vector<std::string> names;          ///< of each rule
  std::vector<int32_t> order;              ///< of each rule: callers without a byte between come first
  std::array<uint8_t, 256> class_of = {};  ///< bytes of a class lead to the same states everywhere
  std::vector<uint8_t> byte_of;            ///< one byte of each class

  /// May a counted part go on to its end from this state of it, after `count` characters?
  bool viable(const NfaState& s, int32_t count) const {
    const Counter& c = counters[size_t(s.counter)];
    const int32_t length = c.lengths.at_least(size_t(s.row), std::max(c.least - count, 0));
    return length != Lengths::kNone && (c.most == kNoLimit || length <= c.most - count);
  }
  /// The count after one more character; above what matters it stays.
  int32_t counted(const NfaState& s, int32_t count) const {
    const Counter& c = counters[size_t(s.counter)];
    return c.most == kNoLimit && count >= c.least ? c.least : count + 1;
  }
  /// May the way from one state to another be taken without a byte? Gives the count there.
  bool leads(const NfaState& from, const NfaState& to, int32_t& count) const {
    if (from.counter == to.counter) return true;
    if (from.counter >= 0) {
      const Counter& c = counters[size_t(from.counter)];
      if (count < c.least || count > c.most) return false;
    }
    count = 0;
    return to.counter < 0 || viable(to, 0);
  }
  /// A count from which the next `characters` lead to the same places as from this one; equal for most counts.
  int32_t zone(const NfaState& s, int32_t count, int32_t characters) const {
    if (s.counter < 0) return 0;
    const Counter& c = counters[size_t(s.counter)];
    const bool has_room = c.most == kNoLimit || int64_t(count) + characters + c.farthest <= c.most;
    if (has_room && count >= c.least) return c.least;
    return c.open && count + characters < c.least ? 0 : count;
  }
};

/// Most states of a grammar: about 40 MB.
inline constexpr size_t kMaxStates = 200'000;

/// Compiles rules; the first is the complete text. Throws Error{bad_input} "NAME: ..." for left recursion, a grammar
/// of more than kMaxStates states or beyond the budget, and one that no text satisfies.
Automaton compile(const std::vector<Rule>& rules, const std::string& name, GrammarBudget& budget);

}  // namespace toy::grammar
