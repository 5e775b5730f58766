// toy train: the options of data, optimizer, schedule and early stopping.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "toy/train/recipe.h"

namespace toy::cli {

/// --corpus, --data, --corpus-weight, --val, --val-fraction, --documents, --pack and --data-cache.
void add_data_options(CLI::App& app, DataOptions& data);
/// Those of them that rows of preferences have, where texts do not do.
void add_preference_data_options(CLI::App& app, DataOptions& data);

/// The options of optimizer and schedule. Options that are not given take the chosen optimizer's usual values; options
/// that the chosen optimizer or schedule ignores are refused.
class OptimizerChoice {
 public:
  /// `lr_part`: the default learning rate as a fraction of the one for a new model. `decays` false: by default there is
  /// no weight decay.
  void add(CLI::App& app, RecipeOptions& o, double lr_part = 1, bool decays = true);
  /// Throws Error{bad_input} naming the option.
  void apply(const CLI::App& app, RecipeOptions& o) const;

  /// What the run uses for options that were not given, by option; null for those that the optimizer or the schedule
  /// does not read. After apply().
  nlohmann::ordered_json effective(const RecipeOptions& o) const;

 private:
  void refuse_unread(const CLI::App& app) const;
  std::string optimizer_ = "adamw", schedule_ = "cosine", muon_scale_ = "original", time_limit_;
  std::optional<double> lr_;
  std::vector<std::optional<double>> numbers_;
  std::vector<std::string> lr_for_, no_decay_;
  bool nesterov_ = false, relative_step_ = false, decays_ = true;
  double ema_ = 0, lr_part_ = 1, lr_decay_ = 1;
};

}  // namespace toy::cli
