// Less memory for more work: results of the forward pass that backward computes again in place of keeping them
// (gradient checkpointing, Chen et al. 2016).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toy/graph/graph.h"

namespace toy {

/// How much of a forward pass is not kept for backward. Its blocks are the numbered outermost layers ("blk.0"), in
/// their order. The bits of every result are the same whatever stands here.
struct Recompute {
  int64_t whole = 0;  ///< the first so many blocks keep what comes in and nothing else
  /// So many blocks behind these keep all but what a few operations an element make of what is kept: norms, activation
  /// functions, not products.
  int64_t light = 0;
  bool none() const { return whole == 0 && light == 0; }
  friend bool operator==(const Recompute& a, const Recompute& b) = default;
};

/// By node id, for backward() on a graph with the same forward pass. `trained` has forward up to `loss` and a backward
/// that computes nothing again, `roots` what is wanted of it: gradients, or the updates that take them.
std::vector<bool> recomputed_nodes(const Graph& trained, Value loss, std::span<const Value> roots,
                                   const Recompute& recompute);

}  // namespace toy
