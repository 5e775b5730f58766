#include "runtime/schedule.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include "runtime/lower.h"
#include "toy/graph/op_def.h"
#include "toy/graph/verify.h"

namespace toy {

std::vector<int> schedule(const Graph& graph) {
  const size_t n = graph.nodes().size();
  std::vector<std::set<int>> before(n);
  std::vector<std::vector<int>> after(n);
  std::vector<bool> mutates(n);
  const std::map<Value, int> updater = updated_parameters(graph);
  for (const auto& [parameter, id] : updater) mutates[size_t(id)] = true;
  for (const Node& node : graph.nodes())
    for (const Value& v : node.inputs) {
      if (!v) continue;
      if (graph.node(v).kind == NodeKind::op) before[size_t(node.id)].insert(v.node);
      const auto it = updater.find(seen_parameter(graph, v));
      if (it != updater.end() && it->second != node.id) before[size_t(it->second)].insert(node.id);
    }
  using Key = std::pair<int, int>;  // updates first, then by id
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  std::vector<size_t> left(n);
  std::vector<int> order;
  for (const Node& node : graph.nodes()) {
    if (node.kind != NodeKind::op) continue;
    left[size_t(node.id)] = before[size_t(node.id)].size();
    for (const int b : before[size_t(node.id)]) after[size_t(b)].push_back(node.id);
    if (left[size_t(node.id)] == 0) ready.push({mutates[size_t(node.id)] ? 0 : 1, node.id});
  }
  while (!ready.empty()) {
    const int id = ready.top().second;
    ready.pop();
    order.push_back(id);
    for (const int a : after[size_t(id)])
      if (--left[size_t(a)] == 0) ready.push({mutates[size_t(a)] ? 0 : 1, a});
  }
  for (const Node& node : graph.nodes())
    if (node.kind == NodeKind::op && left[size_t(node.id)] > 0)
      fail_internal("{}: an update and its readers wait for each other", node.op->name());
  return order;
}

}  // namespace toy
