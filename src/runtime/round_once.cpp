#include "runtime/round_once.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "toy/ops/ops.h"

namespace toy {
namespace {

constexpr std::array<std::string_view, 4> kLinearMaps = {"linear", "linear_grad_x", "linear_grad_w", "linear_xent"};
constexpr size_t kRounded = 2;  // their first operands

class Rounding {
 public:
  Rounding(Lowered from, const Device& device, const PlanOptions& options)
      : from_(std::move(from)), graph_(*from_.graph), device_(device), options_(options) {
    const std::vector<Value> roots = from_.roots();
    wanted_.insert(roots.begin(), roots.end());
    used_ = used_outputs(graph_, roots);
    for (const Node& n : graph_.nodes()) {
      rounds_.push_back(takes_bf16(n));
      for (size_t i = 0; i < n.inputs.size(); ++i)
        if (n.inputs[i]) readers_[n.inputs[i]].push_back({n.id, i});
    }
  }

  Lowered run() {
    if (std::none_of(rounds_.begin(), rounds_.end(), [](bool r) { return r; })) return std::move(from_);
    Lowered to{std::make_unique<Graph>(), {}, {}};
    to_ = to.graph.get();
    for (size_t i = 1; i < graph_.rows().size(); ++i) to_->declare_rows(graph_.rows()[i].name, graph_.rows()[i].max);
    map_.assign(graph_.nodes().size(), -1);
    for (const Node& n : graph_.nodes()) copy(n);
    for (const Value& v : from_.outputs) to.outputs.push_back(mapped(v));
    for (const Value& v : from_.updates) to.updates.push_back(mapped(v));
    return to;
  }

 private:
  struct Reader {
    int node;
    size_t input;
  };

  // A linear map of f32 that the device also computes from what is rounded before.
  bool takes_bf16(const Node& n) const {
    if (!n.op || std::find(kLinearMaps.begin(), kLinearMaps.end(), n.op->name()) == kLinearMaps.end()) return false;
    OperandDescs operands(device_, graph_, n, used_[size_t(n.id)]);
    for (size_t i = 0; i < kRounded; ++i) {
      if (graph_.type(n.inputs[i]).dtype != DType::f32) return false;
      operands.in[i].dtype = device_.storage(DType::bf16);
    }
    return find_kernel(device_, n, operands, options_) != nullptr;
  }

  bool is_rounded(const Reader& r) const { return rounds_[size_t(r.node)] && r.input < kRounded; }
  bool is_reshape(const Node& n) const { return n.op && n.op->name() == "reshape"; }

  // Does f(reader) hold for all that read v, also through reshapes?
  template <class F>
  bool all_readers(Value v, const F& f) const {
    const auto it = readers_.find(v);
    return !wanted_.count(v) &&
           (it == readers_.end() || std::all_of(it->second.begin(), it->second.end(), [&](auto& r) {
              const Node& n = graph_.node(r.node);
              return is_reshape(n) ? all_readers({v.graph, r.node, 0}, f) : f(r);
            }));
  }
  // Is v kept in f32 for backward, whatever becomes of its copy?
  bool is_kept(Value v) const {
    const Node& n = graph_.node(v);
    if (n.kind != NodeKind::op) return options_.round_again && n.kind == NodeKind::param;
    return !all_readers(v,
                        [&](const Reader& r) { return is_rounded(r) || graph_.node(r.node).phase == Phase::forward; });
  }

  Value mapped(Value v) const { return v ? Value{to_, map_[size_t(v.node)], v.out} : Value{}; }

  // Do all that read an output of n round it?
  bool only_rounded(const Node& n, size_t o) const {
    return used_[size_t(n.id)][o] && n.outputs[o].dtype == DType::f32 &&
           all_readers({from_.graph.get(), n.id, int(o)}, [&](const Reader& r) { return is_rounded(r); });
  }

  void copy(const Node& n) {
    if (is_reshape(n) && only_rounded(n, 0)) return;  // of the copy instead
    Node node = n;
    std::vector<Value> inputs;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      inputs.push_back(is_rounded({n.id, i}) ? rounded(n.inputs[i], n) : mapped(n.inputs[i]));
    if (n.op && !n.op->view)
      for (const int o : written_in_bf16(n)) node.outputs[size_t(o)].dtype = DType::bf16;
    map_[size_t(n.id)] = to_->append_copy(node, inputs);
  }
  // The outputs that n's kernel rounds by itself. Where memory is short not those that could lie where an operand lay.
  std::vector<int> written_in_bf16(const Node& n) const {
    const KernelRecord* const k = find_kernel(device_, graph_, n, used_[size_t(n.id)], options_);
    if (!k) return {};
    std::vector<int> outputs = k->rounds;
    std::erase_if(outputs, [&](int o) {
      return !only_rounded(n, size_t(o)) || (options_.round_again && may_be_in_place(n, *k, o));
    });
    return outputs;
  }
  bool may_be_in_place(const Node& n, const KernelRecord& k, int o) const {
    return std::any_of(k.in_place.begin(), k.in_place.end(), [&](const InPlace& p) {
      const Value v = n.inputs[size_t(p.in)];
      return p.out == o && graph_.node(v).kind == NodeKind::op &&
             all_readers(v, [&](const Reader& r) { return r.node <= n.id; });
    });
  }

  // What `reader` reads of v: the copy of what v is a reshape of, so that equal ones are one.
  Value rounded(Value v, const Node& reader) {
    const Node& n = graph_.node(v);
    if (!is_reshape(n) && to_->type(mapped(v)).dtype == DType::bf16) return mapped(v);
    const auto [it, made] = copies_.try_emplace({v, is_kept(source(v)) ? reader.phase : Phase::forward});
    if (!made) return it->second;
    const auto scope = to_->in(reader.layer, reader.phase);
    return it->second =
               is_reshape(n) ? apply(*n.op, {rounded(n.inputs[0], reader)}, n.attrs) : cast(mapped(v), DType::bf16);
  }
  Value source(Value v) const {
    while (is_reshape(graph_.node(v))) v = graph_.node(v).inputs[0];
    return v;
  }

  Lowered from_;
  const Graph& graph_;
  const Device& device_;
  const PlanOptions& options_;
  std::vector<std::vector<bool>> used_;
  std::set<Value> wanted_;
  std::vector<bool> rounds_;  // by node
  std::map<Value, std::vector<Reader>> readers_;
  Graph* to_ = nullptr;
  std::vector<int> map_;
  std::map<std::pair<Value, Phase>, Value> copies_;  // in the new graph
};

}  // namespace

Lowered round_once(Lowered lowered, const Device& device, const PlanOptions& options) {
  if (options.products != DType::bf16 || !device.has_products(DType::bf16)) return lowered;
  return Rounding(std::move(lowered), device, options).run();
}

}  // namespace toy
