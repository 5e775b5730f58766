#include "toy/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "toy/backend/devices.h"
#include "toy/train/memory.h"
#include "train/agree.h"
#include "train/feed.h"
#include "train/objective.h"

namespace toy {
namespace {

struct LossValues {
  Value loss, nll, logits;
};

// Bytes of weights that stay in the file: frozen ones that the device can use as they are held.
size_t mapped_bytes(const Plan& plan, const ModelSpec& spec, const Device& device) {
  std::set<std::string, std::less<>> frozen;
  for (const TensorSpec& t : tensors_of(spec))
    if (!t.trained && t.adapter < 0) frozen.insert(t.name);  // an adapter's are made, not mapped
  size_t bytes = 0;
  for (const PlanLeaf& p : plan.params)
    if (frozen.contains(p.name) && device.host_visible() && device.storage(p.type.dtype) == p.type.dtype)
      bytes += bytes_of(p.type.dtype, p.type.shape);
  return bytes;
}

// Inputs `tokens`, `targets`, `weight`, `sequence`, `position`, and the loss sum_i weight_i nll_i.
// With dropout also `random`: its seed and the step. With logits: those of all rows.
LossValues build_loss(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch, int64_t tokens,
                      double dropout, bool trains, bool with_logits) {
  spec.require_positions(tokens, "tokens");
  const int64_t n = batch * tokens;
  const TensorType ids{DType::i32, {n}, 0};
  const Value inputs = g.input("tokens", ids, spec.vocab), targets = g.input("targets", ids, spec.vocab);
  const Value weight = g.input("weight", {DType::f32, {n}, 0});
  const Value sequence = g.input("sequence", ids), position = g.input("position", ids, tokens);
  const Value random = trains && drops(spec, dropout) ? g.input("random", {DType::i32, {3}, 0}) : Value{};
  const nn::Context ctx{.batch = {.sequence = sequence, .position = position},
                        .dropout = {dropout > 0 ? random : Value{}, dropout}};
  const Transformer model(spec, Weights(g, dtype_of), tokens, random);
  const Value x = model(inputs, ctx);
  const CrossEntropy ce = model.head.loss(x, targets, weight);
  return {ce.loss, ce.nll, with_logits ? model.head.logits(x) : Value{}};
}

// One for each trained tensor, which takes in the gradients of a step's batches.
std::vector<std::pair<std::string, TensorType>> accumulators_of(const ModelSpec& spec) {
  std::vector<std::pair<std::string, TensorType>> list;
  for (const TensorSpec& s : trained_tensors(spec))
    list.emplace_back(s.name + ".grad", TensorType{DType::f32, s.shape, 0});
  return list;
}

// Norm, clipping and the optimizer on gradients that are all there.
void add_updates(TrainGraph& t, const ModelSpec& spec, std::span<const Value> weights, const OptimizerOptions& o) {
  OptimizerStep step = clip_and_update(*t.graph, o, trained_tensors(spec), weights, std::move(t.gradients));
  t.norm = step.norm, t.gradients = std::move(step.gradients), t.updates = std::move(step.updates);
}

}  // namespace

bool drops(const ModelSpec& spec, double dropout) {
  return dropout > 0 ||
         std::any_of(spec.adapters.begin(), spec.adapters.end(), [](const AdapterSpec& a) { return a.dropout > 0; });
}

std::pair<DType, std::string> faster_compute(Device& device) {
  constexpr double kWorthIt = 1.2;  // bf16 costs precision: a tie goes to f32
  const double speedup = bf16_speedup(device);
  const DType type = speedup >= kWorthIt ? DType::bf16 : DType::f32;
  return {type,
          speedup > 0
              ? fmt::format("compute: {}; bf16 products are {:.2f} times as fast as f32 here", name_of(type), speedup)
              : fmt::format("compute: {}; device '{}' has no bf16 products", name_of(type), device.name())};
}

void TrainerOptions::validate() const {
  constexpr int64_t kMaxRows = (int64_t(1) << 31) - 1;
  check_limits(*this);
  check(batch <= kMaxRows / tokens, "batch {} of {} tokens is too large: expected at most {} rows per step", batch,
        tokens, kMaxRows);
  check(accumulate <= kMaxRows / (batch * tokens),
        "accumulate {} times {} rows is too large: expected at most {} rows per step", accumulate, batch * tokens,
        kMaxRows);
  check(accumulate == 1 || updates == gathered,
        "accumulate is {}: streaming updates forget each gradient as soon as it is used; use accumulate 1, or gathered "
        "updates",
        accumulate);
  optimizer.validate();
  if (preference) check_limits(*preference);
  check(updates == gathered || optimizer.clip == 0,
        "clip is {}: streaming updates never see all gradients together; use clip 0, or gathered updates",
        optimizer.clip);
}

namespace {

// `again`: see backward().
TrainGraph build_step(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, const TrainerOptions& options,
                      bool with_logits, const std::vector<bool>& again) {
  TrainGraph t{std::make_unique<Graph>(), {}, {}, {}, {}};
  Graph& g = *t.graph;
  const LossValues values =
      build_loss(g, spec, dtype_of, options.batch, options.tokens, options.dropout, true, with_logits);
  t.loss = values.loss, t.logits = values.logits;
  const std::vector<TensorSpec> tensors = trained_tensors(spec);
  check(!tensors.empty(), "train: nothing would be trained: every tensor is frozen");
  std::vector<Value> weights;
  for (const TensorSpec& s : tensors) weights.push_back(*g.find(s.name));
  if (options.updates == TrainerOptions::streaming) {
    // Not finite: the step is skipped. Made before the gradients, so that updates need not wait for it.
    const Value gscale = clip_scale(t.loss, g.input("clip", {DType::f32, {}, 0}));
    t.gradients = gradients(t.loss, weights, again);
    const auto scope = g.update_scope("optimizer");
    t.updates = update_all(g, options.optimizer, gscale, tensors, weights, t.gradients);
    return t;
  }
  t.gradients = gradients(t.loss, weights, again);
  if (options.accumulate == 1) {
    add_updates(t, spec, weights, options.optimizer);
    return t;
  }
  const auto scope = g.update_scope("accumulate");
  for (const auto& [name, type] : accumulators_of(spec))
    t.updates.push_back(accumulate(g.param(name, type), t.gradients[t.updates.size()]));
  return t;
}

}  // namespace

TrainGraph build_train_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, const TrainerOptions& options,
                             bool with_logits) {
  TrainGraph t = build_step(spec, dtype_of, options, with_logits, {});
  if (options.recompute.none()) return t;
  return build_step(spec, dtype_of, options, with_logits,
                    recomputed_nodes(*t.graph, t.loss, t.updates, options.recompute));
}

TrainGraph build_update_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, const TrainerOptions& options) {
  TrainGraph t{std::make_unique<Graph>(), {}, {}, {}, {}};
  std::vector<Value> weights;
  const auto accumulators = accumulators_of(spec);
  for (const TensorSpec& s : trained_tensors(spec)) {
    weights.push_back(t.graph->param(s.name, {dtype_of(s.name), s.shape, 0}));
    const auto& [name, type] = accumulators[t.gradients.size()];
    t.gradients.push_back(t.graph->param(name, type));
  }
  add_updates(t, spec, weights, options.optimizer);
  return t;
}

LossGraph build_loss_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch, int64_t tokens) {
  LossGraph l{std::make_unique<Graph>(), {}, {}, {}};
  const LossValues v = build_loss(*l.graph, spec, dtype_of, batch, tokens, 0, false, true);
  l.loss = v.loss, l.nll = v.nll, l.logits = v.logits;
  return l;
}

TrainPlans compile_training(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
                            const TrainerOptions& options) {
  options.validate();
  check(device.has_products(options.compute), "compute: device '{}' on this machine has no products in {}; use f32",
        device.name(), name_of(options.compute));
  const PlanOptions plan_options{.fuse = !options.check_finite};  // single ops are to be named
  PlanOptions step_options = plan_options;
  step_options.products = options.compute;
  const auto compiled = [&](const TrainGraph& t, const PlanOptions& o) {
    std::vector<Value> outputs;
    for (const Value& v : {t.loss, t.norm})
      if (v) outputs.push_back(v);
    return std::make_shared<const Plan>(compile(*t.graph, outputs, t.updates, device, o));
  };
  TrainPlans plans{.step = compiled(build_train_graph(spec, dtype_of, options), step_options)};
  plans.mapped = mapped_bytes(*plans.step, spec, device);
  if (options.accumulate > 1) plans.update = compiled(build_update_graph(spec, dtype_of, options), plan_options);
  for (const ForwardPass& p : make_objective(options, spec)->passes()) {
    Graph graph;
    const double dropout = p.drops ? options.dropout : 0;
    const Value nll = build_loss(graph, p.spec, dtype_of, options.batch, options.tokens, dropout, p.drops, false).nll;
    plans.forwards.push_back(
        std::make_shared<const Plan>(compile(graph, std::vector<Value>{nll}, {}, device, plan_options)));
  }
  return plans;
}

std::vector<const Plan*> TrainPlans::all() const {
  std::vector<const Plan*> list;
  for (const auto& p : {step, update})
    if (p) list.push_back(p.get());
  for (const auto& p : forwards) list.push_back(p.get());
  return list;
}

size_t TrainPlans::arena_bytes() const {
  size_t bytes = 0;
  for (const Plan* p : all()) bytes = std::max(bytes, p->arena_bytes);
  return bytes;
}

size_t TrainPlans::bytes(const Device& device) const {
  // An update touches all that is trained, which a step that does not accumulate does, too.
  std::map<std::string, size_t, std::less<>> params;
  for (const Plan* p : {step.get(), update.get()})
    for (size_t i = 0; p && i < p->params.size(); ++i) {
      const PlanLeaf& leaf = p->params[i];
      params[leaf.name] = bytes_of(device.storage(leaf.type.dtype), leaf.type.shape);
    }
  size_t bytes = arena_bytes();
  for (const auto& [name, size] : params) bytes += size;
  bytes -= std::min(bytes, mapped);
  for (const Plan* p : all()) bytes += p->input_bytes(device);
  return bytes;
}

Trainer::Trainer(Device& device, Model& model, const TrainerOptions& options)
    : device_(device), model_(model), options_(options), moments_(device), accumulators_(device) {
  const ParamStore* store = model.params.get();
  const auto dtype_of = [store](const std::string& name) { return store->type(name).dtype; };
  plans_ = compile_training(device, model.spec, dtype_of, options);
  require_room(device, model.spec, dtype_of, options, planned_bytes(), store->bytes());
  for (const auto& [name, type] : moment_types(model.spec, options.optimizer)) moments_.add(name, type);
  if (plans_.update) accumulators_.add(accumulators_of(model.spec));
  const std::initializer_list<const ParamStore*> stores{store, &moments_, &accumulators_};
  arena_ = std::make_shared<const DeviceBuffer>(device, plans_.arena_bytes());
  session_ = std::make_unique<Session>(device, plans_.step, stores, arena_);
  session_->check_finite(options.check_finite);
  if (plans_.update) {
    update_session_ = std::make_unique<Session>(device, plans_.update, stores, arena_);
    update_session_->check_finite(options.check_finite);
  }
  forwards_.resize(plans_.forwards.size());
  objective_ = make_objective(options_, model.spec);
}

Trainer::~Trainer() = default;

void Trainer::resume(int64_t steps, int64_t updates) {
  check(steps >= updates && updates >= 0, "trainer: {} steps with {} updates cannot be", steps, updates);
  steps_ = steps;
  updates_ = updates;
}

double Trainer::run_batch(const Windows& windows, int64_t number, std::span<const float> weights) {
  const int64_t first = number * places();
  feed_windows(*session_, windows.part(first, places()), options_.tokens,
               weights.subspan(size_t(first), size_t(places())));
  if (drops(model_.spec, options_.dropout))
    feed_random(*session_, options_.seed, updates_ * options_.accumulate + number);
  run_session(*session_, "step", steps_);
  return session_->scalar(0);
}

std::vector<float> Trainer::nlls(size_t pass, const Windows& batch, const char* what, std::optional<int64_t> random) {
  std::unique_ptr<Session>& session = forwards_[pass];
  if (!session) {
    session = std::make_unique<Session>(device_, plans_.forwards[pass],
                                        std::initializer_list<const ParamStore*>{model_.params.get()}, arena_);
    session->check_finite(options_.check_finite);
  }
  feed_windows(*session, batch, options_.tokens, std::vector<float>(batch.inputs.size(), 1));
  if (random) feed_random(*session, options_.seed, *random);
  run_session(*session, what, steps_);
  return session->values(0);
}

StepWeights Trainer::weigh(const Windows& windows) {
  return objective_->weigh(*this, windows, updates_ * options_.accumulate);
}

StepResult Trainer::step(const Windows& windows, double lr, std::optional<StepWeights> given) {
  const int64_t some = int64_t(windows.inputs.size()) / places();
  const int64_t batches = given && options_.accumulate > 1 ? std::max<int64_t>(1, some) : options_.accumulate;
  const int64_t n = places() * batches;
  check(int64_t(windows.inputs.size()) == n && int64_t(windows.targets.size()) == n,
        "trainer: a batch of {} tokens, expected {}", windows.inputs.size(), n);
  check(!given || int64_t(given->targets.size()) == n, "trainer: {} weights for {} targets",
        given ? given->targets.size() : 0, n);
  check(windows.sequence.size() == windows.position.size() &&
            (windows.sequence.empty() || int64_t(windows.sequence.size()) == n),
        "trainer: {} sequences and {} positions for {} tokens; expected none, or one of each for every token",
        windows.sequence.size(), windows.position.size(), n);
  ++steps_;
  const StepWeights weights = given ? *std::move(given) : weigh(windows);
  Session& last = update_session_ ? *update_session_ : *session_;
  feed_optimizer(last, options_.optimizer, updates_, lr);
  accumulators_.clear();
  StepResult result;
  for (int64_t i = 0; i < batches; ++i) result.loss += run_batch(windows, i, weights.targets);
  if (weights.preference) result.preference = *weights.preference, result.loss = result.preference.mean_loss();
  if (update_session_) run_session(last, "step", steps_);
  if (options_.updates == TrainerOptions::gathered) result.grad_norm = last.scalar(last.plan().outputs.size() - 1);
  result.skipped = !agree(std::isfinite(result.grad_norm.value_or(result.loss)));
  if (!result.skipped) ++updates_;  // else nothing has changed, the moments' age included
  return result;
}

EvalResult Trainer::evaluate(const ValidationRows& rows, int64_t max_tokens, const std::function<bool()>& stop) {
  return objective_->evaluate(*this, rows, max_tokens, stop);
}

}  // namespace toy
