#include "runtime/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "toy/backend/fused.h"
#include "toy/graph/verify.h"

namespace toy {
namespace {

const OpDef& fused_def() {
  static const OpDef def{.signature = "fused_elementwise(xs...:[...]) -> y:[...]", .cost = [](const CostQuery& q) {
                           const FusedAttrs& a = q.attrs.as<FusedAttrs>();
                           return Cost{.flops = a.flops, .transcendentals = a.transcendentals};
                         }};
  return def;
}

// Ops that run as one. Only the last one's result is used outside.
struct Group {
  std::vector<int> nodes;     // ids, ascending
  bool reads_old = false;     // a parameter that the graph updates
  bool after_update = false;  // something that an update made
  bool has(int id) const { return std::binary_search(nodes.begin(), nodes.end(), id); }
};

class Fuser {
 public:
  Fuser(Lowered from, const Device& device, const PlanOptions& options) : from_(std::move(from)), graph_(*from_.graph) {
    const std::vector<Value> roots = from_.roots();
    wanted_.insert(roots.begin(), roots.end());
    find_kernels(device, options, roots);
    find_updates();
    for (const Node& n : graph_.nodes())
      for (const Value& v : n.inputs)
        if (v) consumers_[v].insert(n.id);
  }

  Lowered run() {
    group_of_.assign(graph_.nodes().size(), -1);
    for (const Node& n : graph_.nodes())
      if (kernels_[size_t(n.id)]) grow(n.id);
    return rebuild();
  }

 private:
  void find_kernels(const Device& device, const PlanOptions& options, const std::vector<Value>& roots) {
    const auto used = used_outputs(graph_, roots);
    kernels_.resize(graph_.nodes().size());
    for (const Node& n : graph_.nodes()) {
      if (n.kind != NodeKind::op || n.op->view || n.outputs.size() != 1 || n.inputs.empty()) continue;
      if (n.inputs.size() > FusedAttrs::kMaxOperands) continue;
      if (std::any_of(n.inputs.begin(), n.inputs.end(), [](const Value& v) { return !v; })) continue;
      const KernelRecord* k = find_kernel(device, graph_, n, used[size_t(n.id)], options);
      if (k && k->elementwise >= 0) kernels_[size_t(n.id)] = k;
    }
  }

  void find_updates() {
    const std::map<Value, int> updated = updated_parameters(graph_);
    late_.resize(graph_.nodes().size());
    reads_old_.resize(graph_.nodes().size());
    for (const Node& n : graph_.nodes()) {
      late_[size_t(n.id)] = n.op && n.op->updates_in_place();
      for (const Value& v : n.inputs) {
        if (!v) continue;
        if (late_[size_t(v.node)]) late_[size_t(n.id)] = true;
        if (updated.count(seen_parameter(graph_, v))) reads_old_[size_t(n.id)] = true;
      }
    }
  }

  // A group of one, which takes in the groups of its operands as long as one fits.
  void grow(int id) {
    group_of_[size_t(id)] = int(groups_.size());
    groups_.push_back({{id}, reads_old_[size_t(id)], late_[size_t(id)]});
    Group& mine = groups_.back();
    for (bool grown = true; grown;) {
      grown = false;
      for (const Value& v : outside(mine)) {
        if (!joins(v, mine, id)) continue;
        const auto merged = merge(mine, groups_[size_t(group_of_[size_t(v.node)])]);
        if (!merged) continue;
        mine = *merged;
        for (const int n : mine.nodes) group_of_[size_t(n)] = group_of_[size_t(id)];
        grown = true;
        break;
      }
    }
  }

  // Is v, an operand of the group that ends in `sink`, an elementwise result that nobody else looks at?
  bool joins(Value v, const Group& group, int sink) const {
    const Node &n = graph_.node(v), &last = graph_.node(sink);
    if (!kernels_[size_t(v.node)] || wanted_.count(v)) return false;
    const TensorType &mine = n.outputs[0], &theirs = last.outputs[0];
    if (mine.shape != theirs.shape || mine.rows != theirs.rows || n.phase != last.phase) return false;
    const std::set<int>& users = consumers_.at(v);
    return std::all_of(users.begin(), users.end(), [&](int u) { return group.has(u); });
  }

  // Not if it is too long, and not if it would read a parameter both before and after its update.
  std::optional<Group> merge(const Group& a, const Group& b) const {
    Group m{{}, a.reads_old || b.reads_old, a.after_update || b.after_update};
    std::set_union(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), std::back_inserter(m.nodes));
    if (m.nodes.size() > FusedAttrs::kMaxSteps || outside(m).size() > FusedAttrs::kMaxInputs) return std::nullopt;
    if (m.reads_old && m.after_update) return std::nullopt;
    return m;
  }

  // Operands that the group does not make, in the order of their first use.
  std::vector<Value> outside(const Group& group) const {
    std::vector<Value> list;
    for (const int id : group.nodes)
      for (const Value& v : graph_.node(id).inputs)
        if (!group.has(v.node) && std::find(list.begin(), list.end(), v) == list.end()) list.push_back(v);
    return list;
  }

  // ---- the new graph

  Lowered rebuild() const {
    return rewrite(from_, [&](const Node& n) -> std::optional<Node> {
      const int g = group_of_[size_t(n.id)];
      if (g < 0 || groups_[size_t(g)].nodes.size() == 1) return n;
      if (groups_[size_t(g)].nodes.back() != n.id) return std::nullopt;
      return fused_node(groups_[size_t(g)]);
    });
  }

  Node fused_node(const Group& group) const {
    Node result = graph_.node(group.nodes.back());
    const std::vector<Value> inputs = outside(group);
    std::map<int, int> last_use, slot_of;  // by id
    for (const int id : group.nodes)
      for (const Value& v : graph_.node(id).inputs)
        if (group.has(v.node)) last_use[v.node] = id;
    FusedAttrs a;
    std::vector<bool> taken;
    for (const int id : group.nodes) {
      const Node& n = graph_.node(id);
      FusedStep s{kernels_[size_t(id)]->elementwise, n.attrs, {}, -1};
      for (const Value& v : n.inputs)
        s.in.push_back(group.has(v.node) ? ~slot_of.at(v.node)
                                         : int(std::find(inputs.begin(), inputs.end(), v) - inputs.begin()));
      if (id != group.nodes.back()) {
        const size_t slot = size_t(std::find(taken.begin(), taken.end(), false) - taken.begin());
        if (slot == taken.size()) taken.push_back(false);
        taken[slot] = true;
        s.out = slot_of[id] = int(slot);
      }
      for (const Value& v : n.inputs)
        if (group.has(v.node) && last_use.at(v.node) == id) taken[size_t(slot_of.at(v.node))] = false;
      describe(n, s, a);
      a.steps.push_back(std::move(s));
    }
    a.slots = int(taken.size());
    result.op = &fused_def();
    result.attrs = a;
    result.inputs = inputs;
    return result;
  }

  void describe(const Node& n, const FusedStep& s, FusedAttrs& a) const {
    std::string in;
    for (const int i : s.in) in += fmt::format("{}{}{}", in.empty() ? "" : ", ", i < 0 ? 's' : 'x', i < 0 ? ~i : i);
    n.attrs.visit([&](const char* name, const AttrValue& v) {
      in += fmt::format(", {}={}", name, std::visit([](const auto& x) { return text(x); }, v));
    });
    a.ops += (a.ops.empty() ? "" : ", ") + n.op->name();
    a.program += fmt::format("{}{} = {}({})", a.program.empty() ? "" : "; ",
                             s.out < 0 ? std::string("y") : fmt::format("s{}", s.out), n.op->name(), in);
    const Cost c = cost_of_op(graph_, n);
    a.flops += c.flops;
    a.transcendentals += c.transcendentals;
  }
  static std::string text(const Shape& s) { return s.str(); }
  template <class T>
  static std::string text(const T& v) {
    return fmt::format("{}", v);
  }

  Lowered from_;
  const Graph& graph_;
  std::vector<const KernelRecord*> kernels_;  // of nodes that may be fused
  std::vector<bool> late_, reads_old_;
  std::map<Value, std::set<int>> consumers_;
  std::set<Value> wanted_;
  std::vector<Group> groups_;
  std::vector<int> group_of_;
};

}  // namespace

Lowered fuse(Lowered lowered, const Device& device, const PlanOptions& options) {
  const auto kernels = device.kernels();
  const auto is_fused = [](const KernelRecord& k) { return k.op == kFusedElementwise; };
  if (std::none_of(kernels.begin(), kernels.end(), is_fused)) return lowered;
  return Fuser(std::move(lowered), device, options).run();
}

std::string step_name(const Node& node) {
  return node.op == &fused_def() ? "fused(" + node.attrs.as<FusedAttrs>().ops + ")" : node.op->name();
}

}  // namespace toy
