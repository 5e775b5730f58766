// A graph as text for people, as JSON for programs, as mermaid for documents.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "toy/graph/cost.h"

namespace toy {

/// One line a node: `%12 = rms_norm(%11, blk.0.attn_norm.weight) {eps=1e-05} : f32[<=256,576]  # blk.0`. With costs,
/// each op's stand behind its types: `[590 kFLOP, 1.18 MB]`, or `[unused]`.
std::string to_text(const Graph& graph, const GraphCost* costs = nullptr);
/// {"rows": [...], "nodes": [{"id", "kind", "op", "name", "layer", "inputs", "outputs", "attrs", "backward"}]}. With
/// costs, ops also have "phase", "used" and "cost", and "cost" at the top has those of the phases and the total.
nlohmann::ordered_json to_json(const Graph& graph, const GraphCost* costs = nullptr);
/// {"flops", "bytes", "transcendentals"}
nlohmann::ordered_json to_json(const Cost& cost);
/// A flowchart with one box per op; backward nodes are left out unless asked for.
std::string to_mermaid(const Graph& graph, bool with_backward = false);

}  // namespace toy
