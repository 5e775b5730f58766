// What a run will need, told without making it (`toy train --dry-run`).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "toy/train/memory.h"

namespace toy {

/// Tensors of one name, shape and role in one or several blocks.
struct TensorRole {
  std::string pattern;  ///< their name, with `*` for the number of the block
  Shape shape;
  int64_t tensors = 0;
  DType held = DType::f32;
  bool trained = true;
  double lr = 0;       ///< peak learning rate, where they are trained
  double last_lr = 0;  ///< that of the last of them; it differs where rates decay by depth
  int64_t parameters() const { return tensors * shape.count(); }
};
/// What training does with each tensor of a model.
std::vector<TensorRole> tensor_roles(const Model& model, const OptimizerOptions& optimizer, double lr);
/// A table for people: trained ones, then those that stay as they are.
std::string to_text(const std::vector<TensorRole>& roles);
/// A list of objects.
nlohmann::ordered_json to_json(const std::vector<TensorRole>& roles);

/// Memory by plan, time by steps in this process: of that very plan, or, where one would take long, of a plan for fewer
/// tokens, from which the times are extrapolated.
struct RunEstimate {
  std::string model;  ///< its name
  int64_t parameters = 0;
  int64_t trained = 0;                ///< parameters that the run changes
  std::vector<TensorRole> roles;      ///< of all tensors; none where the run is complete
  std::string data;                   ///< what is trained on: paths
  int64_t rows = 0;                   ///< of an epoch
  double epochs = 0;                  ///< of the complete run
  int64_t steps = 0;                  ///< that the run has to make
  MemoryFit fit;                      ///< of the whole process
  std::optional<RankMemory> largest;  ///< of several ranks
  size_t ranks = 1;
  int64_t tokens_per_step = 0;
  double step_seconds = 0;        ///< median of the steps that were made, or extrapolated from them
  int64_t measured_steps = 0;     ///< made here
  int64_t measured_tokens = 0;    ///< of each of these: fewer than tokens_per_step where times are extrapolated
  double preparing_seconds = 0;   ///< before the first step: texts, tokenizer, weights, plans
  double validation_seconds = 0;  ///< of all validations, with their samples
  /// preparing, all steps and all validations, as far as a time limit lets them. Not counted: what files take, early
  /// stopping, and what is looked at beside (taps, gradients).
  double seconds = 0;
  /// What the ranks take; none: there is one process.
  void tell_of_ranks(std::span<const RankMemory> memory);
};
/// Some lines for people.
std::string to_text(const RunEstimate& estimate);
/// One object.
nlohmann::ordered_json to_json(const RunEstimate& estimate);

}  // namespace toy
