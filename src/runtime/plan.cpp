#include "toy/runtime/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/arena.h"
#include "runtime/fuse.h"
#include "runtime/lower.h"
#include "runtime/round_once.h"
#include "runtime/schedule.h"
#include "toy/graph/verify.h"

namespace toy {
namespace {

// Offsets inside a base travel through the ops' view functions as pointers from here (never dereferenced).
std::byte* const kOrigin = reinterpret_cast<std::byte*>(uintptr_t(1) << 20);

// Memory that one or more values share.
struct Storage {
  Operand::Base base = Operand::arena;
  int index = 0;        // leaf, or block of the arena
  bool pinned = false;  // holds an output or an update: never reused
};

// What a value is: a storage and a view into it.
struct StoredView {
  int storage = -1;
  View view;  // data counts from kOrigin
};

// A step whose workspace later ones may use.
struct PreparingStep {
  int step = 0, storage = 0;
  const Node* node = nullptr;
  OperandDescs descs;
};

class Planner {
 public:
  Planner(Lowered lowered, Device& device, const PlanOptions& options, Plan& plan)
      : roots_(lowered.roots()),
        graph_(std::move(lowered.graph)),
        outputs_(std::move(lowered.outputs)),
        updates_(std::move(lowered.updates)),
        device_(device),
        options_(options),
        plan_(plan) {}

  void run() {
    used_ = used_outputs(*graph_, roots_);
    order_ = schedule(*graph_);
    find_uses();
    places_.resize(graph_->nodes().size());
    for (const Node& n : graph_->nodes())
      if (n.kind != NodeKind::op) place_leaf(n);
    for (const int id : order_) place_op(graph_->node(id));
    check_updates();
    check_outputs();
    finish();
  }

 private:
  void find_uses() {
    wanted_.insert(roots_.begin(), roots_.end());
    for (const Node& n : graph_->nodes())
      for (const Value& v : n.inputs)
        if (v) consumers_[v].push_back(n.id);
    position_.assign(graph_->nodes().size(), -1);
    for (size_t i = 0; i < order_.size(); ++i) position_[size_t(order_[i])] = int(i);
  }

  // ---- where values live
  void place_leaf(const Node& n) {
    std::vector<PlanLeaf>& list = n.kind == NodeKind::param   ? plan_.params
                                  : n.kind == NodeKind::input ? plan_.inputs
                                                              : plan_.constants;
    const auto base = n.kind == NodeKind::param   ? Operand::param
                      : n.kind == NodeKind::input ? Operand::input
                                                  : Operand::constant;
    storages_.push_back({base, int(list.size()), true});
    list.push_back({n.name, n.outputs[0], n.index_bound, n.constant});
    places_[size_t(n.id)] = {{int(storages_.size()) - 1, full_view(n.outputs[0])}};
  }

  View full_view(const TensorType& t) const { return View(kOrigin, device_.storage(t.dtype), t.shape); }
  const StoredView& place(Value v) const { return places_[size_t(v.node)][size_t(v.out)]; }

  int new_block(size_t bytes, int step) {
    blocks_.push_back({bytes, step, step, 0});
    storages_.push_back({Operand::arena, int(blocks_.size()) - 1, false});
    return int(storages_.size()) - 1;
  }
  void touch(int storage, int step) {
    if (storages_[size_t(storage)].base == Operand::arena) {
      Block& b = blocks_[size_t(storages_[size_t(storage)].index)];
      b.last = std::max(b.last, step);
    }
  }

  // Is this the only remaining reader of what lies in `storage`? Values that alias it count, as do outputs.
  bool dies_here(int storage, const Node& n, size_t operand) const {
    if (storages_[size_t(storage)].base != Operand::arena) return false;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (i != operand && n.inputs[i] && place(n.inputs[i]).storage == storage) return false;
    const int now = position_[size_t(n.id)];
    if (storages_[size_t(storage)].pinned) return false;
    const auto last = last_use_.find(storage);
    return last == last_use_.end() || last->second <= now;
  }

  // From now on `v` lies in `storage`; what the host or the next run wants to see stays there.
  void settle_value(Value v, int storage) {
    int& last = last_use_.try_emplace(storage, -1).first->second;
    if (const auto users = consumers_.find(v); users != consumers_.end())
      for (const int u : users->second) last = std::max(last, position_[size_t(u)]);
    if (wanted_.count(v)) storages_[size_t(storage)].pinned = true;
  }

  void place_op(const Node& n) {
    auto& mine = places_[size_t(n.id)];
    mine.resize(n.outputs.size());
    if (n.op->view) {
      if (const auto v = n.op->view(place(n.inputs[0]).view, n.attrs)) {
        mine[0] = {place(n.inputs[0]).storage, *v};
        settle_value({graph_.get(), n.id, 0}, mine[0].storage);
        return;
      }
      copied_view(n);
      return;
    }
    const KernelRecord* kernel = find_kernel(device_, *graph_, n, used_[size_t(n.id)], options_);
    if (!kernel) fail_internal("{}: no kernel after lowering", where(n));
    std::vector<StoredView> in;
    for (size_t i = 0; i < n.inputs.size(); ++i) in.push_back(laid_out(n, i, kernel->layout));
    place_outputs(n, *kernel, in);
    emit(n, kernel, in);
  }

  // A view that strides cannot express: a contiguous copy of the input, then the view of that.
  void copied_view(const Node& n) {
    const StoredView copy = contiguous_copy(place(n.inputs[0]), graph_->type(n.inputs[0]).rows, n);
    const auto v = n.op->view(copy.view, n.attrs);
    if (!v) fail_internal("{}: no view of a contiguous value", where(n));
    places_[size_t(n.id)][0] = {copy.storage, *v};
    settle_value({graph_.get(), n.id, 0}, copy.storage);
  }

  StoredView laid_out(const Node& n, size_t i, Layout wanted) {
    const Value v = n.inputs[i];
    if (!v) return {};
    const StoredView& p = place(v);
    const bool fits =
        wanted == Layout::any || (wanted == Layout::rows && p.view.rows_contiguous()) || p.view.contiguous();
    const bool spare = !n.op->signature.input_spec(i).donated || may_overwrite(p, n, i);
    return fits && spare ? p : contiguous_copy(p, graph_->type(v).rows, n);
  }

  // Parameters are there to be updated; a temporary only if nobody needs its old value.
  bool may_overwrite(const StoredView& p, const Node& n, size_t i) const {
    if (!p.view.contiguous()) return false;
    return storages_[size_t(p.storage)].base == Operand::param || dies_here(p.storage, n, i);
  }

  StoredView contiguous_copy(const StoredView& source, int rows, const Node& n) {
    const KernelRecord* copy = nullptr;
    for (const KernelRecord& k : device_.kernels())
      if (k.op == "copy") copy = &k;
    if (!copy) fail_internal("{}: the device has no copy kernel", where(n));
    const int step = int(plan_.steps.size());
    StoredView p{new_block(source.view.bytes(), step), View(kOrigin, source.view.dtype, source.view.shape)};
    touch(source.storage, step);
    PlanStep s{.kernel = copy, .op = "copy", .layer = n.layer, .phase = n.phase};
    s.cost.bytes = 2.0 * double(p.view.bytes());
    s.in = {operand(source, rows)};
    s.out = {operand(p, rows)};
    plan_.steps.push_back(std::move(s));
    plan_.notes.push_back(fmt::format("{}: a copy of {} values for their layout", where(n), p.view.count()));
    return p;
  }

  void place_outputs(const Node& n, const KernelRecord& kernel, const std::vector<StoredView>& in) {
    auto& mine = places_[size_t(n.id)];
    const int step = int(plan_.steps.size());
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      const int donor = n.op->signature.donor_of(int(o));
      const Value self{graph_.get(), n.id, int(o)};
      if (donor >= 0) {
        if (!in[size_t(donor)].view.contiguous()) fail_internal("{}: a donated operand is strided", where(n));
        mine[o] = in[size_t(donor)];
        const Storage& home = storages_[size_t(mine[o].storage)];
        if (home.base == Operand::param) plan_.params[size_t(home.index)].updated = true;
      } else if (!used_[size_t(n.id)][o]) {
        continue;
      } else {
        const View view = full_view(n.outputs[o]);
        int storage = -1;
        for (const InPlace& p : kernel.in_place)
          if (p.out == int(o) && storage < 0) storage = reusable(n, size_t(p.in), in, view, mine);
        mine[o] = {storage >= 0 ? storage : new_block(view.bytes(), step), view};
        if (storage >= 0) mine[o].view.data = in_view_data(in, storage);
      }
      settle_value(self, mine[o].storage);
    }
  }

  static void* in_view_data(const std::vector<StoredView>& in, int storage) {
    for (const StoredView& p : in)
      if (p.storage == storage) return p.view.data;
    return kOrigin;
  }

  // The storage of input i, if the output may and can lie there.
  int reusable(const Node& n, size_t i, const std::vector<StoredView>& in, const View& out,
               const std::vector<StoredView>& mine) {
    if (i >= in.size() || in[i].storage < 0) return -1;
    const StoredView& p = in[i];
    for (const StoredView& m : mine)
      if (m.storage == p.storage) return -1;
    const bool same = p.view.contiguous() && p.view.shape == out.shape && p.view.dtype == out.dtype;
    if (!same) return -1;
    if (p.storage != place(n.inputs[i]).storage) return p.storage;  // a private copy made for this step
    return dies_here(p.storage, n, i) ? p.storage : -1;
  }

  void emit(const Node& n, const KernelRecord* kernel, const std::vector<StoredView>& in) {
    const int step = int(plan_.steps.size());
    PlanStep s{.kernel = kernel, .attrs = n.attrs, .op = step_name(n), .layer = n.layer, .phase = n.phase};
    for (size_t i = 0; i < in.size(); ++i) {
      const Value v = n.inputs[i];
      s.in.push_back(v ? operand(in[i], graph_->type(v).rows) : Operand{});
      if (v) touch(in[i].storage, step);
    }
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      const StoredView& p = places_[size_t(n.id)][o];
      const bool used = p.storage >= 0;
      s.out.push_back(used ? operand(p, n.outputs[o].rows) : Operand{});
      if (used) touch(p.storage, step);
    }
    s.cost = cost_of_op(*graph_, n);
    if (options_.repack && kernel->repacking) repack(s);
    place_workspace(n, s);
    plan_.steps.push_back(std::move(s));
  }

  // That of an earlier step of the same layer which prepares it for this one, or one of its own.
  void place_workspace(const Node& n, PlanStep& s) {
    OperandDescs descs(device_, *graph_, n, used_[size_t(n.id)]);
    const auto query = [&](const Node& node, const OperandDescs& of) {
      return KernelQuery{of.in, of.out, node.attrs, options_.threads, options_.products};
    };
    if (s.kernel->workspace) s.workspace_bytes = s.kernel->workspace(query(n, descs));
    if (s.workspace_bytes == 0) return;
    const int step = int(plan_.steps.size());
    for (const PreparingStep& p : preparing_) {
      const PlanStep& before = plan_.steps[size_t(p.step)];
      if (before.kernel != s.kernel || p.node->inputs[0] != n.inputs[0] || before.phase != s.phase ||
          before.layer.outer() != s.layer.outer() || before.workspace_bytes != s.workspace_bytes ||
          !s.kernel->prepares(query(*p.node, p.descs), query(n, descs)))
        continue;
      s.prepared_by = p.step;
      touch(p.storage, step);
      return workspaces_.push_back({step, p.storage});
    }
    const int storage = new_block(s.workspace_bytes, step);
    workspaces_.push_back({step, storage});
    if (!s.kernel->prepares) return;
    std::erase_if(preparing_, [&](const PreparingStep& p) { return p.node->layer.outer() != n.layer.outer(); });
    preparing_.push_back({step, storage, &n, std::move(descs)});
  }

  // The step reads a copy of its parameter, which other steps may share.
  void repack(PlanStep& s) {
    const Repacking& how = *s.kernel->repacking;
    Operand& o = s.in[size_t(how.operand)];
    if (o.base != Operand::param || o.offset != 0 || o.view.shape != plan_.params[size_t(o.index)].type.shape) return;
    const size_t bytes = how.bytes(o.view.dtype, o.view.shape);
    if (bytes == 0) return;
    size_t i = 0;
    while (i < plan_.repacked.size() && (plan_.repacked[i].param != o.index || plan_.repacked[i].how != &how)) ++i;
    if (i == plan_.repacked.size())
      plan_.repacked.push_back({o.index, &how, round_up(plan_.repacked_bytes(), device_.alignment()), bytes});
    o.base = Operand::repacked, o.index = int(i);
    s.kernel = how.kernel;
  }

  Operand operand(const StoredView& p, int rows) const {
    const Storage& s = storages_[size_t(p.storage)];
    Operand o{s.base, s.index, size_t(static_cast<std::byte*>(p.view.data) - kOrigin), p.view, rows};
    o.view.data = nullptr;
    return o;
  }

  // An update has to arrive in its parameter, not in a temporary or in the copy that was made of a strided view.
  void check_updates() const {
    for (const Value& v : updates_) {
      if (storages_[size_t(place(v).storage)].base == Operand::param) continue;
      const Node& n = graph_->node(v);
      const Value of = seen_parameter(*graph_, n.inputs[size_t(n.op->signature.donor_of(v.out))]);
      const Node& updated = graph_->node(of);
      check(updated.kind == NodeKind::param, "{}: it updates a temporary and no parameter; give it as an output",
            where(n));
      fail(
          "{}: the update would go to a copy of '{}', which is seen here through a strided view; update '{}' itself, "
          "or a view of it that is contiguous",
          where(n), updated.name, updated.name);
    }
  }

  // Outputs are read after the run: one that lies in a parameter shows what its update has left there.
  void check_outputs() const {
    std::set<Value> overwritten;
    for (const int id : order_) {
      const Node& n = graph_->node(id);
      for (size_t o = 0; o < n.outputs.size(); ++o) {
        const int donor = n.op->signature.donor_of(int(o));
        if (donor >= 0 && storages_[size_t(place({graph_.get(), id, int(o)}).storage)].base == Operand::param)
          overwritten.insert(seen_parameter(*graph_, n.inputs[size_t(donor)]));
      }
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Value of = seen_parameter(*graph_, outputs_[i]);
      const bool in_parameter = storages_[size_t(place(outputs_[i]).storage)].base == Operand::param;
      const Node& n = graph_->node(of);
      check(!in_parameter || !overwritten.count(of),
            "compile: output {} lies in the memory of '{}', which the plan updates, so it would show the new value; "
            "ask for the updated value, or read it with a plan that does not update",
            i, n.op ? n.op->name() : n.name);
    }
  }

  void finish() {
    std::vector<StoredView> read;
    for (const Value& v : outputs_)
      read.push_back(place(v).view.contiguous() ? place(v)
                                                : contiguous_copy(place(v), graph_->type(v).rows, graph_->node(v)));
    for (size_t i = 0; i < read.size(); ++i) {
      touch(read[i].storage, int(plan_.steps.size()));
      plan_.outputs.push_back(operand(read[i], graph_->type(outputs_[i]).rows));
    }
    plan_.arena_bytes = pack_blocks(blocks_, device_.alignment());
    const auto settle = [&](Operand& o) {
      if (o.base == Operand::arena) o.offset += blocks_[size_t(o.index)].offset;
    };
    for (PlanStep& s : plan_.steps) {
      for (Operand& o : s.in) settle(o);
      for (Operand& o : s.out) settle(o);
    }
    for (Operand& o : plan_.outputs) settle(o);
    for (const auto& [step, storage] : workspaces_)
      plan_.steps[size_t(step)].workspace_offset = blocks_[size_t(storages_[size_t(storage)].index)].offset;
    plan_.rows = graph_->rows();
    for (PlanLeaf& p : plan_.inputs) {
      p.offset = round_up(plan_.fed_bytes, device_.alignment());
      plan_.fed_bytes = p.offset + bytes_of(device_.storage(p.type.dtype), p.type.shape);
    }
  }

  const std::vector<Value> roots_;
  std::unique_ptr<Graph> graph_;
  std::vector<Value> outputs_, updates_;
  Device& device_;
  const PlanOptions& options_;
  Plan& plan_;
  std::vector<std::vector<bool>> used_;
  std::vector<int> order_, position_;
  std::vector<Storage> storages_;
  std::vector<Block> blocks_;
  std::vector<std::vector<StoredView>> places_;
  std::map<int, int> last_use_;  // of a storage: position of the last node that reads a value in it, -1 for none
  std::map<Value, std::vector<int>> consumers_;
  std::set<Value> wanted_;                       // outputs and updates
  std::vector<std::pair<int, int>> workspaces_;  // of a step, its storage
  std::vector<PreparingStep> preparing_;         // of this layer
};

// What is asked for has to be of this graph, and an update has to update something.
void check_roots(const Graph& graph, std::span<const Value> outputs, std::span<const Value> updates) {
  const auto check_one = [&](Value v, const char* what, size_t i) {
    check(bool(v), "compile: {} {} is an empty value", what, i);
    check(v.graph == &graph, "compile: {} {} is a value of another graph", what, i);
    graph.type(v);  // throws if there is no such value
  };
  for (size_t i = 0; i < outputs.size(); ++i) check_one(outputs[i], "output", i);
  for (size_t i = 0; i < updates.size(); ++i) {
    check_one(updates[i], "update", i);
    const Node& n = graph.node(updates[i]);
    check(n.op && n.op->signature.donor_of(updates[i].out) >= 0,
          "compile: update {} ({}) updates no parameter; give it as an output", i, n.op ? n.op->name() : n.name);
  }
}

}  // namespace

size_t Plan::param_bytes(const Device& device) const {
  size_t n = 0;
  for (const PlanLeaf& p : params) n += bytes_of(device.storage(p.type.dtype), p.type.shape);
  return n;
}

size_t Plan::input_bytes(const Device& device) const {
  size_t n = fed_bytes;
  for (const PlanLeaf& p : constants) n += bytes_of(device.storage(p.type.dtype), p.type.shape);
  return n;
}

Cost Plan::cost() const {
  Cost total;
  for (const PlanStep& s : steps) total += s.cost;
  return total;
}

Plan compile(const Graph& graph, std::span<const Value> outputs, std::span<const Value> updates, Device& device,
             const PlanOptions& options) {
  check_roots(graph, outputs, updates);
  verify(graph);
  Plan plan;
  PlanOptions resolved = options;
  if (resolved.threads == 0) resolved.threads = device.threads();
  Lowered lowered = lower(graph, outputs, updates, device, resolved, plan.notes);
  lowered = round_once(std::move(lowered), device, resolved);
  if (options.fuse) lowered = fuse_updates(fuse(std::move(lowered), device, resolved), device, resolved);
  Planner(std::move(lowered), device, resolved, plan).run();
  for (const Node& n : graph.nodes())
    if (n.kind == NodeKind::input &&
        std::none_of(plan.inputs.begin(), plan.inputs.end(), [&](const PlanLeaf& p) { return p.name == n.name; }))
      plan.unused_inputs.push_back(n.name);
  return plan;
}

}  // namespace toy
