#include "toy/graph/cost.h"

#include <fmt/format.h>

namespace toy {
namespace {

Cost cost_of_node(const Graph& graph, const Node& n) {
  std::vector<const TensorType*> in;
  for (const Value& v : n.inputs) in.push_back(v ? &graph.type(v) : nullptr);
  return n.op->cost_of({in, n.outputs, n.attrs});
}

// Three digits and a prefix of the decimal system.
std::string si(double v) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t i = 0;
  for (; v >= 999.5 && i + 1 < std::size(kPrefixes); ++i) v /= 1000;
  return fmt::format("{:.{}f} {}", v, i == 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2, kPrefixes[i]);
}

}  // namespace

GraphCost cost_of(const Graph& graph, std::span<const Value> roots) {
  GraphCost g;
  g.nodes.resize(graph.nodes().size());
  for (const Value& v : roots) g.nodes[size_t(v.node)].used = true;
  for (size_t id = g.nodes.size(); id-- > 0;)
    if (g.nodes[id].used)
      for (const Value& v : graph.node(int(id)).inputs)
        if (v) g.nodes[size_t(v.node)].used = true;
  for (const Node& n : graph.nodes()) {
    GraphCost::OfNode& mine = g.nodes[size_t(n.id)];
    if (!mine.used || n.kind != NodeKind::op) continue;
    mine.cost = cost_of_node(graph, n);
    g.phases[size_t(n.phase)] += mine.cost;
    g.total += mine.cost;
  }
  return g;
}

std::string to_text(const Cost& cost) {
  std::string s;
  const auto part = [&](double v, const char* unit) {
    if (v > 0) s += fmt::format("{}{}{}", s.empty() ? "" : ", ", si(v), unit);
  };
  part(cost.flops, "FLOP");
  part(cost.bytes, "B");
  part(cost.transcendentals, cost.transcendentals >= 999.5 ? " transcendentals" : "transcendentals");
  return s;
}

}  // namespace toy
