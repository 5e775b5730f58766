// A weight's gradient and the update that alone uses it become one node, so that the gradient never comes to memory and
// what the update reads is fetched while the product is computed.
#include <map>
#include <optional>
#include <set>

#include "runtime/fuse.h"
#include "toy/backend/fused.h"
#include "toy/graph/verify.h"
#include "toy/ops/ops.h"

namespace toy {
namespace {

enum : size_t { kGradient = 1, kDy = 8, kX };  // operands of the node, those before kDy as adamw's

const OpDef& linear_grad_w_adamw_def() {
  static const OpDef def{.signature =
                             "linear_grad_w_adamw(w!:[O,I], g?:[O,I], m!:[O,I], v!:[O,I], lr:[], bias1:[], "
                             "bias2:[], gscale?:[], dy:[N,O], x:[N,I]) -> w!:[O,I], m!:[O,I], v!:[O,I]",
                         .cost = [](const CostQuery& q) {
                           const TensorType &dy = *q.in[kDy], &x = *q.in[kX], &w = q.out[0];
                           return Cost{
                               .flops = 2.0 * double(dy.count()) * double(x.shape[1]) + 14.0 * double(w.count()),
                               .bytes = double(dy.bytes()) + double(x.bytes()) + 6.0 * double(w.bytes())};
                         }};
  return def;
}

class UpdateFuser {
 public:
  UpdateFuser(Lowered from, const Device& device, const PlanOptions& options)
      : from_(std::move(from)),
        graph_(*from_.graph),
        device_(device),
        options_(options),
        updated_(updated_parameters(graph_)) {
    const std::vector<Value> roots = from_.roots();
    used_ = used_outputs(graph_, roots);
    for (const Node& n : graph_.nodes())
      for (const Value& v : n.inputs)
        if (v) ++uses_[v];
    for (const Value& v : roots) ++uses_[v];
  }

  Lowered run() {
    std::map<int, Node> fused;
    std::set<int> gone;
    for (const Node& n : graph_.nodes())
      if (auto one = with_its_gradient(n)) {
        gone.insert(n.inputs[kGradient].node);
        fused.emplace(n.id, std::move(*one));
      }
    if (fused.empty()) return std::move(from_);
    return rewrite(from_, [&](const Node& n) -> std::optional<Node> {
      if (gone.count(n.id)) return std::nullopt;
      const auto it = fused.find(n.id);
      return it == fused.end() ? n : it->second;
    });
  }

 private:
  // An adamw joined by the linear_grad_w that makes its gradient, if nobody else wants that, it starts from nothing and
  // reads nothing that is updated (the whole product would have to precede that update), and the device can.
  std::optional<Node> with_its_gradient(const Node& n) const {
    if (n.kind != NodeKind::op || n.op->name() != "adamw") return std::nullopt;
    const Value g = n.inputs[kGradient];
    const Node& product = graph_.node(g);
    if (product.kind != NodeKind::op || product.op->name() != "linear_grad_w" || uses_.at(g) != 1) return std::nullopt;
    if (product.inputs[2]) return std::nullopt;
    for (size_t i = 0; i < 2; ++i)
      if (updated_.count(seen_parameter(graph_, product.inputs[i]))) return std::nullopt;
    Node one = n;
    one.op = &linear_grad_w_adamw_def();
    one.layer = product.layer, one.phase = product.phase;  // most of it is the product
    one.inputs[kGradient] = {};
    one.inputs.resize(kDy);
    one.inputs.push_back(product.inputs[0]);
    one.inputs.push_back(product.inputs[1]);
    if (!find_kernel(device_, graph_, one, used_[size_t(n.id)], options_)) return std::nullopt;
    return one;
  }

  Lowered from_;
  const Graph& graph_;
  const Device& device_;
  const PlanOptions& options_;
  std::vector<std::vector<bool>> used_;
  std::map<Value, int> updated_, uses_;
};

}  // namespace

Lowered fuse_updates(Lowered lowered, const Device& device, const PlanOptions& options) {
  return UpdateFuser(std::move(lowered), device, options).run();
}

}  // namespace toy
