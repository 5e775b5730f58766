#include "bind/taps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "bind/json_options.h"
#include "toy/base/error.h"
#include "toy/base/glob.h"
#include "toy/base/memory.h"
#include "toy/base/nearest.h"
#include "toy/decode/encoder.h"
#include "toy/graph/cost.h"
#include "toy/graph/op_def.h"
#include "toy/models/transformer.h"
#include "toy/runs/drawings.h"
#include "toy/runtime/session.h"
#include "toy/tensor/convert.h"

namespace toy::bind {
namespace {

struct TapOptions {
  bool exact = false;
  static void fields(auto& o, auto&& f) {
    f({"exact", "Multiply quantized weights with activations that are not rounded (slower)", {}, "Machine"}, o.exact);
  }
};

// The forward pass on exactly so many tokens of one text.
std::unique_ptr<Graph> forward_graph(const Model& model, int64_t tokens) {
  const auto dtype_of = [&](const std::string& name) { return model.params->type(name).dtype; };
  if (!model.spec.causal) return std::move(build_encoder_graph(model.spec, dtype_of, tokens, true).graph);
  auto g = std::make_unique<Graph>();
  const Value input = g->input("tokens", i32({tokens}), model.spec.vocab);
  const Value sequence = g->input("sequence", i32({tokens})), position = g->input("position", i32({tokens}), tokens);
  const Transformer transformer(model.spec, Weights(*g, dtype_of), tokens);
  const Value x = transformer(input, {.batch = {.sequence = sequence, .position = position}});
  const auto scope = g->scope("output");
  g->set_name(transformer.head.logits(x), "logits");
  return g;
}

struct Point {
  std::string name;
  Value value;
};

std::string name_of_node(const Graph& g, const Node& n) {
  constexpr std::string_view kWeight = ".weight";
  if (!n.name.empty()) return n.name;
  for (const Value v : n.inputs)
    if (v && g.node(v).kind == NodeKind::param && g.node(v).name.ends_with(kWeight))
      return g.node(v).name.substr(0, g.node(v).name.size() - kWeight.size());
  return n.layer.path.empty() ? n.op->name() : n.layer.path + "." + n.op->name();
}

std::vector<Point> points_of(Graph& g) {
  std::vector<Point> points;
  std::map<std::string, int> seen;
  for (const Node& n : g.nodes()) {
    if (n.kind != NodeKind::op) continue;
    const std::string base = name_of_node(g, n);
    const std::vector<OperandSpec>& outputs = n.op->signature.outputs();
    for (size_t o = 0; o < n.outputs.size() && o < outputs.size(); ++o) {
      const DType type = n.outputs[o].dtype;
      if (outputs[o].optional || (type != DType::f32 && type != DType::i32)) continue;
      const std::string name = o == 0 ? base : base + "." + outputs[o].name;
      const int count = ++seen[name];
      points.push_back({count == 1 ? name : fmt::format("{}.{}", name, count), Value{&g, n.id, int(o)}});
    }
  }
  return points;
}

std::vector<Point> chosen(const std::vector<Point>& points, std::span<const std::string> patterns) {
  std::vector<char> wanted(points.size(), 0);
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (size_t i = 0; i < points.size(); ++i)
      if (matches(pattern, points[i].name)) wanted[i] = 1, any = true;
    if (any) continue;
    std::vector<std::string> names;
    for (const Point& p : points) names.push_back(p.name);
    const std::string near = nearest(pattern, names);
    fail("no value of the forward pass is called '{}'{}; tap_names lists them", pattern,
         near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
  }
  std::vector<Point> list;
  for (size_t i = 0; i < points.size(); ++i)
    if (wanted[i]) list.push_back(points[i]);
  check(!list.empty(), "taps: there are no names; give some, such as 'blk.*.out'");
  return list;
}

void feed(Session& session, const ModelSpec& spec, std::span<const int32_t> ids) {
  std::vector<int32_t> positions(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) positions[i] = int32_t(i);
  session.set("tokens", ids);
  session.set("sequence", std::vector<int32_t>(ids.size(), 0));
  session.set("position", positions);
  if (!spec.causal) session.set("until", std::vector<int32_t>(ids.size(), int32_t(ids.size())));
}

Tap read(const Session& session, size_t i, const Point& point) {
  Tap tap{.name = point.name, .shape = point.value.shape(), .f32 = {}, .i32 = {}};
  if (point.value.type().dtype == DType::f32) {
    tap.f32 = session.values(i);
  } else {
    const HostTensor tensor = session.output(i);
    for (int64_t at = 0; at < tensor.view().count(); ++at) tap.i32.push_back(int32_t(element(tensor.view(), at)));
  }
  return tap;
}

}  // namespace

std::vector<std::string> tap_names(BoundModel& model) {
  const auto g = forward_graph(model.model(), 1);
  std::vector<std::string> names;
  for (const Point& p : points_of(*g)) names.push_back(p.name);
  return names;
}

std::string forward_svg(BoundModel& model) {
  const auto g = forward_graph(model.model(), 1);
  const std::optional<Value> end = g->find(model.model().spec.causal ? "logits" : "x_final");
  return to_block_svg(*g, cost_of(*g, std::vector{*end}), model.model().spec.name);
}

std::vector<Tap> taps(BoundModel& model, std::span<const int32_t> ids, std::span<const std::string> patterns,
                      std::string_view json) {
  model.check_ids(ids);
  JsonOptions given("taps", json);
  TapOptions o;
  given.read(o);
  given.finish();
  const Model& m = model.model();
  m.spec.require_positions(int64_t(ids.size()), "tokens");
  const auto g = forward_graph(m, int64_t(ids.size()));
  const std::vector<Point> points = chosen(points_of(*g), patterns);
  std::vector<Value> outputs;
  for (const Point& p : points) outputs.push_back(p.value);
  const Turn turn(model.device());
  Device& device = model.device().device();
  PlanOptions how;
  if (!o.exact) how.products = DType::q8_0;
  const auto plan = std::make_shared<const Plan>(compile(*g, outputs, {}, device, how));
  require_memory(device, plan->arena_bytes + plan->input_bytes(device), "the taps of this text");
  Session session(device, plan, {m.params.get()});
  feed(session, m.spec, ids);
  session.run();
  std::vector<Tap> all;
  for (size_t i = 0; i < points.size(); ++i) all.push_back(read(session, i, points[i]));
  return all;
}

}  // namespace toy::bind
