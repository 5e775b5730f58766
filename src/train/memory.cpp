#include "toy/train/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "toy/runtime/plan_profile.h"

namespace toy {
namespace {

// One list of the parts, for text and JSON.
template <class Visit>
void visit_parts(const TrainMemory& m, const Visit& visit) {
  visit("weights", m.weights);
  visit("moments", m.moments);
  visit("gradients", m.gradients);
  visit("activations", m.activations);
  visit("workspace", m.workspace);
  visit("inputs", m.inputs);
  visit("other", m.other);
}

size_t bytes_of(const PlanLeaf& p, const Device& device) {
  return bytes_of(device.storage(p.type.dtype), p.type.shape);
}

// Weights, moments and accumulators.
void add_parameters(TrainMemory& m, const TrainPlans& plans, const ModelSpec& spec, const Device& device) {
  std::set<std::string, std::less<>> weights, accumulators;
  for (const TensorSpec& t : tensors_of(spec)) weights.insert(t.name);
  const auto add_accumulators = [&](const Plan& plan) {
    for (const PlanLeaf& p : plan.params)
      if (!weights.contains(p.name)) accumulators.insert(p.name);
  };
  if (plans.update) add_accumulators(*plans.step);
  for (const auto& sum : plans.sums) add_accumulators(*sum);
  std::set<std::string, std::less<>> seen;  // what is trained is in both plans
  for (const Plan* plan : plans.steps()) {
    for (const PlanLeaf& p : plan->params) {
      if (!seen.insert(p.name).second) continue;
      size_t& part = weights.contains(p.name) ? m.weights : accumulators.contains(p.name) ? m.gradients : m.moments;
      part += bytes_of(p, device);
    }
  }
  m.weights -= std::min(m.weights, plans.mapped);
}

// The plans of a training with so many blocks taken.
class Fitting {
 public:
  Fitting(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, const TrainerOptions& options,
          size_t other)
      : device_(device), spec_(spec), dtype_of_(dtype_of), options_(options), other_(other) {}

  int64_t blocks() const { return int64_t(spec_.layers.size()); }
  // 0: nothing is computed again; blocks(): all lightly; twice that: all wholly.
  Recompute level(int64_t n) const {
    const int64_t whole = std::max<int64_t>(0, n - blocks());
    return {.whole = whole, .light = std::min(n, blocks()) - whole};
  }
  TrainPlans plans(const Recompute& recompute) const {
    TrainerOptions o = options_;
    o.recompute = recompute;
    return compile_training(device_, spec_, dtype_of_, o);
  }
  size_t bytes(int64_t n) const { return plans(level(n)).bytes(device_) + other_; }
  TrainMemory memory(const TrainPlans& p) const {
    TrainMemory m = memory_of(p, spec_, device_);
    m.other = other_;
    return m;
  }

 private:
  Device& device_;
  const ModelSpec& spec_;
  const Weights::DTypeOf& dtype_of_;
  const TrainerOptions& options_;
  size_t other_;
};

// Of nothing, everything lightly and everything wholly computed again.
TrainMemory least_of(const Fitting& fitting, const TrainMemory& kept, size_t light, size_t whole) {
  if (kept.total() <= std::min(light, whole)) return kept;
  return fitting.memory(fitting.plans(fitting.level(fitting.blocks() * (light < whole ? 1 : 2))));
}

// What makes rows shorter.
const char* rows_option(const TrainerOptions& o) { return o.contrastive || o.classes ? "--text-tokens" : "--tokens"; }

[[noreturn]] void refuse(const TrainerOptions& o, size_t limit, const TrainMemory& least, const char* option) {
  const std::string streaming =
      o.updates == TrainerOptions::gathered && o.accumulate == 1 ? ", --update streaming (with --clip 0)" : "";
  constexpr size_t kMiB = size_t(1) << 20;
  fail(
      "{0}: {1} is not enough: with recomputed activations, this training needs {2}. Use --{0} {3}M, a smaller "
      "--batch or {5}{4}, --optimizer lion (half of adamw's moments), or a smaller model",
      option, format_bytes(limit), to_text(least), least.total() / kMiB + 2, streaming, rows_option(o));
}

}  // namespace

std::string to_text(const TrainMemory& memory) {
  std::vector<std::string> parts;
  visit_parts(memory, [&](const char* name, size_t bytes) {
    if (bytes > 0) parts.push_back(fmt::format("{} {}", name, format_bytes(bytes)));
  });
  return fmt::format("{} ({})", format_bytes(memory.total()), fmt::join(parts, ", "));
}

nlohmann::ordered_json to_json(const TrainMemory& memory) {
  nlohmann::ordered_json j{{"peak_bytes", memory.total()}};
  visit_parts(memory, [&](const char* name, size_t bytes) { j[std::string(name) + "_bytes"] = bytes; });
  return j;
}

TrainMemory memory_of(const TrainPlans& plans, const ModelSpec& spec, const Device& device) {
  TrainMemory m;
  add_parameters(m, plans, spec, device);
  const Plan* largest = plans.step.get();
  for (const Plan* p : plans.all()) {
    m.inputs += p->input_bytes(device);
    if (p->arena_bytes > largest->arena_bytes) largest = p;
  }
  const MemoryProfile profile = memory_profile(*largest);
  size_t rest = largest->arena_bytes;  // what lies free between blocks counts as activations
  for (const LiveBlock& b : profile.at(profile.peak_step)) {
    if (b.use == LiveBlock::value) continue;
    (b.use == LiveBlock::gradient ? m.gradients : m.workspace) += b.bytes;
    rest -= std::min(rest, b.bytes);
  }
  m.activations = rest;
  m.workspace += plans.exchange;
  return m;
}

size_t bytes_beside(const Device& device, size_t weights, size_t foreseen) {
  if (!device.host_visible()) return 0;
  constexpr size_t kSmallThings = size_t(8) << 20;
  release_freed();
  const size_t there = anonymous_memory();
  const size_t beside = there - std::min(there, weights);
  return foreseen ? std::max(foreseen, beside + kSmallThings / 2) : beside + kSmallThings;
}

RankMemory memory_of_rank(const Device& device, const TrainPlans& plans, const ParamStore& weights,
                          const Communicator& ranks) {
  const bool first = ranks.rank() == 0;
  const size_t planned = plans.bytes(device) + (first ? 0 : plans.mapped), there = first ? weights.bytes() : 0;
  return {.rank = ranks.rank(),
          .host = ranks.host(ranks.rank()),
          .planned = planned + bytes_beside(device, there),
          .needed = device.host_visible() ? planned - std::min(planned, there) : 0,
          .free = free_memory()};
}

void require_shared_room(std::span<const RankMemory> ranks) {
  const auto require = [&](const auto& shares, const auto& free_of) {
    size_t together = 0, free = SIZE_MAX, count = 0;
    const RankMemory* largest = nullptr;
    for (const RankMemory& r : ranks) {
      if (!shares(r)) continue;
      if (!largest || r.needed > largest->needed) largest = &r;
      together += r.needed, free = std::min(free, free_of(r)), ++count;
    }
    check(count < 2 || free == 0 || together <= free,
          "memory: the {} ranks on host {} need {} together, the largest of them {} (rank {}), and {} are free there; "
          "use fewer ranks on a host, --memory, which recomputes activations, a smaller --batch, or a smaller model",
          count, largest->host, format_bytes(together), format_bytes(largest->needed), largest->rank,
          format_bytes(free));
  };
  for (const RankMemory& first : ranks) {
    const auto on_host = [&](const RankMemory& r) { return r.host == first.host; };
    require(on_host, [](const RankMemory& r) { return r.free.machine; });
    require([&](const RankMemory& r) { return on_host(r) && r.free.group_id == first.free.group_id; },
            [](const RankMemory& r) { return r.free.group; });
  }
}

std::string MemoryFit::text() const {
  if (recompute.none()) return "";
  std::string what;
  if (recompute.whole > 0) what = fmt::format("{} of {} blocks", recompute.whole, blocks);
  if (recompute.light > 0)
    what += fmt::format("{}norms and activation functions of {}", what.empty() ? "" : ", ", recompute.light) +
            (what.empty() ? fmt::format(" of {} blocks", blocks) : " more");
  const std::string work = more_work < 0.005 ? "less than 1%" : fmt::format("about {:.0f}%", 100 * more_work);
  return fmt::format("recomputing {}: {} instead of {}, {} more work", what, format_bytes(memory.total()),
                     format_bytes(kept), work);
}

void require_room(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
                  const TrainerOptions& options, size_t planned, size_t there) {
  const size_t more = planned - std::min(planned, there), have = device.memory().free;
  if (have == 0 || more <= have) return;
  const Fitting fitting(device, spec, dtype_of, options, bytes_beside(device, there));
  const size_t limit = have + (device.host_visible() ? anonymous_memory() : there),
               least = std::min(fitting.bytes(fitting.blocks()), fitting.bytes(2 * fitting.blocks()));
  constexpr size_t kMiB = size_t(1) << 20;
  const std::string less = options.recompute.none() && least <= limit
                               ? fmt::format("--memory {}M, which recomputes activations, ", limit / kMiB)
                               : "";
  fail(
      "memory: training this model with this batch needs {}, and {} are free{}; use {}a smaller --batch or {}, or a "
      "smaller model",
      format_bytes(more), format_bytes(have), where_memory_is(device), less, rows_option(options));
}

MemoryFit fit_memory(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
                     const TrainerOptions& options, size_t limit, size_t other, const char* option) {
  const Fitting fitting(device, spec, dtype_of, options, other);
  const TrainPlans all_kept = fitting.plans({});
  MemoryFit fit{.recompute = {}, .blocks = fitting.blocks(), .memory = fitting.memory(all_kept)};
  fit.kept = fit.memory.total();
  const auto take = [&](const Recompute& recompute) {
    const TrainPlans plans = fitting.plans(recompute);
    fit.recompute = recompute;
    fit.memory = fitting.memory(plans);
    fit.more_work = plans.step->cost().flops / all_kept.step->cost().flops - 1;
    return fit;
  };
  if (limit == 0) return options.recompute.none() ? fit : take(options.recompute);
  if (fit.kept <= limit) return fit;
  int64_t too_few = 0, enough = 2 * fitting.blocks();
  if (const size_t whole = fitting.bytes(enough); whole > limit) {
    // Where gradients make the peak, at the first block, repeating that block may take more than keeping it.
    const size_t light = fitting.bytes(fitting.blocks());
    if (light > limit) refuse(options, limit, least_of(fitting, fit.memory, light, whole), option);
    enough = fitting.blocks();
  }
  while (enough - too_few > 1) {
    const int64_t middle = too_few + (enough - too_few) / 2;
    (fitting.bytes(middle) <= limit ? enough : too_few) = middle;
  }
  return take(fitting.level(enough));
}

}  // namespace toy
