#include "cli/train/recipe.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "toy/base/json_text.h"
#include "toy/data/text_files.h"
#include "toy/runs/log.h"

namespace toy::cli {
std::string end_of_log(const std::string& out) {
  const std::filesystem::path file = std::filesystem::path(out) / runs::kEventsFile;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  const runs::Log log = runs::read_events(file.string());
  for (auto e = log.events.rbegin(); e != log.events.rend(); ++e)
    if (e->as<runs::RunEnd>()) return runs::to_json_line(*e) + "\n";
  return {};
}

void tell_of_no_effect(const std::string& out, const nlohmann::ordered_json& options) {
  const std::filesystem::path file = std::filesystem::path(out) / runs::kConfigFile;
  std::error_code error;
  nlohmann::ordered_json before;
  if (std::filesystem::exists(file, error)) before = parse_json<nlohmann::ordered_json>(read_text_file(file.string()));
  std::vector<std::string> without;
  for (const char* name : {"tensorboard", "tap", "grads", "drift", "op-timing"})
    if (const auto& value = options.at(name); !value.is_null())
      if (!before.is_object() || !before.contains(name) || before.at(name) != value)
        without.push_back(std::string("--") + name);
  if (!without.empty())
    to_stderr(fmt::format("nothing is trained, so these have no effect: {}\n", fmt::join(without, ", ")));
}

}  // namespace toy::cli
