// Graphs and the memory of plans as self-contained SVG.
#pragma once

#include <string>

#include "toy/graph/cost.h"
#include "toy/runtime/plan_profile.h"

namespace toy {

/// A column for each phase, a box for each layer, in it a row for each op that computes (type of the result, weight,
/// FLOPs) and what flows from row to row. Identical consecutive layers are drawn once.
std::string to_svg(const Graph& graph, const GraphCost& costs, const std::string& title);
/// The forward pass as a few boxes a layer: norms, mixers with their products side by side, ffns, residual connections.
std::string to_block_svg(const Graph& graph, const GraphCost& costs, const std::string& title);
/// Bytes in use against steps, coloured by phase, and the blocks of the peak.
std::string to_svg(const MemoryProfile& profile, const std::string& title);

}  // namespace toy
