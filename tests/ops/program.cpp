#include "ops/program.h"

#include <algorithm>
#include <cmath>

#include "backend/gpu/emulated/emulated_driver.h"
#include "backend/gpu/gpu_device.h"
#include "testing/test_device.h"
#include "toy/base/philox.h"
#include "toy/ops/ops.h"
#include "toy/tensor/convert.h"

namespace toy::test {

Device& reference_device() {
  static const std::unique_ptr<Device> device = make_reference_device();
  return *device;
}

Device& cpu_device(int threads) {
  static std::map<int, std::unique_ptr<Device>> devices;
  auto& d = devices[threads];
  if (!d) d = make_test_device(threads);
  return *d;
}

const std::vector<Device*>& emulated_devices() {
  using gpu::ItemOrder;
  static const std::vector<std::unique_ptr<Device>> devices = [] {
    std::vector<std::unique_ptr<Device>> made;
    for (const ItemOrder order : {ItemOrder::ascending, ItemOrder::descending, ItemOrder::shuffled})
      made.push_back(gpu::make_gpu_device(gpu::make_emulated_driver(order)));
    return made;
  }();
  static const std::vector<Device*> list{devices[0].get(), devices[1].get(), devices[2].get()};
  return list;
}

Built build_operands(const std::vector<OperandData>& operands, const std::vector<std::string>& rows) {
  Built b;
  int count = 0;
  for (const OperandData& o : operands) {
    if (o.absent) {
      b.leaves.emplace_back();
      b.operands.emplace_back();
      continue;
    }
    TensorType type{o.dtype, o.stored, 0};
    if (std::find(rows.begin(), rows.end(), o.name) != rows.end()) {
      if (!count) count = b.graph->declare_rows("N", o.stored[0]);
      type.rows = count;
    }
    const Value leaf = b.graph->param(o.name, type);
    b.leaves.push_back(leaf);
    b.operands.push_back(o.order.rank() ? permute(leaf, o.order) : leaf);
    b.feed[o.name] = o.values;
  }
  return b;
}

Built build_op(const OpDef& op, const std::vector<OperandData>& operands, const Attrs& attrs,
               const std::vector<std::string>& rows) {
  Built b = build_operands(operands, rows);
  const int id = b.graph->apply(op, b.operands, attrs);
  for (size_t o = 0; o < b.graph->node(id).outputs.size(); ++o) b.outputs.push_back({b.graph.get(), id, int(o)});
  return b;
}

void ask_for_gradients(Built& b, const std::vector<int>& loss_outputs, const std::vector<Value>& wrt) {
  Value loss;
  for (const int o : loss_outputs) {
    const Value y = b.outputs[size_t(o)];
    const std::string name = "R" + std::to_string(o);
    std::vector<double> r(size_t(y.type().count()));
    for (size_t i = 0; i < r.size(); ++i) r[i] = round_to(DType::f32, 2 * Philox(7, name).uniform(i) - 1);
    const Value part = sum_all(y * b.graph->param(name, y.type()));
    b.feed[name] = std::move(r);
    loss = loss ? loss + part : part;
  }
  b.outputs = {loss};
  for (const Value& g : gradients(loss, wrt)) b.outputs.push_back(g);
}

Program::Program(const Built& built, Device& device, const PlanOptions& options) : built_(built), store_(device) {
  const auto plan = std::make_shared<const Plan>(compile(*built.graph, built.outputs, {}, device, options));
  for (const PlanLeaf& p : plan->params) store_.add(p.name, p.type);
  session_ = std::make_unique<Session>(device, plan, std::initializer_list<const ParamStore*>{&store_});
}

Results Program::run() { return run(built_.feed); }

Results Program::run(const Feed& feed) {
  for (const auto& [name, values] : feed) {
    if (!store_.has(name)) continue;
    store_.write(name, View(const_cast<double*>(values.data()), DType::f64, {int64_t(values.size())}));
  }
  session_->run();
  Results results;
  for (size_t i = 0; i < built_.outputs.size(); ++i) {
    const HostTensor out = session_->output(i);
    const View& v = out.view();
    results.emplace_back(size_t(v.count()));
    convert(v, View(results.back().data(), DType::f64, v.shape));
  }
  return results;
}

namespace {

// A copy of the graph in which every float value is multiplied by a parameter of its own.
class Noisy {
 public:
  explicit Noisy(const Built& from) {
    built.feed = from.feed;
    std::vector<std::vector<Value>> map;
    for (const Node& n : from.graph->nodes()) {
      std::vector<Value> inputs;
      for (const Value& v : n.inputs) inputs.push_back(v ? map[size_t(v.node)][size_t(v.out)] : Value{});
      const int id = built.graph->append_copy(n, inputs);
      map.emplace_back();
      for (size_t o = 0; o < n.outputs.size(); ++o) map.back().push_back(noisy({built.graph.get(), id, int(o)}, n));
    }
    for (const Value& v : from.outputs) built.outputs.push_back(map[size_t(v.node)][size_t(v.out)]);
  }
  // Factors uniform about 1, with standard deviation `size`. (Signs alone would cancel too often in short sums.)
  void draw(double size, uint64_t seed) {
    const double width = size * std::sqrt(12.0) * 0x1p-32;
    for (const std::string& name : factors_) {
      const Philox random(seed, name);
      auto& values = built.feed[name];
      for (size_t i = 0; i < values.size(); ++i) values[i] = 1 + width * (double(random.word(i)) - 0x1p31);
    }
  }
  Built built;

 private:
  Value noisy(Value v, const Node& n) {
    const TensorType t = v.type();
    if (!is_float(t.dtype) || n.kind == NodeKind::constant || (n.op && n.op->view)) return v;
    const std::string name = "noise" + std::to_string(factors_.size());
    factors_.push_back(name);
    built.feed[name] = std::vector<double>(size_t(t.count()), 1.0);
    return v * built.graph->param(name, t);
  }
  std::vector<std::string> factors_;
};

// The graph with every decomposition in place of its op, again and again. An output that a decomposition does
// not give comes back empty.
Built taken_apart(const Built& from, bool& changed) {
  Built to;
  to.feed = from.feed;
  std::vector<std::vector<Value>> map;
  for (const Node& n : from.graph->nodes()) {
    std::vector<Value> inputs;
    for (const Value& v : n.inputs) inputs.push_back(v ? map[size_t(v.node)][size_t(v.out)] : Value{});
    map.emplace_back();
    if (n.op && n.op->decompose) {
      changed = true;
      map.back() = n.op->decompose(*to.graph, inputs, n.attrs);
    } else {
      const int id = to.graph->append_copy(n, inputs);
      for (size_t o = 0; o < n.outputs.size(); ++o) map.back().push_back({to.graph.get(), id, int(o)});
    }
    map.back().resize(n.outputs.size());
  }
  for (const Value& v : from.outputs) to.outputs.push_back(v ? map[size_t(v.node)][size_t(v.out)] : Value{});
  return to;
}

Results moves_of(const Built& built) {
  constexpr int kDraws = 8;
  constexpr double kStep = 0x1p-20;
  Noisy noisy(built);
  Program program(noisy.built, reference_device());
  const Results base = program.run();
  Results total = base;
  for (auto& v : total) std::fill(v.begin(), v.end(), 0.0);
  for (int d = 0; d < kDraws; ++d) {
    noisy.draw(kStep, uint64_t(d));
    const Results moved = program.run();
    for (size_t o = 0; o < base.size(); ++o)
      for (size_t j = 0; j < base[o].size(); ++j) {
        const double slope = (moved[o][j] - base[o][j]) / kStep;
        total[o][j] += std::isfinite(slope) ? slope * slope / kDraws : 0;
      }
  }
  for (auto& v : total)
    for (double& x : v) x = std::sqrt(x);
  return total;
}

}  // namespace

Results sensitivity(const Built& built) {
  Results result = moves_of(built);
  bool changed = false;
  Built parts = taken_apart(built, changed);
  if (!changed) return result;
  while (changed) {
    changed = false;
    parts = taken_apart(parts, changed);
  }
  std::vector<size_t> given;
  for (size_t o = 0; o < parts.outputs.size(); ++o)
    if (parts.outputs[o]) given.push_back(o);
  std::erase_if(parts.outputs, [](const Value& v) { return !v; });
  const Results inner = moves_of(parts);
  for (size_t i = 0; i < given.size(); ++i)
    for (size_t j = 0; j < inner[i].size(); ++j) result[given[i]][j] = std::max(result[given[i]][j], inner[i][j]);
  return result;
}

int64_t longest_reduction(const Graph& graph) {
  int64_t longest = 1;
  for (const Node& n : graph.nodes())
    for (const TensorType& t : n.outputs)
      for (const int64_t d : t.shape) longest = std::max(longest, d);
  return longest;
}

}  // namespace toy::test
