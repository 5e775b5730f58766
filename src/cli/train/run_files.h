// What a training run leaves beside its weights: events, config, graph; and the options for it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/train/reporter.h"

namespace toy::cli {

/// --tensorboard, --tap, --grads, --drift and --op-timing.
struct RunOptions {
  std::string tensorboard;
  std::vector<std::string> taps, grads, drifts, op_timings;
  void add(CLI::App& app);
  /// Throws Error{bad_input} naming the option.
  WatchOptions watch() const;
};

/// Every option of a command with its value, given or not: what config.json holds. Numbers are numbers, a flag is true
/// or false, several values are a list.
nlohmann::ordered_json options_json(const CLI::App& app);

/// The folder that --out means (runs::make_folder: {arch}, {recipe}, {name}, {date}, {time}, {seq}). Destroyed while
/// the folder is empty, it takes it away again, unless it was there before the run.
class OutFolder {
 public:
  /// `out` with what is known of a run filled in, and without `..` (before folders are made, "new/../there" leads
  /// nowhere). Makes no folder: {date}, {time} and {seq} stay.
  static std::string settled(std::string out, const std::map<std::string, std::string>& fields);

  OutFolder(const std::string& out, const std::map<std::string, std::string>& fields);
  ~OutFolder();
  OutFolder(const OutFolder&) = delete;
  OutFolder& operator=(const OutFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool ours_;  // it was not there before
};

/// Opens events.jsonl in `out`, writes config.json and flow.json beside it, and opens what else is wanted: JSON Lines
/// on stdout (`json`, unless it is nullptr), TensorBoard's files. `resumed`: the log goes on if it is there; one that
/// cannot be read is put aside, and that is said on stderr.
RunLog open_log(const std::string& out, const nlohmann::ordered_json& config, const ModelSpec& spec,
                const TrainerOptions& trainer, const std::string& tensorboard, Results* json, bool resumed);

/// Writes a result to stdout. Throws Error{failure} when its reader has gone away: nobody would see the rest.
void put_line(const std::string& text);

}  // namespace toy::cli
