// Options for what a training run leaves beside its weights, and what its config.json holds.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "toy/train/watch.h"

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

/// Writes a result to stdout. Throws Error{failure} when its reader has gone away: nobody would see the rest.
void put_line(const std::string& text);

}  // namespace toy::cli
