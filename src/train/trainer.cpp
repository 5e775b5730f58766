#include "toy/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "toy/backend/devices.h"
#include "toy/base/clock.h"
#include "toy/models/vision.h"
#include "toy/train/memory.h"
#include "train/agree.h"
#include "train/contrastive.h"
#include "train/crew.h"
#include "train/device_sums.h"
#include "train/early_sums.h"
#include "train/feed.h"
#include "train/gradient_sums.h"
#include "train/local_steps.h"
#include "train/objective.h"
#include "train/shard_optimizer.h"
#include "train/sum_ranks.h"
#include "train/text_classes.h"

namespace toy {
namespace {

struct LossValues {
  Value loss, nll, logits, hidden;
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

// Of pictures: inputs of VisionGraph, `shares` [B,K] of classes and `weight`, of which that at the first place of each
// picture counts: the loss is sum_b weight_b ce_b. What stands for `nll` are the logits, from which all follows.
LossValues build_image_loss(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t images,
                            double dropout, bool trains, bool with_logits) {
  const Value random = trains && drops(spec, dropout) ? g.input("random", {DType::i32, {3}, 0}) : Value{};
  const VisionGraph v = build_vision(g, spec, dtype_of, images, random, dropout);
  const Value shares = g.input("shares", {DType::f32, {images, spec.vocab}, 0});
  const Value weight = g.input("weight", {DType::f32, {images * v.rows}, 0});
  const Value of_images = slice(reshape(weight, {images, v.rows}), 1, 0, 1);
  return {sum_all(of_images * soft_cross_entropy(v.logits, shares)), v.logits, with_logits ? v.logits : Value{}, {}};
}

// Inputs `tokens`, `targets`, `weight`, `sequence`, `position`, and the loss sum_i weight_i nll_i.
// With dropout also `random`: its seed and the step. With logits: those of all rows. Of pairs see ContrastiveGraph,
// whose vectors stand for `nll`, and of classes of texts TextClassGraph, whose logits do.
LossValues build_loss(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch, int64_t tokens,
                      double dropout, bool trains, bool with_logits, int64_t spread = 0,
                      const std::optional<ContrastiveOptions>& contrastive = {}) {
  if (contrastive) {
    const Value random = trains && drops(spec, dropout) ? g.input("random", {DType::i32, {3}, 0}) : Value{};
    const ContrastiveGraph c = build_contrastive(g, spec, dtype_of, batch, tokens, random, dropout, *contrastive);
    return {c.loss, c.vectors, {}, {}};
  }
  if (spec.score.there()) {
    const Value random = trains && drops(spec, dropout) ? g.input("random", {DType::i32, {3}, 0}) : Value{};
    const TextClassGraph c = build_text_classes(g, spec, dtype_of, batch, tokens, random, dropout);
    return {c.loss, c.logits, with_logits ? c.logits : Value{}, {}};
  }
  spec.require_positions(tokens, "tokens");
  if (spec.vision.there()) return build_image_loss(g, spec, dtype_of, batch, dropout, trains, with_logits);
  const int64_t n = batch * tokens;
  const TensorType ids{DType::i32, {n}, 0};
  const Value inputs = g.input("tokens", ids, spec.vocab), targets = g.input("targets", ids, spec.vocab);
  const Value weight = g.input("weight", {DType::f32, {n}, 0});
  const Value sequence = g.input("sequence", ids), position = g.input("position", ids, tokens);
  const Value random = trains && drops(spec, dropout) ? g.input("random", {DType::i32, {3}, 0}) : Value{};
  const nn::Context ctx{.batch = {.sequence = sequence, .position = position},
                        .dropout = {dropout > 0 ? random : Value{}, dropout},
                        .until = spec.causal ? Value{} : g.input("until", ids, tokens + 1),
                        .spread = spread_inputs(g, n, tokens, spread)};
  const Transformer model(spec, Weights(g, dtype_of), tokens, random);
  const Value x = model(inputs, ctx);
  const CrossEntropy ce = model.head.loss(x, targets, weight);
  return {ce.loss, ce.nll, with_logits ? model.head.logits(x) : Value{}, x};
}

// Norm, clipping and the optimizer on gradients that are all there.
void add_updates(TrainGraph& t, const ModelSpec& spec, std::span<const Value> weights, const TrainerOptions& o) {
  const std::vector<bool> only = owners_of(spec, o).empty() ? std::vector<bool>() : owned(spec, o);
  OptimizerStep step =
      clip_and_update(*t.graph, o.optimizer, trained_tensors(spec), weights, std::move(t.gradients), only);
  t.norm = step.norm, t.gradients = std::move(step.gradients), t.updates = std::move(step.updates);
}

}  // namespace

bool can_spread(const ModelSpec& spec) {
  return spec.causal && !spec.vision.there() && std::ranges::all_of(spec.layers, [](const LayerSpec& l) {
           return l.mixer == MixerKind::attention && !l.sinks;  // whose sums of scores are read where they were made
         });
}

bool drops(const ModelSpec& spec, double dropout) {
  return dropout > 0 ||
         std::any_of(spec.adapters.begin(), spec.adapters.end(), [](const AdapterSpec& a) { return a.dropout > 0; });
}

std::pair<DType, std::string> faster_compute(Device& device) {
  if (const std::string how = device.arithmetic(DType::bf16); how.find("cuBLASLt") != how.npos)
    return {DType::bf16, fmt::format("compute: bf16; its products run on tensor cores here ({})", how)};
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
  check(batch <= kMaxRows / tokens, "batch is {}; with {} tokens per row use at most {}", batch, tokens,
        kMaxRows / tokens);
  check(accumulate <= kMaxRows / (batch * tokens), "accumulate is {}; with {} tokens per batch use at most {}",
        accumulate, batch * tokens, kMaxRows / (batch * tokens));
  check(accumulate == 1 || updates == gathered,
        "accumulate is {}, and streaming updates forget each gradient as soon as it is used; leave out --accumulate, "
        "or --update",
        accumulate);
  check(shards == 1 || updates == gathered,
        "shards is {}, and streaming updates forget each gradient as soon as it is used; use --shards 1, or leave out "
        "--update",
        shards);
  check(wire == Wire::f32 || shards > 1,
        "wire is bf16, and there is one shard, which nothing is exchanged with; use --shards 2 or more, or wire f32");
  check(batch % shards == 0, "{} {} cannot share a batch of {} in equal parts; use --batch {}", shards,
        ranks && ranks->size() == shards ? "processes" : "shards", batch, (batch / shards + 1) * shards);
  check(!ranks || can_share(shards, ranks->size()),
        "shards: {} ranks cannot share {} shards in equal subtrees; start {} ranks, or use --shards {}",
        ranks ? ranks->size() : 1, shards, sharing_ranks(shards), ranks ? ranks->size() : 1);
  validate_local();
  optimizer.validate();
  if (preference) check_limits(*preference);
  check(spread == 0 || (shards == 1 && dropout == 0), "trainer: shared beginnings are for one shard without dropout");
  if (contrastive) check_limits(*contrastive);
  check(!contrastive || sequences() >= 2,
        "batch is {}{}: the wrong answers to an anchor are those of the other pairs, so use 2 or more{}", batch,
        shards > 1 ? fmt::format(" in {} shards", shards) : "", shards > 1 ? " in each" : "");
  check(updates == gathered || optimizer.clip == 0,
        "clip is {}, and streaming updates never see all gradients together; add --clip 0, or leave out --update",
        optimizer.clip);
}

void TrainerOptions::validate_local() const {
  if (local_steps == 0) return;
  check(ranks && ranks->size() == shards && shards > 1,
        "local-steps: each rank trains on a shard of its own; start {} ranks (here: ranks {}, shards {})",
        std::max<int64_t>(2, shards), ranks ? ranks->size() : 1, shards);
  check(optimizer.ema == 0, "local-steps: an average of the weights (ema {}) is for ranks that share every step",
        optimizer.ema);
  check(wire == Wire::f32, "local-steps: weights are averaged, which bf16 would round; use wire f32");
  check(!preference && !contrastive, "local-steps: preferences and pairs compare all rows of a step; leave it out");
}

namespace {

// `again`: see backward().
TrainGraph build_step(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, const TrainerOptions& options,
                      bool with_logits, const std::vector<bool>& again) {
  TrainGraph t{std::make_unique<Graph>(), {}, {}, {}, {}};
  Graph& g = *t.graph;
  const LossValues values = build_loss(g, spec, dtype_of, options.sequences(), options.tokens, options.dropout, true,
                                       with_logits, options.spread, options.contrastive);
  t.loss = values.loss, t.logits = values.logits;
  if (options.hidden) t.hidden = values.hidden;
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
  if (options.passes() == 1) {
    add_updates(t, spec, weights, options);
    return t;
  }
  const auto scope = g.update_scope("accumulate");
  for (const auto& [name, type] : accumulators_of(spec, 0))
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
  const auto accumulators = accumulators_of(spec, SumTree(local_shards(options)).levels());
  for (const TensorSpec& s : trained_tensors(spec)) {
    weights.push_back(t.graph->param(s.name, {dtype_of(s.name), s.shape, 0}));
    const auto& [name, type] = accumulators[t.gradients.size()];
    t.gradients.push_back(t.graph->param(name, type));
  }
  add_updates(t, spec, weights, options);
  return t;
}

LossGraph build_loss_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch, int64_t tokens) {
  LossGraph l{std::make_unique<Graph>(), {}, {}, {}};
  const LossValues v = build_loss(*l.graph, spec, dtype_of, batch, tokens, 0, false, true);
  l.loss = v.loss, l.nll = v.nll, l.logits = v.logits;
  return l;
}

PlanOptions step_plan_options(const ModelSpec& spec, const TrainerOptions& options) {
  return {.products = options.compute,
          .round_again =
              !options.recompute.none() || options.updates == TrainerOptions::streaming || !spec.adapters.empty(),
          .fuse = !options.check_finite};  // single ops are to be named
}

TrainPlans compile_training(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
                            const TrainerOptions& options) {
  options.validate();
  check(!spec.score.there() || (spec.score.classifies() && options.classes),
        "model {}: it {} texts and is not trained so; use {}", spec.name,
        spec.score.classifies() ? "classifies" : "ranks",
        spec.score.classifies() ? "toy train classify" : "a model without cls.output");
  check(spec.causal || spec.vision.there() || spec.score.there() || options.contrastive || spec.mask_head,
        "model {}: it is an encoder, which learns from hidden tokens; use toy train from-scratch --objective mlm, or "
        "give it pairs of texts (toy train contrastive) or classes (toy train classify)",
        spec.name);
  check(device.has_products(options.compute), "compute: device '{}' on this machine has no products in {}; use f32",
        device.name(), name_of(options.compute));
  const PlanOptions plan_options{.fuse = !options.check_finite};
  const auto compiled = [&](const TrainGraph& t, const PlanOptions& o) {
    std::vector<Value> outputs;
    for (const Value& v : {t.loss, t.norm, t.hidden})
      if (v) outputs.push_back(v);
    return std::make_shared<const Plan>(compile(*t.graph, outputs, t.updates, device, o));
  };
  TrainPlans plans{.step = compiled(build_train_graph(spec, dtype_of, options), step_plan_options(spec, options))};
  plans.mapped = mapped_bytes(*plans.step, spec, device);
  if (options.passes() > 1) {
    plans.update = compiled(build_update_graph(spec, dtype_of, options), plan_options);
    plans.sums = compile_sums(device, spec, options);
    plans.outer = compile_outer(device, spec, options);
    if (options.ranks && options.ranks->size() > 1 && (device.host_visible() || DeviceSums::possible(device)))
      plans.exchange = sum_buffer_bytes(options.ranks->size(), device.storage(DType::f32), size_t(trained_count(spec)),
                                        options.wire == TrainerOptions::Wire::bf16);
  }
  for (const ForwardPass& p : make_objective(options, spec)->passes()) {
    Graph graph;
    const double dropout = p.drops ? options.dropout : 0;
    const Value nll = build_loss(graph, p.spec, dtype_of, options.sequences(), options.tokens, dropout, p.drops, false,
                                 0, options.contrastive)
                          .nll;
    plans.forwards.push_back(
        std::make_shared<const Plan>(compile(graph, std::vector<Value>{nll}, {}, device, plan_options)));
  }
  return plans;
}

std::vector<const Plan*> TrainPlans::steps() const {
  std::vector<const Plan*> list;
  for (const auto& p : {step, update, outer})
    if (p) list.push_back(p.get());
  for (const auto& p : sums) list.push_back(p.get());
  return list;
}

std::vector<const Plan*> TrainPlans::all() const {
  std::vector<const Plan*> list = steps();
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
  for (const Plan* p : steps())
    for (const PlanLeaf& leaf : p->params)
      params[leaf.name] = bytes_of(device.storage(leaf.type.dtype), leaf.type.shape);
  size_t bytes = arena_bytes();
  for (const auto& [name, size] : params) bytes += size;
  bytes -= std::min(bytes, mapped);
  bytes += exchange;
  for (const Plan* p : all()) bytes += p->input_bytes(device);
  return bytes;
}

Trainer::Trainer(Device& device, Model& model, const TrainerOptions& options)
    : device_(device), model_(model), options_(options), moments_(device) {
  options.validate();
  const ParamStore* store = model.params.get();
  const auto dtype_of = [store](const std::string& name) { return store->type(name).dtype; };
  plans_ = compile_training(device, model.spec, dtype_of, options);
  const bool shares = options.ranks && options.ranks->size() > 1;
  if (shares && options.ranks->rank() > 0)  // whose weights are yet to be sent
    require_room(device, model.spec, dtype_of, options, planned_bytes() + plans_.mapped, 0);
  else
    require_room(device, model.spec, dtype_of, options, planned_bytes(), store->bytes());
  const std::optional<RankMemory> memory =
      shares ? std::optional(memory_of_rank(device, plans_, *store, *options.ranks)) : std::nullopt;
  all_moments_ = owned_moments(model.spec, options);
  for (const OwnedMoment& m : all_moments_)
    if (!m.weight && m.rank == (options.ranks ? options.ranks->rank() : 0)) moments_.add(m.local, m.type);
  arena_ = std::make_shared<const DeviceBuffer>(device, plans_.arena_bytes());
  const auto session = [&](const std::shared_ptr<const Plan>& plan, const ParamStore& gradients) {
    const std::initializer_list<const ParamStore*> stores{store, &moments_, &gradients};
    auto made = std::make_unique<Session>(device, plan, stores, arena_);
    made->check_finite(options.check_finite);
    return made;
  };
  if (plans_.update) {
    sums_ = std::make_unique<GradientSums>(device, plans_, model.spec, options, arena_);
    update_session_ = session(plans_.update, sums_->sum());
  }
  session_ = session(plans_.step, sums_ ? sums_->shard() : moments_);
  if (shares) {
    crew_ = std::make_unique<Crew>(device, model, options, *memory);
    if (options.local_steps > 0)
      local_ = std::make_unique<LocalSteps>(device, model, options, plans_, moments_, *sums_, arena_);
    else if (device.host_visible() && options.ranks->any_thread())
      early_ = std::make_unique<EarlySums>(*plans_.step, model.spec, *sums_, *crew_);
    if (!early_) crew_->reserve(sums_->bytes());
  }
  forwards_.resize(plans_.forwards.size());
  objective_ = make_objective(options_, model.spec);
}

Trainer::~Trainer() = default;

void Trainer::resume(int64_t steps, int64_t updates) {
  check(steps >= updates && updates >= 0, "trainer: {} steps with {} updates cannot be", steps, updates);
  steps_ = steps;
  updates_ = updates;
  shared_ = false;
}

double Trainer::run_pass(const StepPart& part, int64_t i, int64_t number, bool last) {
  const int64_t first = i * places();
  feed_windows(*session_, part.rows.part(first, places()), options_,
               std::span(part.weights).subspan(size_t(first), size_t(places())));
  if (drops(model_.spec, options_.dropout))
    feed_random(*session_, options_.seed, updates_ * options_.passes() + number);
  if (early_ && last)
    run_session(*session_, "step", steps_, early_->ends(), [this](size_t bucket) { early_->complete(bucket); });
  else
    run_session(*session_, "step", steps_);
  if (see_) see_(first, session_->values(1));
  return session_->scalar(0);
}

std::vector<float> Trainer::nlls(size_t pass, const Windows& batch, const char* what, std::optional<int64_t> random) {
  std::unique_ptr<Session>& session = forwards_[pass];
  if (!session) {
    session = std::make_unique<Session>(device_, plans_.forwards[pass],
                                        std::initializer_list<const ParamStore*>{model_.params.get()}, arena_);
    session->check_finite(options_.check_finite);
  }
  feed_windows(*session, batch, options_, std::vector<float>(batch.inputs.size(), 1));
  if (random) feed_random(*session, options_.seed, *random);
  run_session(*session, what, steps_);
  return session->values(0);
}

StepWeights Trainer::weigh(const Windows& windows) {
  return objective_->weigh(*this, windows, updates_ * options_.passes());
}

StepResult Trainer::step(const Windows& windows, double lr, std::optional<StepWeights> given, const SeeHidden& see) {
  check(!see || (options_.hidden && options_.passes() > 1), "trainer: this step does not keep its last rows");
  check(!given || (options_.shards == 1 && !crew_), "trainer: given weights are for one process and one shard");
  const int64_t some = int64_t(windows.inputs.size()) / places();
  const bool any = given && options_.accumulate > 1;
  const int64_t n = any ? places() * std::max<int64_t>(1, some) : options_.rows() * options_.tokens;
  check(int64_t(windows.inputs.size()) == n && int64_t(windows.targets.size()) == n,
        "trainer: a batch of {} tokens, expected {}", windows.inputs.size(), n);
  check(!given || int64_t(given->targets.size()) == n, "trainer: {} weights for {} targets",
        given ? given->targets.size() : 0, n);
  check(windows.sequence.size() == windows.position.size() &&
            (windows.sequence.empty() || int64_t(windows.sequence.size()) == n),
        "trainer: {} sequences and {} positions for {} tokens; expected none, or one of each for every token",
        windows.sequence.size(), windows.position.size(), n);
  ++steps_;
  StepWeights weights = given ? *std::move(given) : weigh(windows);
  StepResult result;
  see_ = see;
  const StepPart all{
      .rows = windows, .weights = std::move(weights.targets), .lr = lr, .steps = steps_, .updates = updates_};
  for (const double loss : run_all(all)) result.loss += loss;
  if (crew_) result.skips = crew_->skips();
  if (weights.preference) result.preference = *weights.preference, result.loss = result.preference.mean_loss();
  update(result);
  return result;
}

std::vector<double> Trainer::run_shards(const StepPart& part) {
  steps_ = part.steps, updates_ = part.updates;
  feed_optimizer(update_session_ ? *update_session_ : *session_, options_.optimizer, updates_, part.lr);
  const int64_t first = crew_ ? crew_->first_pass() : 0;
  const int64_t shards = local_shards(options_);
  const int64_t passes = int64_t(part.rows.inputs.size()) / (places() * shards);  // of a shard
  std::vector<double> losses;
  for (int64_t shard = 0; shard < shards; ++shard) {
    if (sums_) sums_->clear();
    for (int64_t k = 0; k < passes; ++k) {
      const int64_t i = shard * passes + k;
      losses.push_back(run_pass(part, i, first + i, i + 1 == shards * passes) / part.scale);
    }
    if (sums_ && !(early_ && shard + 1 == shards)) sums_->add(shard);
  }
  return losses;
}

void Trainer::update(StepResult& result) {
  if (crew_) {
    if (crew_->leads()) crew_->begin_update();
    const double before = steady_seconds();
    if (!early_ && !local_) crew_->sum(sums_->begin(), sums_->bytes());
    result.exchange = early_ ? summed_ : local_ ? 0 : steady_seconds() - before, result.wait = waited_;
  }
  Session& last = update_session_ ? *update_session_ : *session_;
  try {
    if (update_session_) run_session(last, "step", steps_);
  } catch (const Error&) {
    if (crew_) spread();  // the others wait for it
    throw;
  }
  if (options_.updates == TrainerOptions::gathered) result.grad_norm = last.scalar(last.plan().outputs.size() - 1);
  norm_ = result.grad_norm.value_or(0);
  result.skipped = !agree(std::isfinite(result.grad_norm.value_or(result.loss)));
  if (!result.skipped) ++updates_;  // else nothing has changed, the moments' age included
  if (crew_ && (local_ || !result.skipped)) *result.exchange += spread();
}

EvalResult Trainer::evaluate(const ValidationRows& rows, int64_t max_tokens, const std::function<bool()>& stop) {
  return objective_->evaluate(*this, rows, max_tokens, stop);
}

}  // namespace toy
