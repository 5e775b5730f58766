#include "toy/graph/recompute.h"

#include <algorithm>

#include "toy/graph/cost.h"

namespace toy {
namespace {

constexpr double kFewOperations = 32;  // an element: above every elementwise op and norm, below any product worth it

class Choice {
 public:
  Choice(const Graph& graph, Value loss, std::span<const Value> roots, const Recompute& r)
      : graph_(graph), count_(size_t(loss.node) + 1), recompute_(r), cost_(cost_of(graph, roots)), again_(count_) {
    number_blocks();
    find_kept();
  }

  std::vector<bool> run() {
    for (size_t id = 0; id < count_; ++id) {
      const Node& n = graph_.node(int(id));
      if (block_[id] < 0 || n.op->updates_in_place()) continue;
      if (block_[id] < recompute_.whole)
        again_[id] = !leaves_block_[id];
      else if (block_[id] < recompute_.whole + recompute_.light)
        again_[id] = n.op->view ? again_[size_t(n.inputs[0].node)] : is_light(n);
    }
    return std::move(again_);
  }

 private:
  // The block of every op of the forward pass, -1 outside of them; and which results other layers read.
  void number_blocks() {
    block_.assign(count_, -1);
    leaves_block_.assign(count_, false);
    for (size_t id = 0; id < count_; ++id) {
      const Node& n = graph_.node(int(id));
      if (n.kind == NodeKind::op) block_[id] = n.layer.block;
      for (const Value& v : n.inputs)
        if (v && block_[size_t(v.node)] != block_[id]) leaves_block_[size_t(v.node)] = true;
    }
  }

  // What a value is a view of.
  size_t source(size_t id) const {
    while (graph_.node(int(id)).op && graph_.node(int(id)).op->view) id = size_t(graph_.node(int(id)).inputs[0].node);
    return id;
  }

  void find_kept() {
    kept_.assign(count_, false);
    for (const Node& n : graph_.nodes())
      if (n.phase == Phase::backward && cost_.nodes[size_t(n.id)].used)
        for (const Value& v : n.inputs)
          if (v && size_t(v.node) < count_) kept_[source(size_t(v.node))] = true;
  }

  // Few operations on what is there anyway make something that would be kept.
  bool is_light(const Node& n) const {
    if (!kept_[size_t(n.id)] || leaves_block_[size_t(n.id)]) return false;
    double elements = 0;
    for (const TensorType& t : n.outputs) elements += double(t.count());
    const Cost& c = cost_.nodes[size_t(n.id)].cost;
    if (c.flops + c.transcendentals > kFewOperations * elements) return false;
    return std::all_of(n.inputs.begin(), n.inputs.end(), [&](const Value& v) {
      return !v || graph_.node(v).kind != NodeKind::op || kept_[source(size_t(v.node))];
    });
  }

  const Graph& graph_;
  size_t count_;
  const Recompute& recompute_;
  GraphCost cost_;
  std::vector<int> block_;
  std::vector<bool> leaves_block_, kept_, again_;
};

}  // namespace

std::vector<bool> recomputed_nodes(const Graph& trained, Value loss, std::span<const Value> roots,
                                   const Recompute& recompute) {
  if (recompute.none()) return {};
  return Choice(trained, loss, roots, recompute).run();
}

}  // namespace toy
