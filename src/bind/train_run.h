// Recipes as bindings run them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace toy::bind {

/// Who watches. All are called on the thread that trains.
struct TrainCalls {
  std::function<void(const std::string& json)> event = {};      ///< a line of the run's log, without its line break
  std::function<void(const std::string& text)> preparing = {};  ///< what is done before the first step
  /// Asked after every step: once it says true, the run saves a checkpoint and ends.
  std::function<bool()> stop = {};
};

/// Runs a recipe of `toy train` with a JSON object of its options, and of DeviceOptions. Returns what it leaves as
/// JSON: out, model, checkpoint, adapter_peft (paths or null), step, loss, seconds, end ("done", "patience", "time",
/// "stopped"). Throws Error. The run has a device of its own.
std::string train(std::string_view recipe, std::string_view json, const TrainCalls& calls);

}  // namespace toy::bind
