// The angles of rotary positions as a value of a graph.
#pragma once

#include "toy/graph/graph.h"
#include "toy/models/rope.h"

namespace toy {

/// Cosines and sines of the angles of positions 0..positions-1, for heads of `width`: [positions,Q,2] for the Q pairs
/// that turn.
Value rope_table(Graph& graph, const RopeSpec& spec, int64_t width, int64_t positions, const std::string& name);

}  // namespace toy
