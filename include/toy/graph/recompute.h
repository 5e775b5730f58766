// Less memory for more work: results of the forward pass that backward recomputes instead of keeping
// (gradient checkpointing, Chen et al. 2016).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toy/graph/graph.h"

namespace toy {

/// How much of a forward pass is not kept for backward. Its blocks are those of Graph::block(). No
/// choice changes a bit of any result.
struct Recompute {
  int64_t whole = 0;  ///< the first `whole` blocks keep only their input
  /// The next `light` blocks keep everything except what takes few operations per element from kept values: norms,
  /// activation functions, but not products.
  int64_t light = 0;
  bool none() const { return whole == 0 && light == 0; }
  friend bool operator==(const Recompute& a, const Recompute& b) = default;
};

/// By node id, for backward() on a graph with the same forward pass. `trained` has forward up to `loss` and a backward
/// that recomputes nothing, `roots` the wanted results: gradients, or the updates that take them.
std::vector<bool> recomputed_nodes(const Graph& trained, Value loss, std::span<const Value> roots,
                                   const Recompute& recompute);

}  // namespace toy
