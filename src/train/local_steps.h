// Ranks that train apart for some steps, and then meet (DiLoCo, Douillard et al. 2023, arXiv 2311.08105).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "toy/train/trainer.h"

namespace toy {

class Crew;
class GradientSums;

/// Every TrainerOptions::local_steps steps: the mean of the ranks' weights, taken from those that they began with, is
/// the gradient of a step of SGD with Nesterov's momentum from there; they begin again with its result. Of each tensor
/// one rank keeps where they began and the velocity, and makes the step.
class LocalSteps {
 public:
  /// What one rank keeps of a trained tensor for all.
  static std::string start_of(const std::string& tensor) { return tensor + ".start"; }
  static std::string velocity_of(const std::string& tensor) { return tensor + ".outer"; }

  LocalSteps(Device& device, const Model& model, const TrainerOptions& options, const TrainPlans& plans,
             ParamStore& moments, GradientSums& sums, const std::shared_ptr<const DeviceBuffer>& arena);
  /// All ranks have the same weights: those are where they begin.
  void begin();
  /// All ranks meet. The accumulators are used.
  void meet(Crew& crew);

 private:
  struct Tensor {
    std::string name;
    bool own = false;  // does this rank make its step?
  };
  Device& device_;
  const ParamStore& weights_;
  ParamStore& moments_;
  GradientSums& sums_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<Session> session_;  // nullptr: it has no tensor
};

/// The step of the tensors that this rank has; nullptr where ranks do not train apart, or it has none.
std::shared_ptr<const Plan> compile_outer(Device& device, const ModelSpec& spec, const TrainerOptions& options);

}  // namespace toy
