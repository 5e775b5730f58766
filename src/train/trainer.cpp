#include "toy/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "toy/base/memory.h"

namespace toy {
namespace {

struct LossValues {
  Value x_final, loss, nll;
};

// Inputs `tokens`, `targets`, `weight`, `sequence`, `position`, and the loss sum_i weight_i nll_i.
LossValues build_loss(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch,
                      int64_t tokens) {
  const int64_t n = batch * tokens;
  const TensorType ids{DType::i32, {n}, 0};
  const Value inputs = g.input("tokens", ids, spec.vocab), targets = g.input("targets", ids, spec.vocab);
  const Value weight = g.input("weight", {DType::f32, {n}, 0});
  const nn::Context ctx{.batch = {.sequence = g.input("sequence", ids), .position = g.input("position", ids, tokens)},
                        .rope = make_rope(g, spec, tokens),
                        .page_table = {}};
  const Transformer model(spec, Weights(g, dtype_of));
  const Value x = model(inputs, ctx);
  const CrossEntropy ce = linear_xent(x, model.output_weight(), targets, weight);
  return {x, ce.loss, ce.nll};
}

}  // namespace

std::vector<std::pair<std::string, TensorType>> moment_types(const ModelSpec& spec) {
  std::vector<std::pair<std::string, TensorType>> list;
  for (const TensorSpec& t : tensors_of(spec))
    for (const char* which : {".m", ".v"}) list.push_back({t.name + which, {DType::f32, t.shape, 0}});
  return list;
}

TrainGraph build_train_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, const TrainerOptions& options) {
  TrainGraph t{std::make_unique<Graph>(), {}, {}, {}, {}};
  Graph& g = *t.graph;
  t.loss = build_loss(g, spec, dtype_of, options.batch, options.tokens).loss;
  const std::vector<TensorSpec> tensors = tensors_of(spec);
  std::vector<Value> weights;
  for (const TensorSpec& s : tensors) weights.push_back(*g.find(s.name));
  t.gradients = gradients(t.loss, weights);
  const auto scope = g.scope("optimizer");
  const TensorType scalar{DType::f32, {}, 0};
  t.norm = global_norm(t.gradients);
  const Value gscale = clip_scale(t.norm, g.input("clip", scalar));
  const Value lr = g.input("lr", scalar), bias1 = g.input("bias1", scalar), bias2 = g.input("bias2", scalar);
  const AdamWOptions& o = options.optimizer;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& s = tensors[i];
    const TensorType type{DType::f32, s.shape, 0};
    const AdamWAttrs attrs{o.beta1, o.beta2, o.eps, s.decays() ? o.weight_decay : 0.0};
    const AdamWState next = adamw({weights[i], g.param(s.name + ".m", type), g.param(s.name + ".v", type)},
                                  t.gradients[i], lr, bias1, bias2, gscale, attrs);
    t.updates.insert(t.updates.end(), {next.w, next.m, next.v});
  }
  return t;
}

LossGraph build_loss_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch, int64_t tokens) {
  LossGraph l{std::make_unique<Graph>(), {}, {}, {}};
  const LossValues v = build_loss(*l.graph, spec, dtype_of, batch, tokens);
  l.loss = v.loss;
  l.nll = v.nll;
  l.logits = linear(v.x_final, *l.graph->find(spec.tied ? "token_embd.weight" : "output.weight"));
  return l;
}

Trainer::Trainer(Device& device, Model& model, const TrainerOptions& options)
    : device_(device), model_(model), options_(options), moments_(device) {
  check(options.batch >= 1, "batch is {}, expected at least 1", options.batch);
  check(options.tokens >= 1, "tokens is {}, expected at least 1", options.tokens);
  const AdamWOptions& o = options.optimizer;
  check(o.clip >= 0, "clip is {}, expected 0 (none) or more", o.clip);
  check(o.beta1 >= 0 && o.beta1 < 1, "beta1 is {}, expected 0 to below 1", o.beta1);
  check(o.beta2 >= 0 && o.beta2 < 1, "beta2 is {}, expected 0 to below 1", o.beta2);
  check(o.eps > 0 && std::isfinite(o.eps), "eps is {}, expected a positive number", o.eps);
  check(o.weight_decay >= 0 && std::isfinite(o.weight_decay), "weight-decay is {}, expected 0 or more", o.weight_decay);
  const ParamStore* store = model.params.get();
  const auto dtype_of = [store](const std::string& name) { return store->type(name).dtype; };
  const TrainGraph t = build_train_graph(model.spec, dtype_of, options);
  const std::vector<Value> outputs{t.loss, t.norm};
  plan_ = std::make_shared<const Plan>(compile(*t.graph, outputs, t.updates, device));
  require_memory(plan_->arena_bytes + plan_->param_bytes(device) + plan_->input_bytes(device) - store->bytes(),
                 "training this model with this batch");
  for (const auto& [name, type] : moment_types(model.spec)) moments_.add(name, type);
  session_ = std::make_unique<Session>(device, plan_, std::initializer_list<const ParamStore*>{store, &moments_});
  feed_batch(*session_);
}

size_t Trainer::planned_bytes() const {
  return plan_->arena_bytes + plan_->param_bytes(device_) + plan_->input_bytes(device_);
}

// Every sequence of the batch has its own rows, positions restart in each.
void Trainer::feed_batch(Session& session) const {
  std::vector<int32_t> sequence, position;
  for (int64_t b = 0; b < options_.batch; ++b)
    for (int64_t t = 0; t < options_.tokens; ++t) {
      sequence.push_back(int32_t(b));
      position.push_back(int32_t(t));
    }
  session.set("sequence", sequence);
  session.set("position", position);
}

StepResult Trainer::step(const Windows& windows, double lr) {
  const AdamWOptions& o = options_.optimizer;
  const int64_t n = options_.batch * options_.tokens;
  check(int64_t(windows.inputs.size()) == n && int64_t(windows.targets.size()) == n,
        "trainer: a batch of {} tokens, expected {}", windows.inputs.size(), n);
  ++steps_;
  session_->set("tokens", windows.inputs);
  session_->set("targets", windows.targets);
  session_->set("weight", std::vector<float>(size_t(n), float(1.0 / double(n))));
  session_->set("lr", float(lr));
  session_->set("bias1", float(1 - std::pow(o.beta1, double(steps_))));
  session_->set("bias2", float(1 - std::pow(o.beta2, double(steps_))));
  session_->set("clip", o.clip > 0 ? float(o.clip) : std::numeric_limits<float>::infinity());
  session_->run();
  return {session_->scalar(0), session_->scalar(1)};
}

EvalResult Trainer::evaluate(std::span<const int32_t> ids, int64_t max_tokens) {
  if (!eval_session_) {
    const ParamStore* store = model_.params.get();
    const LossGraph l = build_loss_graph(
        model_.spec, [store](const std::string& name) { return store->type(name).dtype; }, options_.batch,
        options_.tokens);
    const std::vector<Value> outputs{l.nll};
    auto plan = std::make_shared<const Plan>(compile(*l.graph, outputs, {}, device_));
    eval_session_ = std::make_unique<Session>(device_, plan, std::initializer_list<const ParamStore*>{store});
    feed_batch(*eval_session_);
  }
  const int64_t rows = options_.batch * options_.tokens;
  const int64_t limit = max_tokens > 0 ? std::min<int64_t>(max_tokens + 1, int64_t(ids.size())) : int64_t(ids.size());
  const std::vector<EvalWindow> windows =
      eval_windows(limit, options_.tokens, std::max<int64_t>(1, options_.tokens / 4));
  EvalResult result;
  for (size_t at = 0; at < windows.size(); at += size_t(options_.batch)) {
    std::vector<int32_t> inputs(static_cast<size_t>(rows), 0), targets(static_cast<size_t>(rows), 0);
    std::vector<float> weight(static_cast<size_t>(rows), 0.0f);
    for (size_t b = 0; b < size_t(options_.batch) && at + b < windows.size(); ++b) {
      const EvalWindow& w = windows[at + b];
      for (int64_t t = 0; t < w.tokens; ++t) {
        const size_t row = b * size_t(options_.tokens) + size_t(t);
        inputs[row] = ids[size_t(w.begin + t)];
        targets[row] = ids[size_t(w.begin + t + 1)];
        weight[row] = t >= w.skip ? 1.0f : 0.0f;
      }
    }
    eval_session_->set("tokens", inputs);
    eval_session_->set("targets", targets);
    eval_session_->set("weight", weight);
    eval_session_->run();
    const std::vector<float> nll = eval_session_->values(0);
    for (int64_t i = 0; i < rows; ++i)
      if (weight[size_t(i)] > 0) result.nats += nll[size_t(i)], ++result.tokens;
  }
  return result;
}

}  // namespace toy
