#include "runtime/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "toy/graph/verify.h"

namespace toy {
namespace {

bool computes_in(const Device& device, const KernelQuery& q, const std::vector<int>& rounds) {
  for (const OperandDesc& d : q.in)
    if (d.present && is_float(d.dtype) && d.dtype != device.compute()) return false;
  for (size_t o = 0; o < q.out.size(); ++o) {
    const OperandDesc& d = q.out[o];
    const bool rounded = d.dtype == DType::bf16 && std::ranges::count(rounds, int(o)) > 0;
    if (d.present && is_float(d.dtype) && d.dtype != device.compute() && !rounded) return false;
  }
  return true;
}

std::vector<bool> reachable(const Graph& graph, std::span<const Value> roots) {
  std::vector<bool> live(graph.nodes().size());
  for (const Value& v : roots) live[size_t(v.node)] = true;
  for (size_t id = live.size(); id-- > 0;)
    if (live[id])
      for (const Value& v : graph.node(int(id)).inputs)
        if (v) live[size_t(v.node)] = true;
  return live;
}

// One pass: copies live nodes, each either as it is or as its decomposition.
class Pass {
 public:
  Pass(const Graph& from, std::span<const Value> roots, const Device& device, const PlanOptions& options,
       std::set<std::string>& decomposed)
      : from_(from), device_(device), options_(options), decomposed_(decomposed) {
    live_ = reachable(from, roots);
    used_ = used_outputs(from, roots);
    to_ = std::make_unique<Graph>();
    for (size_t i = 1; i < from.rows().size(); ++i) to_->declare_rows(from.rows()[i].name, from.rows()[i].max);
  }

  std::unique_ptr<Graph> run() {
    map_.resize(from_.nodes().size());
    for (const Node& n : from_.nodes())
      if (live_[size_t(n.id)]) copy(n);
    return std::move(to_);
  }
  bool changed() const { return changed_; }
  Value mapped(Value v) const { return v ? map_[size_t(v.node)][size_t(v.out)] : Value{}; }

 private:
  // With the types of the operands, which are what most devices lack a kernel for.
  std::string lacks(const Node& n) const {
    const std::vector<OperandSpec>& names = n.op->signature.inputs();
    std::vector<std::string> types;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i])
        types.push_back(
            fmt::format("{} {}", names[std::min(i, names.size() - 1)].name, name_of(n.inputs[i].type().dtype)));
    return fmt::format("{}: device '{}' has no kernel for these operands: {}", where(n), device_.name(),
                       fmt::join(types, ", "));
  }
  void copy(const Node& n) {
    std::vector<Value> inputs;
    for (const Value& v : n.inputs) inputs.push_back(mapped(v));
    auto& result = map_[size_t(n.id)];
    if (n.kind != NodeKind::op || n.op->view || find_kernel(device_, from_, n, used_[size_t(n.id)], options_)) {
      const int id = to_->append_copy(n, inputs);
      for (size_t o = 0; o < n.outputs.size(); ++o) result.push_back({to_.get(), id, int(o)});
      return;
    }
    check(n.op->decompose && !n.op->updates_in_place(), "{}", lacks(n));
    check(!options_.strict, "{}: device '{}' has no kernel for it, and --strict forbids its decomposition", where(n),
          device_.name());
    const auto scope = to_->in(n.layer, n.phase);
    result = n.op->decompose(*to_, inputs, n.attrs);
    check(!result.empty(), "{}", lacks(n));
    result.resize(n.outputs.size());
    for (size_t o = 0; o < result.size(); ++o)
      check(!used_[size_t(n.id)][o] || result[o], "{}: the decomposition does not give output {}", where(n),
            n.op->signature.outputs()[o].name);
    decomposed_.insert(n.op->name());
    changed_ = true;
  }

  const Graph& from_;
  const Device& device_;
  const PlanOptions& options_;
  std::set<std::string>& decomposed_;
  std::unique_ptr<Graph> to_;
  std::vector<bool> live_;
  std::vector<std::vector<bool>> used_;
  std::vector<std::vector<Value>> map_;
  bool changed_ = false;
};

}  // namespace

std::vector<Value> Lowered::roots() const {
  std::vector<Value> both = outputs;
  both.insert(both.end(), updates.begin(), updates.end());
  return both;
}

Cost cost_of_op(const Graph& graph, const Node& node) {
  std::vector<const TensorType*> types;
  for (const Value& v : node.inputs) types.push_back(v ? &graph.type(v) : nullptr);
  return node.op->cost_of({types, node.outputs, node.attrs});
}

std::map<Value, int> updated_parameters(const Graph& graph) {
  std::map<Value, int> updated;
  for (const Node& n : graph.nodes())
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i] && n.op->signature.input_spec(i).donated) updated[seen_parameter(graph, n.inputs[i])] = n.id;
  return updated;
}

OperandDescs::OperandDescs(const Device& device, const Graph& graph, const Node& node, const std::vector<bool>& used) {
  const auto desc = [&](const TensorType& t) { return OperandDesc{true, device.storage(t.dtype), t.shape}; };
  for (const Value& v : node.inputs) in.push_back(v ? desc(graph.type(v)) : OperandDesc{});
  for (size_t o = 0; o < node.outputs.size(); ++o) out.push_back(used[o] ? desc(node.outputs[o]) : OperandDesc{});
}

std::vector<std::vector<bool>> used_outputs(const Graph& graph, std::span<const Value> roots) {
  const std::vector<bool> live = reachable(graph, roots);
  std::vector<std::vector<bool>> used;
  for (const Node& n : graph.nodes()) {
    used.emplace_back(n.outputs.size());
    if (n.kind != NodeKind::op) continue;
    for (size_t o = 0; o < n.outputs.size(); ++o)  // only outputs marked `?` may be left out
      used.back()[o] = !n.op->signature.outputs()[o].optional;
  }
  const auto mark = [&](Value v) { used[size_t(v.node)][size_t(v.out)] = true; };
  for (const Value& v : roots) mark(v);
  for (const Node& n : graph.nodes())
    if (live[size_t(n.id)])
      for (const Value& v : n.inputs)
        if (v) mark(v);
  return used;
}

const KernelRecord* find_kernel(const Device& device, const Graph& graph, const Node& node,
                                const std::vector<bool>& used, const PlanOptions& options) {
  return find_kernel(device, node, OperandDescs(device, graph, node, used), options);
}

const KernelRecord* find_kernel(const Device& device, const Node& node, const OperandDescs& operands,
                                const PlanOptions& options) {
  const KernelQuery query{operands.in, operands.out, node.attrs, options.threads, options.products};
  for (const KernelRecord& k : device.kernels())
    if (k.op == node.op->name() && (k.accepts ? k.accepts(query) : computes_in(device, query, k.rounds))) return &k;
  return nullptr;
}

Lowered rewrite(const Lowered& from, const std::function<std::optional<Node>(const Node& n)>& node_for) {
  const Graph& graph = *from.graph;
  Lowered to{std::make_unique<Graph>(), {}, {}};
  for (size_t i = 1; i < graph.rows().size(); ++i) to.graph->declare_rows(graph.rows()[i].name, graph.rows()[i].max);
  std::vector<int> map(graph.nodes().size(), -1);
  const auto mapped = [&](Value v) { return v ? Value{to.graph.get(), map[size_t(v.node)], v.out} : Value{}; };
  for (const Node& n : graph.nodes()) {
    const std::optional<Node> copied = node_for(n);
    if (!copied) continue;
    std::vector<Value> inputs;
    for (const Value& v : copied->inputs) inputs.push_back(mapped(v));
    map[size_t(n.id)] = to.graph->append_copy(*copied, inputs);
  }
  for (const Value& v : from.outputs) to.outputs.push_back(mapped(v));
  for (const Value& v : from.updates) to.updates.push_back(mapped(v));
  return to;
}

Lowered lower(const Graph& graph, std::span<const Value> outputs, std::span<const Value> updates, const Device& device,
              const PlanOptions& options, std::vector<std::string>& notes) {
  Lowered now{nullptr, {outputs.begin(), outputs.end()}, {updates.begin(), updates.end()}};
  std::set<std::string> decomposed;
  const Graph* from = &graph;
  for (bool changed = true; changed;) {
    Pass pass(*from, now.roots(), device, options, decomposed);
    auto next = pass.run();
    for (Value& v : now.outputs) v = pass.mapped(v);
    for (Value& v : now.updates) v = pass.mapped(v);
    changed = pass.changed();
    now.graph = std::move(next);
    from = now.graph.get();
  }
  for (const std::string& op : decomposed)
    notes.push_back(fmt::format("{}: no kernel on '{}', running its decomposition", op, device.name()));
  return now;
}

}  // namespace toy
