// A graph in which some heads of attention give nothing.
#include <map>

#include "look/parts.h"
#include "toy/base/error.h"
#include "toy/graph/op_def.h"
#include "toy/ops/ops.h"

namespace toy {

HeadId parse_head(std::string_view text) {
  const size_t dot = text.find('.');
  HeadId id;
  const auto number = [](std::string_view part, int64_t& to) {
    return !part.empty() && read_number(part, at_least(0), to).empty();
  };
  check(dot != text.npos && number(text.substr(0, dot), id.layer) && number(text.substr(dot + 1), id.head),
        "head '{}'; use LAYER.HEAD, counted from 0, such as 3.1", text);
  return id;
}

namespace looking {
namespace {

// 1 for every head of the op, 0 for those that stand for the unwanted ones: [1,H,1].
Value kept(Graph& g, const LayerSpec& layer, int64_t op_heads, const std::vector<int64_t>& unwanted) {
  const std::vector<int64_t> of = query_heads(layer, op_heads);
  std::vector<double> keep(size_t(op_heads), 1);
  for (const int64_t h : unwanted) {
    keep[size_t(of[size_t(h)])] = 0;
    // A map of differential attention, once for each half of its values.
    if (int64_t(of.size()) < op_heads) keep[size_t(of[size_t(h)] + layer.heads / layer.kv_heads)] = 0;
  }
  return g.constant({DType::f32, {1, op_heads, 1}, 0}, std::move(keep));
}

}  // namespace

std::unique_ptr<Graph> without_heads(const Graph& from, const ModelSpec& spec, std::span<const HeadId> heads) {
  std::map<int, std::vector<int64_t>> unwanted;
  for (const HeadId& h : heads) {
    check(h.layer < int64_t(spec.layers.size()), "ablate: there is no layer {}; use 0 to {}", h.layer,
          spec.layers.size() - 1);
    unwanted[int(h.layer)].push_back(h.head);
  }
  auto to = std::make_unique<Graph>();
  std::vector<int> ids;
  std::map<Value, Value> instead;
  std::map<int, int64_t> found;
  for (const Node& n : from.nodes()) {
    std::vector<Value> inputs;
    for (const Value v : n.inputs) {
      const auto other = instead.find(v);
      inputs.push_back(!v                       ? Value()
                       : other != instead.end() ? other->second
                                                : Value{to.get(), ids[size_t(v.node)], v.out});
    }
    ids.push_back(to->append_copy(n, std::move(inputs)));
    const auto its = unwanted.find(n.layer.block);
    if (n.kind != NodeKind::op || n.op->name() != "attention" || its == unwanted.end()) continue;
    const LayerSpec& layer = spec.layers[size_t(n.layer.block)];
    const int64_t op_heads = n.inputs[0].dim(1), most = int64_t(query_heads(layer, op_heads).size());
    for (const int64_t h : its->second)
      check(h < most, "ablate: layer {} has no head {}; use 0 to {}", n.layer.block, h, most - 1);
    found[n.layer.block] = most;
    const auto scope = to->in(n.layer, n.phase);
    instead[Value{const_cast<Graph*>(&from), n.id, 0}] =
        Value{to.get(), ids.back(), 0} * kept(*to, layer, op_heads, its->second);
  }
  for (const auto& [layer, list] : unwanted)
    check(found.contains(layer), "ablate: layer {} has no attention; choose another one", layer);
  return to;
}

}  // namespace looking
}  // namespace toy
