// A graph as text for people, as JSON for programs, as mermaid for documents.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "toy/graph/graph.h"

namespace toy {

/// One line a node: `%12 = rms_norm(%11, blk.0.attn_norm.weight) {eps=1e-05} : f32[<=256,576]  # blk.0`
std::string to_text(const Graph& graph);
/// {"rows": [...], "nodes": [{"id", "kind", "op", "name", "layer", "inputs", "outputs", "attrs", "backward"}]}
nlohmann::ordered_json to_json(const Graph& graph);
/// A flowchart with one box per op; backward nodes are left out unless asked for.
std::string to_mermaid(const Graph& graph, bool with_backward = false);

}  // namespace toy
