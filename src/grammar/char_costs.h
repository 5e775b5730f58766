// What work on automata of code points costs, in steps of a budget.
#pragma once

#include "grammar/char_automaton.h"
#include "toy/base/error.h"

namespace toy::grammar {

/// For a state, for an edge with its ranges, for two edges that are compared.
inline constexpr size_t kState = 20, kEdge = 16, kPair = 2;
inline size_t edge_cost(const CharSet& set) { return kEdge + set.size(); }

inline void check_size(size_t states, const std::string& name) {
  check(states <= kMaxCharStates,
        "{}: it needs more than {} states; use smaller counts and numbers, or a shorter pattern", name, kMaxCharStates);
}

}  // namespace toy::grammar
