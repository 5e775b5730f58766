#include "toy/graph/verify.h"

#include <fmt/format.h>

#include <map>

#include "toy/graph/op_def.h"

namespace toy {
namespace {

std::string where(const Node& n) { return n.layer.prefix() + n.op->name(); }

std::string what(const Graph& g, Value v) {
  const Node& n = g.node(v);
  return n.name.empty() ? fmt::format("%{}", v.node) : "'" + n.name + "'";
}

// Does node `id` depend on node `from` (ids only grow along edges)?
bool depends(const Graph& g, int id, int from) {
  std::vector<bool> reached(size_t(id) + 1);
  reached[size_t(from)] = true;
  for (int i = from + 1; i <= id; ++i)
    for (const Value& v : g.node(i).inputs)
      if (v && v.node >= from && reached[size_t(v.node)]) {
        reached[size_t(i)] = true;
        break;
      }
  return reached[size_t(id)];
}

}  // namespace

Value seen_parameter(const Graph& graph, Value v) {
  Value root = v;
  while (graph.node(root).op && graph.node(root).op->view) root = graph.node(root).inputs[0];
  const Node& n = graph.node(root);
  const bool lives_on = n.kind == NodeKind::param || (n.op && n.op->signature.donor_of(root.out) >= 0);
  return lives_on ? root : v;
}

void verify(const Graph& graph) {
  std::map<Value, int> updated_by;
  for (const Node& n : graph.nodes()) {
    if (n.kind != NodeKind::op) continue;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (!n.inputs[i] || !n.op->signature.input_spec(i).donated) continue;
      const auto [it, fresh] = updated_by.try_emplace(seen_parameter(graph, n.inputs[i]), n.id);
      check(fresh, "{}: {} is updated a second time (first by {}); update the new value instead", where(n),
            what(graph, n.inputs[i]), where(graph.node(it->second)));
      check(graph.node(n.inputs[i]).kind != NodeKind::constant && graph.node(n.inputs[i]).kind != NodeKind::input,
            "{}: {} cannot be updated: it is not a parameter", where(n), what(graph, n.inputs[i]));
    }
  }
  for (const Node& n : graph.nodes()) {
    if (n.kind != NodeKind::op) continue;
    for (const Value& v : n.inputs) {
      const auto it = v ? updated_by.find(seen_parameter(graph, v)) : updated_by.end();
      if (it == updated_by.end() || it->second == n.id || n.id < it->second) continue;
      check(!depends(graph, n.id, it->second), "{}: reads {} after {} has updated it; read the updated value instead",
            where(n), what(graph, v), where(graph.node(it->second)));
    }
  }
}

}  // namespace toy
