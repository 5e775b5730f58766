#include "toy/graph/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "toy/graph/op_def.h"

namespace toy {
namespace {

std::string attr_text(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, Shape>)
          return v.str();
        else if constexpr (std::is_same_v<T, double>)
          return fmt::format("{:g}", v);
        else
          return fmt::format("{}", v);
      },
      value);
}

std::string attrs_text(const Attrs& attrs) {
  std::string s;
  attrs.visit([&](const char* name, const AttrValue& v) {
    s += fmt::format("{}{}={}", s.empty() ? "" : ", ", name, attr_text(v));
  });
  return s.empty() ? s : " {" + s + "}";
}

nlohmann::ordered_json attr_json(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> nlohmann::ordered_json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, Shape>)
          return std::vector<int64_t>(v.begin(), v.end());
        else
          return v;
      },
      value);
}

std::string ref(const Graph& g, Value v) {
  if (!v) return "-";
  const Node& n = g.node(v);
  if (n.kind != NodeKind::op && !n.name.empty()) return n.name;
  return v.out == 0 ? fmt::format("%{}", v.node) : fmt::format("%{}.{}", v.node, v.out);
}

std::string_view kind_name(NodeKind k) {
  switch (k) {
    case NodeKind::op:
      return "op";
    case NodeKind::input:
      return "input";
    case NodeKind::param:
      return "param";
    case NodeKind::constant:
      return "constant";
  }
  return "?";
}

std::string types_text(const Node& n) {
  std::string s;
  for (const TensorType& t : n.outputs) s += (s.empty() ? "" : ", ") + t.str();
  return s;
}

// The layer, and the phase where it is not forward.
std::string place_of(const Node& n) {
  if (n.phase == Phase::forward) return n.layer.path;
  return fmt::format("{}{}({})", n.layer.path, n.layer.path.empty() ? "" : " ", name_of(n.phase));
}

std::string cost_text(const GraphCost::OfNode& c) {
  const std::string text = c.used ? to_text(c.cost) : "unused";
  return text.empty() ? text : "  [" + text + "]";
}

}  // namespace

std::string to_text(const Graph& graph, const GraphCost* costs) {
  std::string s;
  for (const Node& n : graph.nodes()) {
    std::string line;
    if (n.kind != NodeKind::op) {
      line = fmt::format("%{} = {} {} : {}", n.id, kind_name(n.kind), n.name, types_text(n));
    } else {
      std::string in;
      for (const Value& v : n.inputs) in += (in.empty() ? "" : ", ") + ref(graph, v);
      line = fmt::format("%{} = {}({}){} : {}", n.id, n.op->name(), in, attrs_text(n.attrs), types_text(n));
      if (costs) line += cost_text(costs->nodes[size_t(n.id)]);
    }
    if (const std::string comment = place_of(n); !comment.empty()) line += "  # " + comment;
    s += line + "\n";
  }
  return s;
}

nlohmann::ordered_json to_json(const Cost& cost) {
  return {{"flops", cost.flops}, {"bytes", cost.bytes}, {"transcendentals", cost.transcendentals}};
}

nlohmann::ordered_json to_json(const Graph& graph, const GraphCost* costs) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array(), nodes = nlohmann::ordered_json::array();
  for (size_t i = 1; i < graph.rows().size(); ++i)
    rows.push_back({{"name", graph.rows()[i].name}, {"max", graph.rows()[i].max}});
  for (const Node& n : graph.nodes()) {
    nlohmann::ordered_json j{{"id", n.id}, {"kind", kind_name(n.kind)}};
    if (n.op) j["op"] = n.op->name();
    if (!n.name.empty()) j["name"] = n.name;
    if (!n.layer.path.empty()) j["layer"] = n.layer.path;
    if (n.phase == Phase::backward) j["backward"] = true;
    for (const Value& v : n.inputs)
      j["inputs"].push_back(v ? nlohmann::ordered_json{v.node, v.out} : nlohmann::ordered_json(nullptr));
    for (const TensorType& t : n.outputs)
      j["outputs"].push_back({{"dtype", name_of(t.dtype)},
                              {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.end())},
                              {"rows", t.rows ? nlohmann::ordered_json(graph.rows()[size_t(t.rows)].name) : nullptr}});
    n.attrs.visit([&](const char* name, const AttrValue& v) { j["attrs"][name] = attr_json(v); });
    if (costs && n.op) {
      const GraphCost::OfNode& c = costs->nodes[size_t(n.id)];
      j.update({{"phase", name_of(n.phase)}, {"used", c.used}, {"cost", to_json(c.cost)}});
    }
    nodes.push_back(std::move(j));
  }
  nlohmann::ordered_json all{{"rows", rows}, {"nodes", nodes}};
  if (costs) {
    for (const Phase p : kPhases) all["cost"][std::string(name_of(p))] = to_json(costs->phases[size_t(p)]);
    all["cost"]["total"] = to_json(costs->total);
  }
  return all;
}

namespace {

std::string mermaid_box(const Node& n) {
  const bool op = n.kind == NodeKind::op;
  return fmt::format("n{}{}\"{}<br/>{}\"{}\n", n.id, op ? "[" : "([", op ? n.op->name() : n.name, types_text(n),
                     op ? "]" : "])");
}

// The ops of each phase in a subgraph of its own, then what connects them.
std::string mermaid_phases(const Graph& graph, const GraphCost& costs) {
  std::string s = "flowchart TD\n", edges;
  const auto used = [&](const Node& n) { return costs.nodes[size_t(n.id)].used; };
  for (const Node& n : graph.nodes())
    if (used(n) && n.kind != NodeKind::op) s += "  " + mermaid_box(n);
  for (const Phase phase : kPhases) {
    std::string boxes;
    for (const Node& n : graph.nodes())
      if (used(n) && n.kind == NodeKind::op && n.phase == phase) {
        boxes += "    " + mermaid_box(n);
        for (const Value& v : n.inputs)
          if (v) edges += fmt::format("  n{} --> n{}\n", v.node, n.id);
      }
    if (!boxes.empty()) s += fmt::format("  subgraph {}\n{}  end\n", name_of(phase), boxes);
  }
  return s + edges;
}

}  // namespace

std::string to_mermaid(const Graph& graph, const GraphCost* costs) {
  if (costs) return mermaid_phases(graph, *costs);
  std::string s = "flowchart TD\n";
  for (const Node& n : graph.nodes()) {
    if (n.phase != Phase::forward) continue;
    s += "  " + mermaid_box(n);
    for (const Value& v : n.inputs)
      if (v && graph.node(v).phase == Phase::forward) s += fmt::format("  n{} --> n{}\n", v.node, n.id);
  }
  return s;
}

}  // namespace toy
