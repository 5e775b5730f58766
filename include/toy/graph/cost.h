// What a graph costs: the work of each node, and of each phase: forward, backward, update.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "toy/graph/op_def.h"

namespace toy {

inline constexpr std::array kPhases{Phase::forward, Phase::backward, Phase::update};

/// What a graph costs, node by node and by phase.
struct GraphCost {
  /// What one node costs.
  struct OfNode {
    Cost cost;          ///< with the largest number of rows; nothing for leaves, views and unused nodes
    bool used = false;  ///< do the roots need it?
  };
  std::vector<OfNode> nodes;  ///< by id
  std::array<Cost, kPhases.size()> phases;
  Cost total;
};

/// Costs of what `roots` (outputs and updates) need. Every operand counts as read or written once by each op.
GraphCost cost_of(const Graph& graph, std::span<const Value> roots);

/// "1.23 GFLOP, 45.6 MB, 7.89 k transcendentals"; parts that are 0 are left out.
std::string to_text(const Cost& cost);

}  // namespace toy
