// A check that needs the complete graph: updates are linear.
#pragma once

#include <span>

#include "toy/graph/graph.h"

namespace toy {

/// Throws Error{bad_input}, naming layer, op and parameter, when a donated value is updated twice, or is read by a node
/// that depends on the update (the old content is gone by then), or is neither a parameter, a temporary that only the
/// update reads, nor an updated parameter.
void verify(const Graph& graph);

/// The parameter or updated parameter whose memory `v` looks at through views; `v` itself if there is none.
Value seen_parameter(const Graph& graph, Value v);

}  // namespace toy
