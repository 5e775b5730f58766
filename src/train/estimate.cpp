#include "toy/train/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "toy/base/counted.h"
#include "toy/train/epochs_text.h"

namespace toy {
namespace {

std::string duration(double seconds) {
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  const auto minutes = int64_t(seconds / 60 + 0.5);
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string rate(const TensorRole& r) {
  return r.lr == r.last_lr ? fmt::format(" lr {:g}", r.lr) : fmt::format(" lr {:.3g} to {:.3g}", r.lr, r.last_lr);
}

}  // namespace

std::vector<TensorRole> tensor_roles(const Model& model, const OptimizerOptions& optimizer, double lr) {
  std::vector<TensorRole> list;
  const std::vector<TensorUpdate> updates = tensor_updates(model.spec, optimizer);
  auto update = updates.begin();
  const bool by_depth = optimizer.lr_decay != 1;
  for (const TensorSpec& t : tensors_of(model.spec)) {
    TensorRole role{
        .pattern = t.name, .shape = t.shape, .held = model.params->type(t.name).dtype, .trained = t.trained};
    if (t.trained) role.lr = role.last_lr = lr * (update++)->lr_factor;
    if (t.block >= 0) role.pattern = "blk.*" + t.name.substr(t.name.find('.', t.name.find('.') + 1));
    const auto same = [&](const TensorRole& r) {
      return r.pattern == role.pattern && r.shape == role.shape && r.held == role.held && r.trained == role.trained &&
             (r.lr == role.lr || by_depth);
    };
    auto at = std::find_if(list.begin(), list.end(), same);
    if (at == list.end()) at = list.insert(list.end(), role);
    ++at->tensors, at->last_lr = role.last_lr;
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const TensorRole& a, const TensorRole& b) { return a.trained > b.trained; });
  return list;
}

nlohmann::ordered_json to_json(const std::vector<TensorRole>& roles) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TensorRole& r : roles) {
    list.push_back({{"name", r.pattern},
                    {"tensors", r.tensors},
                    {"shape", std::vector<int64_t>(r.shape.begin(), r.shape.end())},
                    {"held", name_of(r.held)},
                    {"trained", r.trained}});
    if (r.trained) list.back()["lr"] = r.lr, list.back()["last_lr"] = r.last_lr;
  }
  return list;
}

std::string to_text(const std::vector<TensorRole>& roles) {
  size_t width = 0;
  for (const TensorRole& r : roles) width = std::max(width, r.pattern.size());
  std::string s;
  for (const bool trained : {true, false}) {
    int64_t parameters = 0, tensors = 0;
    for (const TensorRole& r : roles)
      if (r.trained == trained) parameters += r.parameters(), tensors += r.tensors;
    if (tensors == 0) continue;
    s += fmt::format("{} {} tensors, {:.2f} M parameters\n", trained ? "trained" : "frozen ", tensors,
                     double(parameters) * 1e-6);
    for (const TensorRole& r : roles)
      if (r.trained == trained)
        s += fmt::format("  {:{}}  {:>4} x {:<16} {:<5}{}\n", r.pattern, width, r.tensors, r.shape.str(),
                         name_of(r.held), trained ? rate(r) : "");
  }
  return s;
}

void RunEstimate::tell_of_ranks(std::span<const RankMemory> memory) {
  if (memory.empty()) return;
  std::vector<RankMemory> all(memory.begin(), memory.end());
  all.front().planned = fit.memory.total();  // with its texts, and what it looks at
  ranks = all.size();
  largest = *std::ranges::max_element(all, {}, &RankMemory::planned);
}

std::string to_text(const RunEstimate& e) {
  std::string s = fmt::format(
      "model   {}, {:.2f} M parameters{}\n", e.model, double(e.parameters) * 1e-6,
      e.trained == e.parameters ? "" : fmt::format(", of which {:.2f} M are trained", double(e.trained) * 1e-6));
  s += fmt::format("data    {}, {} epochs of {}\n", e.data, epochs_text(e.epochs), counted(e.rows, "row"));
  if (e.fit.memory.total() > 0) s += fmt::format("memory  {}\n", to_text(e.fit.memory));  // else nothing is left to do
  if (e.largest)
    s += fmt::format("        of {} ranks, rank {} (host {}) takes the most: {}\n", e.ranks, e.largest->rank,
                     e.largest->host, format_bytes(e.largest->planned));
  if (const std::string less = e.fit.text(); !less.empty()) s += fmt::format("        {}\n", less);
  const bool all = e.measured_tokens == e.tokens_per_step;
  if (e.measured_steps > 0)
    s += fmt::format("step    {} ({} {}{})\n", duration(e.step_seconds), all ? "measured in" : "extrapolated from",
                     counted(e.measured_steps, "step"), all ? "" : fmt::format(" of {} tokens", e.measured_tokens));
  return s + fmt::format("run     {}: {}, {} of preparing, {} of validation\n", duration(e.seconds),
                         counted(e.steps, "step"), duration(e.preparing_seconds), duration(e.validation_seconds));
}

nlohmann::ordered_json to_json(const RunEstimate& e) {
  nlohmann::ordered_json j{{"model", e.model},
                           {"parameters", e.parameters},
                           {"trained", e.trained},
                           {"memory", to_json(e.fit.memory)},
                           {"recompute",
                            {{"whole", e.fit.recompute.whole},
                             {"light", e.fit.recompute.light},
                             {"blocks", e.fit.blocks},
                             {"peak_bytes_without", e.fit.kept},
                             {"more_work", e.fit.more_work}}},
                           {"data", e.data},
                           {"rows", e.rows},
                           {"epochs", e.epochs},
                           {"steps", e.steps},
                           {"step_seconds", e.step_seconds},
                           {"measured_steps", e.measured_steps},
                           {"measured_tokens", e.measured_tokens},
                           {"preparing_seconds", e.preparing_seconds},
                           {"validation_seconds", e.validation_seconds},
                           {"seconds", e.seconds}};
  if (e.largest)
    j["ranks"] = e.ranks,
    j["largest_rank"] = {{"rank", e.largest->rank}, {"host", e.largest->host}, {"planned_bytes", e.largest->planned}};
  return j;
}

}  // namespace toy
