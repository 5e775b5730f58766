#include "toy/train/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "toy/base/glob.h"
#include "toy/base/memory.h"
#include "toy/base/nearest.h"
#include "toy/graph/op_def.h"
#include "toy/models/grow.h"
#include "toy/ops/ops.h"
#include "train/feed.h"

namespace toy {
namespace {

constexpr const char* kLogits = "logits";
constexpr const char* kWeight = ".weight";
constexpr const char* kFolded = "token_embd.weight";  // also of a model with a lens, which holds its factors

bool any_matches(const std::vector<Watch>& watches, const std::string& name) {
  return std::any_of(watches.begin(), watches.end(), [&](const Watch& w) { return matches(w.pattern, name); });
}
bool any_due(const std::vector<Watch>& watches, const std::string& name, int64_t step) {
  return std::any_of(watches.begin(), watches.end(),
                     [&](const Watch& w) { return w.due(step) && matches(w.pattern, name); });
}

// Refuses a pattern that no name fits, with the names that there are.
void require_matches(const char* option, const std::vector<Watch>& watches, const std::vector<std::string>& names) {
  for (const Watch& w : watches) {
    if (std::any_of(names.begin(), names.end(), [&](const std::string& n) { return matches(w.pattern, n); })) continue;
    const std::string near = nearest(w.pattern, names);
    constexpr size_t kShown = 8;
    std::vector<std::string> some(names.begin(), names.begin() + int64_t(std::min(names.size(), kShown)));
    if (names.size() > kShown) some.push_back(fmt::format("{} more", names.size() - kShown));
    fail("{}: no name fits '{}'; there are {}{}", option, w.pattern, fmt::join(some, ", "),
         near.empty() ? "" : ". Did you mean '" + near + "'?");
  }
}

std::vector<std::string> names_of(const std::vector<std::pair<std::string, Value>>& values) {
  std::vector<std::string> names;
  for (const auto& v : values) names.push_back(v.first);
  return names;
}

struct Dots {
  double ab = 0, aa = 0, bb = 0, difference = 0;
  double cosine() const { return ab / std::sqrt(aa * bb); }  // NaN where there is no direction
};

Dots dots(std::span<const float> a, std::span<const float> b) {
  Dots d;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    d.ab += x * y, d.aa += x * x, d.bb += y * y, d.difference += (x - y) * (x - y);
  }
  return d;
}

// How far a tensor has come, and the rows that have come farthest.
class RowDrifts {
 public:
  /// The next rows.
  void add(std::span<const float> now, std::span<const float> init, int64_t columns) {
    constexpr size_t kMost = 8;
    for (size_t at = 0; at < now.size(); at += size_t(columns)) {
      const Dots d = dots(now.subspan(at, size_t(columns)), init.subspan(at, size_t(columns)));
      all_.ab += d.ab, all_.aa += d.aa, all_.bb += d.bb, all_.difference += d.difference;
      rows_.push_back({count_++, d.cosine(), std::sqrt(d.difference)});
    }
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const runs::RowDrift& a, const runs::RowDrift& b) { return a.l2_to_init > b.l2_to_init; });
    if (rows_.size() > kMost) rows_.resize(kMost);
  }
  runs::Drift event(const std::string& tensor, bool with_rows) const {
    runs::Drift drift{tensor, all_.cosine(), std::sqrt(all_.difference), std::sqrt(all_.aa), {}};
    if (with_rows) drift.rows = rows_;
    return drift;
  }

 private:
  Dots all_;
  int64_t count_ = 0;
  std::vector<runs::RowDrift> rows_;
};

// The embedding that a lens makes of the donor's: of every token, although only the lens changes.
runs::Drift folded_drift(const Model& model, std::span<const float> lens, std::span<const float> initial) {
  ThreadPool threads(model.params->device().host_threads());
  const int64_t width = model.spec.d_model;
  std::vector<float> now(size_t(std::min(kFoldedRows, model.spec.vocab) * width)), init(now.size());
  RowDrifts rows;
  for (int64_t first = 0; first < model.spec.vocab; first += kFoldedRows) {
    const auto n = size_t(std::min(kFoldedRows, model.spec.vocab - first) * width);
    folded_rows(model, lens, first, std::span(now).first(n), threads);
    folded_rows(model, initial, first, std::span(init).first(n), threads);
    rows.add(std::span(now).first(n), std::span(init).first(n), width);
  }
  return rows.event(kFolded, true);
}

// Does a look at drift need the first values of a tensor?
bool is_kept(const std::vector<Watch>& drifts, const TensorSpec& t) {
  return any_matches(drifts, t.name) || (t.name == kLens && any_matches(drifts, kFolded));
}

}  // namespace

Watch parse_watch(const std::string& option, const std::string& text) {
  Watch w;
  const size_t colon = text.rfind(':');
  w.pattern = text.substr(0, colon);
  check(!w.pattern.empty(), "{}: '{}' has no pattern; expected PATTERN or PATTERN:EVERY, as 'blk.*.attn_q*:50'", option,
        text);
  if (colon == std::string::npos) return w;
  const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, w.every);
  check(error == std::errc() && stop == end && w.every >= 1,
        "{}: '{}': the steps between two looks are '{}', expected a whole number of at least 1", option, text, begin);
  return w;
}

std::vector<Watch> parse_op_timing(const std::string& text) {
  int64_t every = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, every);
  if (error != std::errc() || stop != end) return {parse_watch("op-timing", text)};
  check(every >= 0, "op-timing is {}, expected 0 (never) or more steps", every);
  return every == 0 ? std::vector<Watch>{} : std::vector<Watch>{{"*", every}};
}

std::vector<std::pair<std::string, Value>> named_values(const Graph& graph) {
  std::vector<std::pair<std::string, Value>> list;
  std::map<std::string, int> seen;
  Graph& g = const_cast<Graph&>(graph);  // a Value points to its graph; nothing is changed
  for (const Node& n : graph.nodes()) {
    if (n.kind != NodeKind::op || n.phase != Phase::forward || n.op->view) continue;
    if (!is_float(n.outputs[0].dtype)) continue;
    std::string name = n.name;
    for (const Value& in : n.inputs)
      if (name.empty() && in && graph.node(in).kind == NodeKind::param && graph.node(in).name.ends_with(kWeight))
        name = graph.node(in).name.substr(0, graph.node(in).name.size() - std::string_view(kWeight).size());
    if (name.empty()) name = (n.layer.path.empty() ? "" : n.layer.path + ".") + n.op->name();
    const int again = ++seen[name];
    list.emplace_back(again > 1 ? fmt::format("{}.{}", name, again) : name, Value{&g, n.id, 0});
  }
  return list;
}

runs::TensorStats stats_of(std::span<const float> values) {
  constexpr size_t kBins = 16;
  runs::TensorStats s;
  s.count = int64_t(values.size());
  double sum = 0, squares = 0, low = INFINITY, high = -INFINITY;
  for (const float v : values) {
    if (!std::isfinite(v)) {
      ++s.nonfinite;
      continue;
    }
    sum += v, squares += double(v) * v;
    low = std::min(low, double(v)), high = std::max(high, double(v));
  }
  const int64_t finite = s.count - s.nonfinite;
  s.histogram.counts.assign(kBins, 0);
  if (finite == 0) return s;
  s.mean = sum / double(finite);
  s.rms = std::sqrt(squares / double(finite));
  s.min = s.histogram.low = low;
  s.max = s.histogram.high = high;
  s.absmax = std::max(std::fabs(low), std::fabs(high));
  for (const float v : values)
    if (std::isfinite(v)) {
      const double at = high > low ? (v - low) / (high - low) * double(kBins) : 0;
      ++s.histogram.counts[std::min(size_t(at), kBins - 1)];
    }
  return s;
}

namespace {

// What only a watcher makes of each recurrence: the decay of its states, how much a row writes to them, and their norms
// [batch,H] where a window ends. Documents of one window follow each other in one state, since each begins at position
// 0. Padding has a state of its own, which is left out.
std::vector<std::pair<std::string, Value>> recurrence_values(Graph& g, int64_t batch, int64_t tokens) {
  std::vector<Node> recurrences;
  for (const Node& n : g.nodes())
    if (n.kind == NodeKind::op && n.op->name() == "gated_delta_rule" && n.phase == Phase::forward)
      recurrences.push_back(n);
  std::vector<std::pair<std::string, Value>> list;
  for (const Node& n : recurrences) {
    const Value k = n.inputs[1], v = n.inputs[2], gate = n.inputs[3], beta = n.inputs[4], sequence = n.inputs[6];
    std::vector<double> windows;
    for (int64_t i = 0; i < batch * tokens; ++i) windows.push_back(double(i / tokens));
    const Value padding = greater(g.scalar(-0.5), cast(sequence, DType::f32));
    const Value window =
        where(padding, g.scalar(double(batch)), g.constant({DType::f32, {batch * tokens}, 0}, windows));
    const Value states =
        gated_delta_rule(n.inputs[0], k, v, gate, beta, fill(g, {batch + 1, v.dim(1), k.dim(2), v.dim(2)}, 0),
                         cast(window, DType::i32), n.inputs[7], n.attrs.as<DeltaRuleAttrs>())
            .s;
    const Value norms = sqrt(sum(sum(states * states, 3), 2));
    list.emplace_back(n.layer.path + ".decay", exp(gate));
    list.emplace_back(n.layer.path + ".beta", beta);
    list.emplace_back(n.layer.path + ".state_norm", slice(norms, 0, 0, batch));
  }
  return list;
}

}  // namespace

struct Watcher::Probe {
  std::vector<std::string> names;
  std::vector<Watch> watches;
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Session> session = {};
};

struct Watcher::Probes {
  std::unique_ptr<Probe> taps, grads;
  size_t bytes(const Device& device) const {
    size_t n = 0;
    for (const Probe* p : {taps.get(), grads.get()})
      if (p) n += p->plan->arena_bytes + p->plan->input_bytes(device);
    return n;
  }
};

// Compiled, without sessions.
Watcher::Probes Watcher::probes(const WatchOptions& watch, Device& device, const ModelSpec& spec,
                                const Weights::DTypeOf& dtype_of, const TrainerOptions& options) {
  std::vector<std::string> tensors;
  for (const TensorSpec& t : trained_tensors(spec)) tensors.push_back(t.name);
  std::vector<std::string> drifting = tensors;
  if (spec.lens > 0) drifting.emplace_back(kFolded);
  for (const std::vector<Watch>* all : {&watch.taps, &watch.grads, &watch.drifts, &watch.op_timings})
    for (const Watch& w : *all)
      check(w.every >= 1, "'{}' is to be looked at every {} steps, expected at least 1", w.pattern, w.every);
  require_matches("grads", watch.grads, tensors);
  require_matches("drift", watch.drifts, drifting);
  if (watch.taps.empty() && watch.grads.empty()) return {};
  TrainerOptions one_batch = options;  // what sums over batches and what updates is not looked at
  one_batch.batch = options.sequences(), one_batch.accumulate = one_batch.shards = 1;
  one_batch.updates = TrainerOptions::gathered;
  const TrainGraph t = build_train_graph(spec, dtype_of, one_batch, any_matches(watch.taps, kLogits));
  if (t.logits) t.graph->set_name(t.logits, kLogits);
  std::vector<std::pair<std::string, Value>> values = named_values(*t.graph), gradients;
  for (auto& value : recurrence_values(*t.graph, one_batch.batch, options.tokens)) values.push_back(std::move(value));
  std::vector<std::string> names = names_of(values);
  if (!t.logits) names.push_back(kLogits);
  require_matches("tap", watch.taps, names);
  for (size_t i = 0; i < tensors.size(); ++i) gradients.emplace_back(tensors[i], t.gradients[i]);
  const auto probe = [&](std::vector<std::pair<std::string, Value>> list, const std::vector<Watch>& watches) {
    std::erase_if(list, [&](const auto& v) { return !any_matches(watches, v.first); });
    if (list.empty()) return std::unique_ptr<Probe>();
    std::vector<Value> outputs;
    for (const auto& v : list) outputs.push_back(v.second);
    auto plan = std::make_shared<const Plan>(compile(*t.graph, outputs, {}, device, step_plan_options(spec, options)));
    return std::make_unique<Probe>(Probe{names_of(list), watches, std::move(plan)});
  };
  return {probe(std::move(values), watch.taps), probe(std::move(gradients), watch.grads)};
}

size_t Watcher::bytes(const WatchOptions& watch, Device& device, const ModelSpec& spec,
                      const Weights::DTypeOf& dtype_of, const TrainerOptions& options) {
  size_t n = probes(watch, device, spec, dtype_of, options).bytes(device);
  for (const TensorSpec& t : trained_tensors(spec))  // the host's
    if (device.host_visible() && is_kept(watch.drifts, t)) n += size_t(t.shape.count()) * sizeof(float);
  return n;
}

Watcher::Watcher(const WatchOptions& watch, Device& device, const Model& model, const TrainerOptions& options)
    : watch_(watch), device_(device), model_(model), options_(options) {
  const ParamStore* store = model.params.get();
  Probes all = probes(
      watch, device, model.spec, [store](const std::string& name) { return store->type(name).dtype; }, options);
  require_memory(device, all.bytes(device), "looking at these values");
  for (Probe* p : {all.taps.get(), all.grads.get()})
    if (p) p->session = std::make_unique<Session>(device, p->plan, std::initializer_list<const ParamStore*>{store});
  taps_ = std::move(all.taps), grads_ = std::move(all.grads);
  for (const TensorSpec& t : trained_tensors(model.spec))
    if (is_kept(watch.drifts, t)) initial_.emplace_back(t, model.params->read(t.name));
}

Watcher::~Watcher() = default;

size_t Watcher::planned_bytes() const {
  size_t bytes = 0;
  for (const Probe* p : {taps_.get(), grads_.get()})
    if (p) bytes += p->plan->arena_bytes + p->plan->input_bytes(device_);
  for (const auto& [tensor, values] : initial_) bytes += values.size() * sizeof(float);
  return bytes;
}

// The same batch, weights and dropout as the step that follows.
void Watcher::look(Probe& probe, int64_t step, const Windows& windows, Trainer& trainer, const Tell& tell) const {
  std::vector<size_t> due;
  for (size_t i = 0; i < probe.names.size(); ++i)
    if (any_due(probe.watches, probe.names[i], step)) due.push_back(i);
  if (due.empty()) return;
  const Windows batch = windows.part(0, options_.sequences() * options_.tokens);
  Session& s = *probe.session;
  // Where a step sums over several batches, its first: the mean over its own targets, or its part of another loss.
  const double weight = 1.0 / double(std::max<int64_t>(1, counted_targets(batch)));
  StepWeights weights = trainer.weigh(windows);
  weights.targets.resize(batch.targets.size());
  feed_windows(s, batch, options_, weights.preference ? weights.targets : equal_weights(batch, weight));
  if (drops(model_.spec, options_.dropout)) feed_random(s, options_.seed, trainer.updates() * options_.passes());
  s.run();
  for (const size_t i : due) {
    const runs::TensorStats stats = stats_of(s.values(i));
    runs::Event e{0, step, "train", {}};
    if (&probe == taps_.get())
      e.body = runs::Tap{stats, probe.names[i]};
    else
      e.body = runs::Grad{stats, probe.names[i]};
    tell(e);
  }
}

void Watcher::require_ops(Trainer& trainer) const {
  std::vector<std::string> ops;
  for (const Session* session : trainer.sessions())
    for (const PlanStep& s : session->plan().steps)
      if (std::find(ops.begin(), ops.end(), s.op) == ops.end()) ops.push_back(s.op);
  require_matches("op-timing", watch_.op_timings, ops);
}

void Watcher::before(int64_t step, const Windows& windows, Trainer& trainer, const Tell& tell) {
  for (Probe* p : {taps_.get(), grads_.get()})
    if (p) look(*p, step, windows, trainer, tell);
  const auto due = [&](const Watch& w) { return w.due(step); };
  if (std::none_of(watch_.op_timings.begin(), watch_.op_timings.end(), due)) return;
  for (Session* session : trainer.sessions()) {
    times_before_.push_back(session->profile());
    session->enable_profile(true);
  }
}

void Watcher::after(int64_t step, Trainer& trainer, const Tell& tell) {
  if (!times_before_.empty()) tell_times(step, trainer, tell);
  tell_drift(step, tell);
}

void Watcher::tell_times(int64_t step, Trainer& trainer, const Tell& tell) {
  std::map<std::pair<std::string, std::string>, runs::OpTiming> all;
  for (size_t k = 0; k < times_before_.size(); ++k) {
    Session& session = *trainer.sessions()[k];
    session.enable_profile(false);
    const std::vector<StepTime>&now = session.profile(), &before = times_before_[k];
    for (size_t i = 0; i < now.size(); ++i) {
      const PlanStep& p = session.plan().steps[i];
      if (!any_due(watch_.op_timings, p.op, step)) continue;
      const std::string pass(name_of(p.phase));
      runs::OpTiming& o = all.try_emplace({pass, p.op}, runs::OpTiming{p.op, pass, 0, 0}).first->second;
      o.calls += now[i].runs - before[i].runs;
      o.us += (now[i].seconds - before[i].seconds) * 1e6;
    }
  }
  times_before_.clear();
  for (auto& [key, o] : all) tell({0, step, "train", std::move(o)});
}

void Watcher::tell_drift(int64_t step, const Tell& tell) const {
  for (const auto& [tensor, init] : initial_) {
    const std::vector<float> now = model_.params->read(tensor.name);
    if (tensor.name == kLens && any_due(watch_.drifts, kFolded, step))
      tell({0, step, "train", folded_drift(model_, now, init)});
    if (!any_due(watch_.drifts, tensor.name, step)) continue;
    RowDrifts rows;
    rows.add(now, init, tensor.shape.back());
    const bool of_tokens = tensor.init == TensorSpec::Init::embedding && tensor.part != ModelPart::positions;
    tell({0, step, "train", rows.event(tensor.name, of_tokens)});
  }
}

}  // namespace toy
