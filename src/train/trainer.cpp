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
// With dropout also `random`: its seed and the step.
LossValues build_loss(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch, int64_t tokens,
                      double dropout) {
  spec.require_positions(tokens, "tokens");
  const int64_t n = batch * tokens;
  const TensorType ids{DType::i32, {n}, 0};
  const Value inputs = g.input("tokens", ids, spec.vocab), targets = g.input("targets", ids, spec.vocab);
  const Value weight = g.input("weight", {DType::f32, {n}, 0});
  const nn::Context ctx{.batch = {.sequence = g.input("sequence", ids), .position = g.input("position", ids, tokens)},
                        .rope = make_rope(g, spec, tokens),
                        .page_table = {},
                        .dropout = {dropout > 0 ? g.input("random", {DType::i32, {3}, 0}) : Value{}, dropout}};
  const Transformer model(spec, Weights(g, dtype_of));
  const Value x = model(inputs, ctx);
  const CrossEntropy ce = linear_xent(x, model.output_weight(), targets, weight);
  return {x, ce.loss, ce.nll};
}

// Says in an error when it happened.
void run_session(Session& session, const char* what, int64_t step) {
  try {
    session.run();
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{} {}: {}", what, step, e.what()));
  }
}

}  // namespace

void TrainerOptions::validate() const {
  constexpr int64_t kMaxRows = (int64_t(1) << 31) - 1;
  check(batch >= 1, "batch is {}, expected at least 1", batch);
  check(tokens >= 1, "tokens is {}, expected at least 1", tokens);
  check(batch <= kMaxRows / tokens, "batch {} of {} tokens are too many: expected at most {} rows a step", batch,
        tokens, kMaxRows);
  check(dropout >= 0 && dropout < 1, "dropout is {}, expected 0 to below 1", dropout);
  optimizer.validate();
  check(updates == gathered || optimizer.clip == 0,
        "clip is {}: streaming updates never see all gradients together; use clip 0, or gathered updates",
        optimizer.clip);
}

TrainGraph build_train_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, const TrainerOptions& options) {
  TrainGraph t{std::make_unique<Graph>(), {}, {}, {}, {}};
  Graph& g = *t.graph;
  t.loss = build_loss(g, spec, dtype_of, options.batch, options.tokens, options.dropout).loss;
  const std::vector<TensorSpec> tensors = tensors_of(spec);
  std::vector<Value> weights;
  for (const TensorSpec& s : tensors) weights.push_back(*g.find(s.name));
  const Value clip = g.input("clip", {DType::f32, {}, 0});
  // Not finite: the step is skipped. Made before the gradients, so that updates need not wait for it.
  Value gscale;
  if (options.updates == TrainerOptions::streaming) gscale = clip_scale(t.loss, clip);
  t.gradients = gradients(t.loss, weights);
  const auto scope = g.scope("optimizer");
  if (options.updates == TrainerOptions::gathered) {
    t.norm = global_norm(t.gradients);
    gscale = clip_scale(t.norm, clip);
  }
  Update update(g, options.optimizer, gscale);
  const std::vector<TensorUpdate> how = tensor_updates(spec, options.optimizer);
  for (size_t i = 0; i < tensors.size(); ++i)
    for (const Value& v : update(tensors[i], how[i], weights[i], t.gradients[i])) t.updates.push_back(v);
  return t;
}

LossGraph build_loss_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch, int64_t tokens) {
  LossGraph l{std::make_unique<Graph>(), {}, {}, {}};
  const LossValues v = build_loss(*l.graph, spec, dtype_of, batch, tokens, 0);
  l.loss = v.loss;
  l.nll = v.nll;
  l.logits = linear(v.x_final, *l.graph->find(spec.tied ? "token_embd.weight" : "output.weight"));
  return l;
}

Trainer::Trainer(Device& device, Model& model, const TrainerOptions& options)
    : device_(device), model_(model), options_(options), moments_(device) {
  options.validate();
  check(device.has_products(options.compute), "compute: device '{}' on this machine has no products in {}; use f32",
        device.name(), name_of(options.compute));
  const ParamStore* store = model.params.get();
  const auto dtype_of = [store](const std::string& name) { return store->type(name).dtype; };
  const TrainGraph t = build_train_graph(model.spec, dtype_of, options);
  std::vector<Value> outputs{t.loss};
  if (t.norm) outputs.push_back(t.norm);
  const PlanOptions plan_options{.fuse = !options.check_finite};  // single ops are to be named
  PlanOptions step_options = plan_options;
  step_options.products = options.compute;
  plan_ = std::make_shared<const Plan>(compile(*t.graph, outputs, t.updates, device, step_options));
  const LossGraph l = build_loss_graph(model.spec, dtype_of, options.batch, options.tokens);
  eval_plan_ = std::make_shared<const Plan>(compile(*l.graph, std::vector<Value>{l.nll}, {}, device, plan_options));
  require_memory(planned_bytes() - std::min(planned_bytes(), store->bytes()), "training this model with this batch");
  for (const auto& [name, type] : moment_types(model.spec, options.optimizer)) moments_.add(name, type);
  session_ = std::make_unique<Session>(device, plan_, std::initializer_list<const ParamStore*>{store, &moments_});
  session_->check_finite(options.check_finite);
  feed_batch(*session_);
}

size_t Trainer::planned_bytes() const {
  return plan_->arena_bytes + plan_->param_bytes(device_) + plan_->input_bytes(device_) + eval_plan_->arena_bytes +
         eval_plan_->input_bytes(device_);
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
  const OptimizerOptions& o = options_.optimizer;
  const int64_t n = options_.batch * options_.tokens;
  check(int64_t(windows.inputs.size()) == n && int64_t(windows.targets.size()) == n,
        "trainer: a batch of {} tokens, expected {}", windows.inputs.size(), n);
  session_->set("tokens", windows.inputs);
  session_->set("targets", windows.targets);
  session_->set("weight", std::vector<float>(size_t(n), float(1.0 / double(n))));
  feed_optimizer(*session_, o, updates_, lr);
  session_->set("clip", o.clip > 0 ? float(o.clip) : std::numeric_limits<float>::infinity());
  if (options_.dropout > 0)
    session_->set("random", std::vector<int32_t>{int32_t(uint32_t(options_.seed)), int32_t(options_.seed >> 32),
                                                 int32_t(updates_)});
  run_session(*session_, "step", ++steps_);
  StepResult result{session_->scalar(0), {}, false};
  if (plan_->outputs.size() > 1) result.grad_norm = session_->scalar(1);
  result.skipped = !std::isfinite(result.grad_norm.value_or(result.loss));
  if (!result.skipped) ++updates_;  // else nothing has changed, the moments' age included
  return result;
}

EvalResult Trainer::evaluate(std::span<const int32_t> ids, int64_t max_tokens) {
  if (!eval_session_) {
    eval_session_ =
        std::make_unique<Session>(device_, eval_plan_, std::initializer_list<const ParamStore*>{model_.params.get()});
    eval_session_->check_finite(options_.check_finite);
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
    run_session(*eval_session_, "validation after step", steps_);
    const std::vector<float> nll = eval_session_->values(0);
    for (int64_t i = 0; i < rows; ++i)
      if (weight[size_t(i)] > 0) result.nats += nll[size_t(i)], ++result.tokens;
  }
  return result;
}

}  // namespace toy
