// The blocks of a model on one text, with the inner values that a look needs as outputs. They are found by what the
// nodes of the graph are, so this knows no family.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "look/parts.h"
#include "toy/base/error.h"
#include "toy/graph/op_def.h"

namespace toy::looking {

// Values that become outputs of the plan, and where each goes.
class Outputs {
 public:
  size_t index(Value v) {
    const auto [at, fresh] = known_.try_emplace(v, list_.size());
    if (fresh) list_.push_back(v);
    return at->second;
  }
  /// The values of v are moved to `to` when the plan has run.
  void take(Value v, std::vector<float>& to) { wanted_.emplace_back(index(v), &to); }
  void take(Value v, std::vector<int32_t>& to) { ids_.emplace_back(index(v), &to); }
  const std::vector<Value>& list() const { return list_; }
  void read(const Session& s) const {
    for (const auto& [i, to] : wanted_) *to = s.values(i);
    for (const auto& [i, to] : ids_) {
      const HostTensor tensor = s.output(i);
      check(tensor.view().contiguous(), "look: an output is not contiguous");
      to->assign(tensor.view().as<int32_t>(), tensor.view().as<int32_t>() + tensor.view().count());
    }
  }

 private:
  std::map<Value, size_t> known_;
  std::vector<Value> list_;
  std::vector<std::pair<size_t, std::vector<float>*>> wanted_;
  std::vector<std::pair<size_t, std::vector<int32_t>*>> ids_;
};

namespace {

constexpr size_t kUntil = 5;  // input of attention: the positions before which rows see others

bool is_op(const Node& n, std::string_view name) { return n.kind == NodeKind::op && n.op->name() == name; }

// What a block adds to x, from its end back to its beginning: x + mixer, + ffn, + input, perhaps times a scale.
std::vector<Value> additions(const Graph& g, Value x, Value out) {
  std::vector<Value> list;
  if (is_op(g.node(out), "mul")) out = g.node(out).inputs[0];
  while (out != x) {
    const Node& n = g.node(out);
    if (!is_op(n, "add")) return {};
    list.insert(list.begin(), n.inputs[1]);
    out = n.inputs[0];
  }
  return list;
}

// Sizes first, so that nothing moves afterwards.
void take_ops(const Graph& g, Taps& taps, Outputs& outputs, bool attention_only) {
  const auto of = [&](std::string_view name) {
    std::vector<const Node*> found;
    for (const Node& n : g.nodes())
      if (is_op(n, name) && n.layer.block >= 0) found.push_back(&n);
    return found;
  };
  const std::vector<const Node*> attention = of("attention"), rules = of("gated_delta_rule"), routers = of("top_k");
  taps.attention.resize(attention.size());
  for (size_t i = 0; i < attention.size(); ++i) {
    const Node& n = *attention[i];
    const Value q = n.inputs[0], k = n.inputs[1];
    AttentionTap& t = taps.attention[i];
    const bool both = n.inputs.size() > kUntil && n.inputs[kUntil];
    t = {n.layer.block, n.attrs.as<AttentionAttrs>(), q.dim(1), k.dim(1), q.dim(2), both, {}, {}};
    outputs.take(q, t.q), outputs.take(k, t.k);
  }
  if (attention_only) return;
  taps.rules.resize(rules.size());
  for (size_t i = 0; i < rules.size(); ++i) {
    const Node& n = *rules[i];
    const Value k = n.inputs[1], v = n.inputs[2];
    RuleTap& t = taps.rules[i];
    t = {n.layer.block, n.attrs.as<DeltaRuleAttrs>(), k.dim(1), k.dim(2), v.dim(1), v.dim(2), {}, {}, {}, {}};
    outputs.take(k, t.k), outputs.take(v, t.v), outputs.take(n.inputs[3], t.gate), outputs.take(n.inputs[4], t.beta);
  }
  taps.experts.resize(routers.size());
  for (size_t i = 0; i < routers.size(); ++i) {
    taps.experts[i].first = routers[i]->layer.block;
    outputs.take(Value{const_cast<Graph*>(&g), routers[i]->id, 1}, taps.experts[i].second);
  }
}

void take_rows(const Graph& g, const ModelSpec& spec, Taps& taps, Outputs& outputs) {
  const auto named = [&](const std::string& name) {
    const std::optional<Value> v = g.find(name);
    check(bool(v), "look: the graph has no value '{}'", name);
    return *v;
  };
  taps.x.resize(spec.layers.size() + 1), taps.added.resize(spec.layers.size());
  Value x = named("x_embed");
  outputs.take(x, taps.x[0]);
  for (size_t l = 0; l < spec.layers.size(); ++l) {
    const Value out = named(fmt::format("blk.{}.out", l));
    std::vector<std::string> parts;
    if (spec.layers[l].mixer != MixerKind::none) parts.emplace_back("mixer");
    if (spec.layers[l].d_ff > 0) parts.emplace_back("ffn");
    if (spec.layer_embedding > 0) parts.emplace_back("input");
    const std::vector<Value> added = additions(g, x, out);
    if (added.size() == parts.size()) {
      taps.added[l].resize(added.size());
      for (size_t i = 0; i < added.size(); ++i) {
        taps.added[l][i].part = parts[i];
        outputs.take(added[i], taps.added[l][i].values);
      }
    }
    outputs.take(out, taps.x[l + 1]);
    x = out;
  }
}

}  // namespace

Blocks::Blocks(Device& device, const Model& model, int64_t tokens, bool exact, bool attention_only,
               std::span<const HeadId> without)
    : device_(device), model_(model), tokens_(tokens), attention_only_(attention_only) {
  auto all = std::make_unique<Graph>();
  const TensorType type{DType::i32, {tokens}, 0};
  check(!model.spec.vision.there(), "look: the model {} reads pictures, and no text", model.spec.name);
  const Value input = all->input("tokens", type, model.spec.vocab);
  const Value sequence = all->input("sequence", type), position = all->input("position", type, tokens);
  const Transformer transformer(model.spec, Weights(*all, dtypes_of(model)), tokens);
  nn::Context ctx{.batch = {.sequence = sequence, .position = position}};
  if (!model.spec.causal) ctx.until = all->input("until", type, tokens + 1);
  transformer(input, ctx);
  graph_ = without.empty() ? std::move(all) : without_heads(*all, model.spec, without);
  Taps taps;
  const Outputs outputs = taken(taps);
  for (const AttentionTap& t : taps.attention)
    heads_ += int64_t(query_heads(model.spec.layers[size_t(t.layer)], t.heads).size());
  if (outputs.list().empty()) return;
  for (const Value& v : outputs.list()) host_bytes_ += bytes_of(DType::f32, v.type().shape);  // as ids are
  plan_ = std::make_shared<const Plan>(compile(*graph_, outputs.list(), {}, device, plan_options(exact)));
  device_bytes_ = plan_->arena_bytes + plan_->input_bytes(device);
}

Outputs Blocks::taken(Taps& taps) const {
  Outputs outputs;
  taps.tokens = tokens_;
  take_ops(*graph_, taps, outputs, attention_only_);
  if (!attention_only_) take_rows(*graph_, model_.spec, taps, outputs);
  return outputs;
}

Taps Blocks::run(std::span<const int32_t> ids) const {
  Taps taps;
  const Outputs outputs = taken(taps);
  if (!plan_) return taps;
  require_memory(device_, device_bytes_, "a look at this text");
  Session session(device_, plan_, {model_.params.get()});
  std::vector<int32_t> positions(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) positions[i] = int32_t(i);
  session.set("tokens", ids);
  session.set("sequence", std::vector<int32_t>(ids.size(), 0));
  session.set("position", positions);
  if (!model_.spec.causal) session.set("until", std::vector<int32_t>(ids.size(), int32_t(ids.size())));
  session.run();
  outputs.read(session);
  return taps;
}

Taps run_blocks(Device& device, const Model& model, std::span<const int32_t> ids, bool exact, bool attention_only,
                std::span<const HeadId> without) {
  return Blocks(device, model, int64_t(ids.size()), exact, attention_only, without).run(ids);
}

}  // namespace toy::looking
