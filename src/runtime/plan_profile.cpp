#include "toy/runtime/plan_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "toy/base/memory.h"
#include "toy/graph/print.h"

namespace toy {
namespace {

std::string made_by(const PlanStep& s, const Operand& o) {
  return fmt::format("{}{} {}{}{}", s.layer.prefix(), s.op, name_of(o.view.dtype), o.view.shape.str(),
                     s.phase == Phase::backward ? " (backward)" : "");
}

// A value's memory is a block; ops that work in place and views of it are in the same one.
class Blocks {
 public:
  explicit Blocks(const Plan& plan) {
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const PlanStep& s = plan.steps[i];
      const int step = int(i);
      for (const Operand& o : s.in) {
        touch(o, step, s);
        if (o.base == Operand::arena && s.phase == Phase::update && of_backward_[o.index])
          list_[of_.at(o.index)].use = LiveBlock::gradient;
      }
      for (const Operand& o : s.out) {
        touch(o, step, s);
        if (o.base == Operand::arena) of_backward_[o.index] = s.phase == Phase::backward;
      }
      if (s.prepared_by >= 0) {
        list_[workspace_of_.at(s.prepared_by)].last = step;
      } else if (s.workspace_bytes > 0) {
        workspace_of_[step] = list_.size();
        list_.push_back({step, step, s.workspace_bytes, s.workspace_offset,
                         fmt::format("{}workspace of {}", s.layer.prefix(), s.op), LiveBlock::workspace});
      }
    }
    for (const Operand& o : plan.outputs)
      if (const auto at = of_.find(o.index); o.base == Operand::arena && at != of_.end())
        list_[at->second].last = int(plan.steps.size()) - 1;
  }
  std::vector<LiveBlock> take() { return std::move(list_); }

 private:
  void touch(const Operand& o, int step, const PlanStep& s) {
    if (o.base != Operand::arena) return;
    const auto [at, made] = of_.try_emplace(o.index, list_.size());
    if (made) list_.push_back({step, step, o.view.bytes(), o.offset, made_by(s, o), LiveBlock::value});
    list_[at->second].last = step;
  }
  std::vector<LiveBlock> list_;
  std::map<int, size_t> of_;            // index of the arena's block -> in list_
  std::map<int, size_t> workspace_of_;  // step -> in list_
  std::map<int, bool> of_backward_;     // was it last written by backward?
};

nlohmann::ordered_json to_json(const LiveBlock& b) {
  constexpr const char* kUses[] = {"value", "gradient", "workspace"};
  return {{"first", b.first},   {"last", b.last}, {"bytes", b.bytes},
          {"offset", b.offset}, {"what", b.what}, {"use", kUses[b.use]}};
}

// One of eight heights.
const char* bar(double part) {
  constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  return kBars[std::clamp(int(part * 8), 0, 7)];
}

bool same_work(const LayerCost& a, const LayerCost& b) {
  return std::equal(a.phases.begin(), a.phases.end(), b.phases.begin(), [](const Cost& x, const Cost& y) {
    return x.flops == y.flops && x.bytes == y.bytes && x.transcendentals == y.transcendentals;
  });
}

}  // namespace

std::vector<LiveBlock> MemoryProfile::at(int step) const {
  std::vector<LiveBlock> alive;
  for (const LiveBlock& b : blocks)
    if (b.first <= step && step <= b.last) alive.push_back(b);
  std::stable_sort(alive.begin(), alive.end(),
                   [](const LiveBlock& a, const LiveBlock& b) { return a.bytes > b.bytes; });
  return alive;
}

MemoryProfile memory_profile(const Plan& plan) {
  MemoryProfile p{{}, std::vector<size_t>(plan.steps.size()), {}, plan.arena_bytes, 0};
  for (const PlanStep& s : plan.steps) p.phases.push_back(s.phase);
  p.blocks = Blocks(plan).take();
  for (const LiveBlock& b : p.blocks)
    for (int step = b.first; step <= b.last; ++step) p.live[size_t(step)] += b.bytes;
  p.peak_step = int(std::max_element(p.live.begin(), p.live.end()) - p.live.begin());
  return p;
}

std::string to_text(const MemoryProfile& p, size_t most) {
  if (p.live.empty()) return "nothing is computed\n";
  const size_t columns = std::min<size_t>(72, p.live.size()), steps = p.live.size();
  std::string bars, phases;
  for (size_t c = 0; c < columns; ++c) {
    const size_t begin = c * steps / columns, end = std::max(begin + 1, (c + 1) * steps / columns);
    const size_t highest = *std::max_element(p.live.begin() + int64_t(begin), p.live.begin() + int64_t(end));
    bars += bar(double(highest) / double(std::max<size_t>(1, p.peak_bytes())));
    phases += name_of(p.phases[begin])[0];
  }
  const std::vector<LiveBlock> alive = p.at(p.peak_step);
  std::string s = fmt::format(
      "{}\n{}  steps 0 to {}: f forward, b backward, u update\narena {}, at most {} of it in use: step {}\n", bars,
      phases, steps - 1, format_bytes(p.arena_bytes), format_bytes(p.peak_bytes()), p.peak_step);
  for (size_t i = 0; i < std::min(most, alive.size()); ++i)
    s += fmt::format("  {:>10}  steps {:>4} to {:<4}  {}\n", format_bytes(alive[i].bytes), alive[i].first,
                     alive[i].last, alive[i].what);
  if (alive.size() > most) {
    size_t rest = 0;
    for (size_t i = most; i < alive.size(); ++i) rest += alive[i].bytes;
    s += fmt::format("  {:>10}  {} more\n", format_bytes(rest), alive.size() - most);
  }
  return s;
}

nlohmann::ordered_json to_json(const MemoryProfile& p) {
  nlohmann::ordered_json phases = nlohmann::ordered_json::array(), blocks = nlohmann::ordered_json::array();
  for (const Phase phase : p.phases) phases.push_back(name_of(phase));
  for (const LiveBlock& b : p.blocks) blocks.push_back(to_json(b));
  return {{"arena_bytes", p.arena_bytes},
          {"peak_bytes", p.peak_bytes()},
          {"peak_step", p.peak_step},
          {"live", p.live},
          {"phases", phases},
          {"blocks", blocks}};
}

std::vector<std::vector<Reuse>> reuse_of(const Plan& plan) {
  using Base = std::tuple<Operand::Base, int, size_t>;
  const auto place = [](const Operand& o) {
    // The arena's blocks take each other's place; what has no entry of its own lies in the block that begins before it.
    return o.base == Operand::arena ? Base{o.base, 0, o.offset} : Base{o.base, o.index, 0};
  };
  std::map<Base, double> last;  // what had been touched in all by then
  double touched = 0;
  std::vector<std::vector<Reuse>> result;
  for (const bool again : {false, true})
    for (const PlanStep& s : plan.steps) {
      std::vector<Reuse> list;
      std::vector<Base> places;
      double bytes = 0;
      for (const auto* operands : {&s.in, &s.out})
        for (const Operand& o : *operands) {
          if (o.base == Operand::absent) continue;
          places.push_back(place(o));
          const auto behind = last.upper_bound(places.back());
          const bool known = behind != last.begin() && std::get<0>(std::prev(behind)->first) == o.base &&
                             std::get<1>(std::prev(behind)->first) == std::get<1>(places.back());
          list.push_back({double(o.view.bytes()), touched - (known ? std::prev(behind)->second : 0)});
          bytes += list.back().bytes;
        }
      // Of an operand not everything need be touched, as of an embedding.
      for (Reuse& r : list) r.bytes *= bytes > 0 ? s.cost.bytes / bytes : 0;
      touched += s.cost.bytes;
      for (const Base& p : places) last[p] = touched;
      if (again) result.push_back(std::move(list));
    }
  return result;
}

std::vector<LayerCost> costs_by_layer(const Plan& plan, std::span<const double> seconds) {
  std::vector<LayerCost> layers;
  std::map<std::string, size_t, std::less<>> index;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& s = plan.steps[i];
    const std::string layer(s.layer.path.empty() ? std::string_view(s.op) : s.layer.outer());
    const auto [at, made] = index.try_emplace(layer, layers.size());
    if (made) layers.push_back({layer, layer, 1, {}, {}});
    LayerCost& l = layers[at->second];
    l.phases[size_t(s.phase)] += s.cost;
    if (!seconds.empty()) l.seconds[size_t(s.phase)] += seconds[i];
  }
  std::vector<LayerCost> folded;
  for (LayerCost& l : layers) {
    if (folded.empty() || !same_work(folded.back(), l)) {
      folded.push_back(std::move(l));
      continue;
    }
    LayerCost& same = folded.back();
    ++same.count, same.last = l.layer;
    for (size_t p = 0; p < kPhases.size(); ++p) same.seconds[p] += (l.seconds[p] - same.seconds[p]) / same.count;
  }
  return folded;
}

}  // namespace toy
