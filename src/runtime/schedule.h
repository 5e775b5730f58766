// The order in which a plan runs its nodes.
#pragma once

#include <vector>

#include "toy/graph/graph.h"

namespace toy {

/// Ids of all op nodes: in the order of their ids, but an update comes as soon as its operands are there and everything
/// else has read the old value, so that gradients die early. Throws Error{failure} when updates and readers wait for
/// each other.
std::vector<int> schedule(const Graph& graph);

}  // namespace toy
