#include "toy/graph/autodiff.h"

#include <algorithm>
#include <functional>
#include <map>

#include "toy/graph/op_def.h"

namespace toy {
namespace {

// One consumer's contribution to a gradient: a value, or a function that adds into what is there.
struct Partial {
  int consumer;
  bool last;
  Value value;
  std::function<Value(Value)> accumulate;
};

class Backward {
 public:
  Backward(std::span<const Value> of, std::span<const Value> wrt, const AutodiffOps& ops,
           const std::vector<bool>& again)
      : graph_(*of[0].graph), of_(of), wrt_(wrt), ops_(ops), again_(again) {
    for (const Value& v : of_) last_ = std::max(last_, v.node);
  }

  // `flows`: into each of the values.
  std::vector<Value> run(std::span<const Value> flows) {
    mark_paths();
    for (size_t i = 0; i < of_.size(); ++i) partials_[of_[i]].push_back({of_[i].node, false, flows[i], {}});
    for (int id = last_; id >= 0; --id) {
      if (!active_[size_t(id)]) continue;
      if (graph_.node(id).kind == NodeKind::op) differentiate(id);
      complete_wrt(id);
    }
    std::vector<Value> result;
    for (const Value& w : wrt_) {
      const Value g = sum(w);
      result.push_back(g ? g : ops_.zeros_like(w));
    }
    return result;
  }

 private:
  // A node matters if it depends on some w and what is differentiated depends on it.
  void mark_paths() {
    const size_t n = size_t(last_) + 1;
    std::vector<bool> below(n), above(n);
    for (const Value& w : wrt_) {
      check(w.graph == &graph_, "gradient: the loss and a parameter belong to different graphs");
      if (size_t(w.node) < n) below[size_t(w.node)] = true;
    }
    for (const Value& v : of_) above[size_t(v.node)] = true;
    for (size_t id = 0; id < n; ++id)
      for (const Value& v : graph_.node(int(id)).inputs)
        if (v && below[size_t(v.node)]) below[id] = true;
    for (size_t id = n; id-- > 0;)
      if (above[id])
        for (const Value& v : graph_.node(int(id)).inputs)
          if (v) above[size_t(v.node)] = true;
    active_.resize(n);
    for (size_t id = 0; id < n; ++id) active_[id] = below[id] && above[id];
    std::map<Value, int> first_consumer;
    for (size_t id = n; id-- > 0;)  // the first consumer of each value: after it the gradient is complete
      if (active_[id])
        for (const Value& v : graph_.node(int(id)).inputs)
          if (v && active_[size_t(v.node)]) first_consumer[v] = int(id);
    for (const Value& w : wrt_)
      if (const auto it = first_consumer.find(w); it != first_consumer.end()) complete_at_.emplace(it->second, w);
  }

  void complete_wrt(int id) {
    const auto [first, last] = complete_at_.equal_range(id);
    for (auto it = first; it != last; ++it) sum(it->second);
  }

  // The gradient of v from all contributions so far; it is summed once.
  Value sum(Value v) {
    if (const auto it = done_.find(v); it != done_.end()) return it->second;
    const auto it = partials_.find(v);
    if (it == partials_.end()) return {};
    auto& list = it->second;
    std::stable_sort(list.begin(), list.end(), [](const Partial& a, const Partial& b) {
      return std::pair(a.last, a.consumer) < std::pair(b.last, b.consumer);
    });
    Value total;
    for (const Partial& p : list) {
      const auto scope = graph_.in(graph_.node(p.consumer).layer, Phase::backward);
      if (p.accumulate)
        total = p.accumulate(total);
      else
        total = total ? ops_.add(total, p.value) : p.value;
    }
    check(total.type() == v.type(), "gradient: a value of type {} got a gradient of type {}", v.type().str(),
          total.type().str());
    partials_.erase(it);
    return done_[v] = total;
  }

  // What backward reads in place of v: v itself if it is kept, else the result of its op's repetition.
  Value kept(Value v) {
    if (!v || size_t(v.node) >= again_.size() || !again_[size_t(v.node)]) return v;
    const auto [it, first] = repeated_.try_emplace(v.node, -1);
    if (first) {
      Node node = graph_.node(v);
      std::vector<Value> inputs;
      for (const Value& in : node.inputs) inputs.push_back(kept(in));
      node.phase = Phase::backward;
      node.name.clear();
      repeated_[v.node] = graph_.append_copy(node, std::move(inputs));
    }
    return {&graph_, repeated_.at(v.node), v.out};
  }

  class Context final : public Vjp {
   public:
    Context(Backward& b, const Node& n) : b_(b), node_(n) {
      for (size_t o = 0; o < n.outputs.size(); ++o) grads_.push_back(b.sum({&b.graph_, n.id, int(o)}));
    }
    bool any() const {
      return std::any_of(grads_.begin(), grads_.end(), [](const Value& v) { return bool(v); });
    }
    Graph& graph() override { return b_.graph_; }
    const Attrs& attrs() const override { return node_.attrs; }
    Value in(int i) const override { return b_.kept(original(i)); }
    Value out(int o) const override { return b_.kept({&b_.graph_, node_.id, o}); }
    Value grad(int o) const override { return grads_[size_t(o)]; }
    bool needs(int i) const override {
      const Value v = original(i);
      return v && b_.active_[size_t(v.node)];
    }
    int inputs() const override { return int(node_.inputs.size()); }
    void give(int i, Value gradient) override {
      if (needs(i)) b_.partials_[original(i)].push_back({node_.id, false, gradient, {}});
    }
    void give(int i, std::function<Value(Value)> f, bool last) override {
      if (needs(i)) b_.partials_[original(i)].push_back({node_.id, last, {}, std::move(f)});
    }

   private:
    Value original(int i) const { return size_t(i) < node_.inputs.size() ? node_.inputs[size_t(i)] : Value{}; }
    Backward& b_;
    const Node& node_;
    std::vector<Value> grads_;
  };

  void differentiate(int id) {
    const Node& n = graph_.node(id);
    const auto leads_on = [&](const Value& v) { return v && active_[size_t(v.node)]; };
    if (std::none_of(n.inputs.begin(), n.inputs.end(), leads_on)) return;  // itself asked for, made of nothing that is
    Context context(*this, n);
    if (!context.any()) return;
    check(n.op->vjp != nullptr, "{}{}: this op has no gradient", n.layer.prefix(), n.op->name());
    const auto scope = graph_.in(n.layer, Phase::backward);
    n.op->vjp(context);
  }

  Graph& graph_;
  std::span<const Value> of_;
  int last_ = 0;  // node of them
  std::span<const Value> wrt_;
  const AutodiffOps& ops_;
  const std::vector<bool>& again_;
  std::map<int, int> repeated_;  // node -> its repetition
  std::vector<bool> active_;
  std::multimap<int, Value> complete_at_;  // node after which nothing more is added to a parameter's gradient
  std::map<Value, std::vector<Partial>> partials_;
  std::map<Value, Value> done_;
};

}  // namespace

std::vector<Value> backward(Value loss, std::span<const Value> wrt, const AutodiffOps& ops,
                            const std::vector<bool>& again) {
  check(bool(loss), "gradient: the loss is an empty value");
  check(loss.shape().rank() == 0, "gradient: the loss must be a scalar, it is {}", loss.type().str());
  const Value one = loss.graph->scalar(1, loss.type().dtype);
  return Backward({&loss, 1}, wrt, ops, again).run({&one, 1});
}

std::vector<Value> pull_back(std::span<const Value> of, std::span<const Value> flows, std::span<const Value> wrt,
                             const AutodiffOps& ops) {
  return Backward(of, wrt, ops, {}).run(flows);
}

bool is_one(Value v) {
  const Node& n = v.graph->node(v);
  return n.kind == NodeKind::constant && n.constant->size() == 1 && n.constant->front() == 1.0;
}

}  // namespace toy
