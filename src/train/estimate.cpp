#include "toy/train/estimate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace toy {
namespace {

std::string duration(double seconds) {
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  const auto minutes = int64_t(seconds / 60 + 0.5);
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace

std::string to_text(const RunEstimate& e) {
  std::string s = fmt::format("model   {}, {:.2f} M parameters\n", e.model, double(e.parameters) * 1e-6);
  if (e.fit.memory.total() > 0) s += fmt::format("memory  {}\n", to_text(e.fit.memory));  // else nothing is left to do
  if (const std::string less = e.fit.text(); !less.empty()) s += fmt::format("        {}\n", less);
  const bool all = e.measured_tokens == e.tokens_per_step;
  if (e.measured_steps > 0)
    s +=
        fmt::format("step    {} ({} {} steps{})\n", duration(e.step_seconds), all ? "measured in" : "extrapolated from",
                    e.measured_steps, all ? "" : fmt::format(" of {} tokens", e.measured_tokens));
  return s + fmt::format("run     {}: {} steps, {} of preparing, {} of validation\n", duration(e.seconds), e.steps,
                         duration(e.preparing_seconds), duration(e.validation_seconds));
}

nlohmann::ordered_json to_json(const RunEstimate& e) {
  return {{"model", e.model},
          {"parameters", e.parameters},
          {"memory", to_json(e.fit.memory)},
          {"recompute",
           {{"whole", e.fit.recompute.whole},
            {"light", e.fit.recompute.light},
            {"blocks", e.fit.blocks},
            {"peak_bytes_without", e.fit.kept},
            {"more_work", e.fit.more_work}}},
          {"steps", e.steps},
          {"step_seconds", e.step_seconds},
          {"measured_steps", e.measured_steps},
          {"measured_tokens", e.measured_tokens},
          {"preparing_seconds", e.preparing_seconds},
          {"validation_seconds", e.validation_seconds},
          {"seconds", e.seconds}};
}

}  // namespace toy
