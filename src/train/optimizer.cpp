#include "toy/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "toy/base/glob.h"
#include "train/tensor_pattern.h"

namespace toy {
namespace {

using Options = OptimizerOptions;

constexpr int64_t kSmallestCoded = 4096;  // smaller tensors keep f32 moments (Dettmers et al. 2021, section 2)

void check_patterns(const Options& o, std::span<const TensorSpec> tensors, std::string_view what) {
  std::vector<std::string> names;
  for (const TensorSpec& t : tensors) names.push_back(t.name);
  for (const auto& [pattern, factor] : o.lr_for) require_match("lr-for", pattern, names, what);
  for (const std::string& pattern : o.no_decay) require_match("no-decay", pattern, names, what);
}

// Does the tensor lie between embedding and output, where Muon was made for (Jordan et al. 2024)?
bool is_hidden_matrix(const TensorSpec& t) { return t.shape.rank() >= 2 && t.init == TensorSpec::Init::matrix; }

TensorUpdate::Rule rule_for(const TensorSpec& t, const Options& o) {
  const bool embedding = t.init == TensorSpec::Init::embedding;
  switch (o.kind) {
    case Options::adamw:
      return TensorUpdate::adamw;
    case Options::sgd:
      return o.momentum > 0 ? TensorUpdate::sgd_momentum : TensorUpdate::sgd;
    case Options::adamw8:
      return embedding || t.shape.count() < kSmallestCoded ? TensorUpdate::adamw : TensorUpdate::adamw8;
    case Options::lion:
      return TensorUpdate::lion;
    case Options::adafactor:
      return t.shape.rank() == 2 ? TensorUpdate::adafactor : TensorUpdate::adafactor_vector;
    case Options::muon:
      return is_hidden_matrix(t) ? TensorUpdate::muon : TensorUpdate::adamw;
  }
  return TensorUpdate::adamw;
}

// Suffixes and types of what a rule keeps of a tensor, in the order in which its op takes them.
std::vector<std::pair<std::string, TensorType>> state_of(TensorUpdate::Rule rule, const Shape& shape) {
  const TensorType same{DType::f32, shape, 0};
  const int64_t blocks = code_blocks(shape.count());
  const TensorType codes{DType::i32, {blocks, kCodeBlock / 4}, 0}, scales{DType::f32, {blocks}, 0};
  switch (rule) {
    case TensorUpdate::adamw:
      return {{".m", same}, {".v", same}};
    case TensorUpdate::sgd:
      return {};
    case TensorUpdate::lion:
      return {{".m", same}};
    case TensorUpdate::adamw8:
      return {{".m8", codes}, {".m_scale", scales}, {".v8", codes}, {".v_scale", scales}};
    case TensorUpdate::adafactor:
      return {{".row", {DType::f32, {shape[0]}, 0}}, {".col", {DType::f32, {shape[1]}, 0}}};
    case TensorUpdate::sgd_momentum:
    case TensorUpdate::adafactor_vector:
    case TensorUpdate::muon:
      break;
  }
  return {{".v", same}};
}

// Of AdamW's moments.
bool corrects_bias(const Options& o) {
  return o.kind == Options::adamw || o.kind == Options::adamw8 || o.kind == Options::muon;
}

}  // namespace

OptimizerOptions parse_optimizer(std::string_view text, std::string_view what) {
  ListForm form{.between = '\0'};
  for (const auto& [name, kind] : NamesOf<Options::Kind>::list) form.words.emplace_back(name);
  const ListedWord optimizer = read_list(what, text, form).front();
  Options::Kind kind;
  read_value(optimizer.word, {}, kind);
  Options o = Options::of(kind);
  const std::vector<std::string_view> given = set_listed(o, optimizer, what);
  const auto is_given = [&](std::string_view name) {
    return std::find(given.begin(), given.end(), name) != given.end();
  };
  if (o.muon_scale == Options::match_rms && !is_given("adamw_factor")) o.adamw_factor = 1;
  if (o.momentum == 0 && !is_given("nesterov")) o.nesterov = false;
  return o;
}

std::string optimizer_text(const OptimizerOptions& o) { return listed_text(o, name_in_list(o.kind)); }

OptimizerOptions OptimizerOptions::of(Kind kind) {
  OptimizerOptions o{.kind = kind};
  switch (kind) {
    case adamw:
    case adamw8:
      break;
    case sgd:
      o.weight_decay = 1e-4;
      break;
    case lion:
      o.beta2 = 0.99, o.weight_decay = 1;
      break;
    case adafactor:
      o.eps = 1e-15;
      break;
    case muon:
      o.momentum = 0.95, o.nesterov = true, o.weight_decay = 0.01;
      break;
  }
  return o;
}

double OptimizerOptions::usual_lr() const {
  switch (kind) {
    case adamw:
    case adamw8:
      return 1e-3;
    case sgd:
      return 0.1;
    case lion:
      return 1e-4;
    case adafactor:
      return relative_step ? 1e-2 : 1e-3;
    case muon:
      return muon_scale == match_rms ? 1e-3 : 0.02;
  }
  return 1e-3;
}

void OptimizerOptions::validate() const {
  check_limits(*this);
  check(!nesterov || ((kind == sgd || kind == muon) && momentum > 0),
        "nesterov needs the optimizer sgd or muon with a momentum above 0");
  for (const auto& [pattern, factor] : lr_for)
    check(at_least(0).hold(factor), "lr_for {} is {}; use 0 or more", pattern, factor);
}

std::vector<TensorUpdate> tensor_updates(const ModelSpec& spec, const OptimizerOptions& o) {
  return tensor_updates(trained_tensors(spec), o);
}

std::vector<TensorUpdate> tensor_updates(std::span<const TensorSpec> tensors, const OptimizerOptions& o) {
  check_patterns(o, tensors, "trained tensor");
  std::vector<TensorUpdate> list;
  for (const TensorSpec& t : tensors) {
    TensorUpdate u{.rule = rule_for(t, o)};
    const bool spared =
        std::any_of(o.no_decay.begin(), o.no_decay.end(), [&](const auto& p) { return matches(p, t.name); });
    u.weight_decay = t.decays() && !spared ? o.weight_decay : 0;
    for (const auto& [pattern, factor] : o.lr_for)
      if (matches(pattern, t.name)) u.lr_factor = factor;
    if (o.lr_decay != 1) u.lr_factor *= std::pow(o.lr_decay, t.depth);
    if (o.kind == Options::muon && u.rule == TensorUpdate::adamw) u.lr_factor *= o.adamw_factor;
    for (const auto& [suffix, type] : state_of(u.rule, t.shape)) u.state.push_back({t.name + suffix, type});
    if (o.ema > 0) u.state.push_back({t.name + ".ema", {DType::f32, t.shape, 0}});
    list.push_back(std::move(u));
  }
  return list;
}

std::vector<std::pair<std::string, TensorType>> moment_types(const ModelSpec& spec, const OptimizerOptions& optimizer) {
  std::vector<std::pair<std::string, TensorType>> list;
  for (const TensorUpdate& u : tensor_updates(spec, optimizer)) list.insert(list.end(), u.state.begin(), u.state.end());
  return list;
}

Update::Update(Graph& graph, const OptimizerOptions& options, Value gscale)
    : graph_(graph), o_(options), gscale_(gscale) {}

Value Update::input(const char* name) {
  Value& v = inputs_[name];
  if (!v) v = graph_.input(name, {DType::f32, {}, 0});
  return v;
}

Value Update::lr(double factor) {
  Value& v = lr_[factor];
  if (!v) v = factor == 1 ? input("lr") : scale(input("lr"), factor);
  return v;
}

std::vector<Value> Update::operator()(const TensorSpec& spec, const TensorUpdate& how, Value weight, Value gradient) {
  std::vector<Value> state;
  for (const auto& [name, type] : how.state) state.push_back(graph_.param(name, type));
  std::vector<Value> next = step(how, state, weight, gradient);
  if (o_.ema > 0)
    next.push_back(
        ema(graph_.param(spec.name + ".ema", {DType::f32, spec.shape, 0}), next[0], input("ema_mix"), gscale_));
  return next;
}

std::vector<Value> Update::step(const TensorUpdate& how, const std::vector<Value>& s, Value w, Value g) {
  const double decay = how.weight_decay;
  const Value rate = lr(how.lr_factor);
  const AdamWAttrs adam{o_.beta1, o_.beta2, o_.eps, decay};
  const AdafactorAttrs factored{
      .eps = o_.eps, .clip = o_.update_clip, .weight_decay = decay, .relative = o_.relative_step};
  switch (how.rule) {
    case TensorUpdate::adamw: {
      const AdamWState n = toy::adamw({w, s[0], s[1]}, g, rate, input("bias1"), input("bias2"), gscale_, adam);
      return {n.w, n.m, n.v};
    }
    case TensorUpdate::adamw8: {
      const AdamW8State n =
          toy::adamw8({w, s[0], s[1], s[2], s[3]}, g, rate, input("bias1"), input("bias2"), gscale_, adam);
      return {n.w, n.m, n.m_scale, n.v, n.v_scale};
    }
    case TensorUpdate::sgd:
      return {toy::sgd({w, {}}, g, rate, gscale_, {0, decay, false}).w};
    case TensorUpdate::sgd_momentum: {
      const SgdState n = toy::sgd({w, s[0]}, g, rate, gscale_, {o_.momentum, decay, o_.nesterov});
      return {n.w, n.v};
    }
    case TensorUpdate::lion: {
      const LionState n = toy::lion({w, s[0]}, g, rate, gscale_, {o_.beta1, o_.beta2, decay});
      return {n.w, n.m};
    }
    case TensorUpdate::adafactor: {
      const AdafactorState n = toy::adafactor({w, s[0], s[1]}, g, rate, input("mix"), gscale_, factored);
      return {n.w, n.row, n.col};
    }
    case TensorUpdate::adafactor_vector: {
      const AdafactorState n = toy::adafactor({w, s[0], {}}, g, rate, input("mix"), gscale_, factored);
      return {n.w, n.row};
    }
    case TensorUpdate::muon:
      return muon_step(how, s[0], w, g);
  }
  fail_internal("optimizer: no such rule");
}

// v' = momentum v + g; w' = w - lr (s NS(g + momentum v') + wd w). The last line is sgd's, whose factor of the gradient
// carries s, or what is not finite.
std::vector<Value> Update::muon_step(const TensorUpdate& how, Value velocity, Value w, Value g) {
  const Momentum m = momentum(velocity, g, gscale_, {o_.momentum, o_.nesterov});
  const double rows = double(w.shape().back(1)), columns = double(w.shape().back(0));
  const double size = o_.muon_scale == Options::original ? std::sqrt(std::max(1.0, rows / columns))
                                                         : 0.2 * std::sqrt(std::max(rows, columns));
  const Value factor = gscale_ ? scale(gscale_, 0) + graph_.scalar(size) : graph_.scalar(size);
  return {toy::sgd({w, {}}, orthogonalized(m.step), lr(how.lr_factor), factor, {0, how.weight_decay, false}).w, m.v};
}

namespace {

// The inputs of a step, as feed_optimizer() sets them.
std::vector<std::string> inputs_of(const Options& o) {
  std::vector<std::string> names{"clip", "lr"};
  if (corrects_bias(o)) names.insert(names.end(), {"bias1", "bias2"});
  if (o.kind == Options::adafactor) names.emplace_back("mix");
  if (o.ema > 0) names.emplace_back("ema_mix");
  return names;
}

// Those that no update reads, such as muon's of vectors where there is none: they are fed all the same.
void add_inputs(Graph& g, const Options& o) {
  for (const std::string& name : inputs_of(o))
    if (!g.find(name)) g.input(name, f32());
}

}  // namespace

std::vector<Value> update_all(Graph& g, const OptimizerOptions& o, Value gscale, std::span<const TensorSpec> tensors,
                              std::span<const Value> weights, std::span<const Value> gradients,
                              const std::vector<bool>& only) {
  Update update(g, o, gscale);
  const std::vector<TensorUpdate> how = tensor_updates(tensors, o);
  std::vector<Value> updates;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (only.empty() || only[i])
      for (const Value& v : update(tensors[i], how[i], weights[i], gradients[i])) updates.push_back(v);
  return updates;
}

OptimizerStep clip_and_update(Graph& g, const OptimizerOptions& o, std::span<const TensorSpec> tensors,
                              std::span<const Value> weights, std::vector<Value> gradients,
                              const std::vector<bool>& only) {
  const auto scope = g.update_scope("optimizer");
  const Value norm = global_norm(gradients), gscale = clip_scale(norm, g.input("clip", f32()));
  std::vector<Value> updates = update_all(g, o, gscale, tensors, weights, gradients, only);
  if (!only.empty()) add_inputs(g, o);
  return {norm, std::move(gradients), std::move(updates)};
}

namespace {

// Before the graph is changed: half a step in it would be in the way of the next try.
void check_names_are_free(const Graph& g, const Options& o, std::span<const TensorSpec> tensors) {
  std::vector<std::string> names = inputs_of(o);
  for (const TensorUpdate& u : tensor_updates(tensors, o))
    for (const auto& [name, type] : u.state) names.push_back(name);
  for (const std::string& name : names)
    check(!g.find(name),
          "minimize: the optimizer needs the name '{}', which the graph has already; rename that value, or use a new "
          "graph for a second minimize()",
          name);
}

}  // namespace

OptimizerStep minimize(Value loss, std::span<const Value> params, const OptimizerOptions& options) {
  options.validate();
  check(loss.shape().rank() == 0, "minimize: the loss is {}; use a scalar, such as sum_all() of it", loss.type().str());
  check(!params.empty(), "minimize: there are no parameters to update");
  std::vector<TensorSpec> tensors;
  for (const Value& p : params) {
    check(p.graph == loss.graph, "minimize: parameter {} is not of the loss's graph", tensors.size());
    const Node& node = loss.graph->node(p);
    check(node.kind == NodeKind::param && p.type().dtype == DType::f32,
          "minimize: value {} is {} '{}' of {}; only f32 parameters (Graph::param) are updated", tensors.size(),
          node.kind == NodeKind::param ? "the parameter" : "no parameter:",
          node.kind == NodeKind::op ? node.op->name() : node.name, p.type().str());
    check(std::count(params.begin(), params.end(), p) == 1, "minimize: the parameter '{}' is given twice", node.name);
    using Init = TensorSpec::Init;
    tensors.push_back({p.shape().rank() >= 2 ? Init::matrix : Init::zeros, node.name, p.shape()});
  }
  check_patterns(options, tensors, "parameter");
  check_names_are_free(*loss.graph, options, tensors);
  const OptimizerStep step = clip_and_update(*loss.graph, options, tensors, params, gradients(loss, params));
  add_inputs(*loss.graph, options);
  return step;
}

void feed_optimizer(Session& session, const OptimizerOptions& o, int64_t updates, double lr) {
  const double t = double(updates + 1);
  session.set("clip", o.clip > 0 ? float(o.clip) : std::numeric_limits<float>::infinity());
  session.set("lr", float(o.relative_step ? std::min(lr, 1 / std::sqrt(t)) : lr));
  if (corrects_bias(o)) {
    session.set("bias1", float(1 - std::pow(o.beta1, t)));
    session.set("bias2", float(1 - std::pow(o.beta2, t)));
  }
  if (o.kind == Options::adafactor) session.set("mix", float(std::pow(t, -o.decay_rate)));
  // A young average forgets faster, so that the first weights do not weigh on it: decay min(ema, n / (9 + n)) behind n
  // updates, as TensorFlow's ExponentialMovingAverage. The first update sets it.
  if (o.ema > 0) session.set("ema_mix", float(std::max(1 - o.ema, 9 / (9 + double(updates)))));
}

AveragedWeights::AveragedWeights(const ModelSpec& spec, const ParamStore& weights, const ParamStore& moments)
    : device_(weights.device()), between_(device_, size_t(1) << 20) {
  for (const TensorSpec& t : trained_tensors(spec))
    if (const std::string average = t.name + ".ema"; moments.has(average))
      pairs_.push_back(
          {weights.place(t.name), moments.place(average), size_t(t.shape.count()) * size_of(weights.stored(t.name))});
  swap();
}

void AveragedWeights::swap() {
  for (const Pair& p : pairs_)
    for (size_t at = 0; at < p.bytes; at += between_.bytes()) {
      const size_t n = std::min(between_.bytes(), p.bytes - at);
      device_.copy(between_.at(), p.weight + at, n);
      device_.copy(p.weight + at, p.average + at, n);
      device_.copy(p.average + at, between_.at(), n);
    }
}

}  // namespace toy
