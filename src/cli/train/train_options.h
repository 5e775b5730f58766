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

/// The options of optimizer and schedule. What is not given takes the chosen optimizer's usual values.
class OptimizerChoice {
 public:
  /// `lr_part`: the default learning rate as a fraction of the one for a new model. `decays` false: by default there is
  /// no weight decay.
  void add(CLI::App& app, RecipeOptions& o, double lr_part = 1, bool decays = true);
  /// Throws Error{bad_input} naming the option.
  void apply(const CLI::App& app, RecipeOptions& o) const;

  /// What the run uses, with every setting of optimizer and schedule, by option. After apply().
  static nlohmann::ordered_json effective(const RecipeOptions& o);

 private:
  std::string optimizer_ = "adamw", schedule_ = "cosine", time_limit_;
  std::optional<double> lr_, weight_decay_;
  OptimizerOptions shared_;  // what does not depend on the optimizer
  std::vector<std::string> lr_for_;
  bool decays_ = true;
  double lr_part_ = 1;
};

}  // namespace toy::cli
