// Lowering: from a graph of ops to a graph of ops that the device has kernels for.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "toy/graph/op_def.h"
#include "toy/runtime/plan.h"

namespace toy {

struct Lowered {
  std::unique_ptr<Graph> graph;
  std::vector<Value> outputs, updates;
  /// Both.
  std::vector<Value> roots() const;
};

/// "blk.3: rms_norm".
inline std::string where(const Node& n) { return n.layer.prefix() + n.op->name(); }
/// What one op costs.
Cost cost_of_op(const Graph& graph, const Node& node);

/// The parameters that a graph updates, as they were before, and the node that does.
std::map<Value, int> updated_parameters(const Graph& graph);

/// What a device is asked about a node.
struct OperandDescs {
  std::vector<OperandDesc> in, out;
  /// `used`: which outputs are wanted.
  OperandDescs(const Device& device, const Graph& graph, const Node& node, const std::vector<bool>& used);
};

/// The record of `device` that can run this node, or nullptr. `used`: which outputs are wanted; options.threads is set.
const KernelRecord* find_kernel(const Device& device, const Graph& graph, const Node& node,
                                const std::vector<bool>& used, const PlanOptions& options);

/// The same for operands that are described.
const KernelRecord* find_kernel(const Device& device, const Node& node, const OperandDescs& operands,
                                const PlanOptions& options);

/// Which outputs of each node are consumed by a node or asked for.
std::vector<std::vector<bool>> used_outputs(const Graph& graph, std::span<const Value> roots);

/// A copy of `from` with node_for(n) in place of each node n, on operands of the old graph; nothing: it is left out.
Lowered rewrite(const Lowered& from, const std::function<std::optional<Node>(const Node& n)>& node_for);

/// Copies what the roots need, replacing ops without a kernel by their decomposition (or throws when options.strict).
Lowered lower(const Graph& graph, std::span<const Value> outputs, std::span<const Value> updates, const Device& device,
              const PlanOptions& options, std::vector<std::string>& notes);

}  // namespace toy
