#include "cli/train/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "toy/base/json_text.h"
#include "toy/data/text_files.h"
#include "toy/formats/checkpoint.h"

namespace toy::cli {
namespace {

// Whether a file begins as the log of a run does, if torn.
bool begins_as_log(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;
  std::ifstream lines(file, std::ios::binary);
  std::string line;
  while (line.empty() && std::getline(lines, line)) {
  }
  if (line.starts_with(R"({"kind":"run_start")")) return true;
  try {
    runs::parse_event(line);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string end_of_log(const std::string& out) {
  const std::filesystem::path file = std::filesystem::path(out) / runs::kEventsFile;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  const runs::Log log = runs::read_events(file.string());
  for (auto e = log.events.rbegin(); e != log.events.rend(); ++e)
    if (e->as<runs::RunEnd>()) return runs::to_json_line(*e) + "\n";
  return {};
}

bool is_of_a_run(const std::filesystem::path& out) {
  const std::filesystem::path log = out / runs::kEventsFile;
  std::error_code error;
  return begins_as_log(log) || begins_as_log(out / kPreviousLog) ||
         !checkpoint_steps((out / kCheckpoints).string()).empty() ||
         (std::filesystem::is_regular_file(log, error) && std::filesystem::is_empty(log, error) &&
          !std::filesystem::exists(out / kModel, error));
}

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  std::error_code error;
  const auto below = std::filesystem::weakly_canonical(std::filesystem::absolute(path), error),
             above = std::filesystem::weakly_canonical(std::filesystem::absolute(folder), error);
  return !error && std::mismatch(above.begin(), above.end(), below.begin(), below.end()).first == above.end();
}

void tell_of_no_effect(const std::string& out, const nlohmann::ordered_json& options) {
  const std::filesystem::path file = std::filesystem::path(out) / kConfig;
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
