// What a training makes smaller, and what that takes beside the step: forward passes, weights of targets, evaluation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "toy/train/trainer.h"

namespace toy {

/// A forward pass that gives the negative log-likelihoods of a batch.
struct ForwardPass {
  ModelSpec spec;
  bool drops = false;  ///< what a step drops
};

/// What a training makes smaller.
class Objective {
 public:
  virtual ~Objective() = default;
  /// What it runs. The first one is a validation's, for which weights are read as they are.
  virtual std::vector<ForwardPass> passes() const = 0;
  /// What a step multiplies the targets of its windows with, whose batches draw from `random` on. Throws
  /// Error{bad_input} where there is none.
  virtual StepWeights weigh(Trainer& trainer, const Windows& windows, int64_t random) = 0;
  /// See Trainer::evaluate().
  virtual EvalResult evaluate(Trainer& trainer, const ValidationRows& rows, int64_t max_tokens,
                              const std::function<bool()>& stop) = 0;

 protected:
  /// Gives `take` the batches of a validation, filled up with padding, and the row that each begins with, until
  /// `so_far` has `max_tokens` or `stop` says true.
  static void read(const Trainer& trainer, const ValidationRows& rows, int64_t max_tokens,
                   const std::function<bool()>& stop, const EvalResult& so_far,
                   const std::function<void(const Windows&, int64_t first)>& take);
};
/// The one that the options say, which must outlive it, as the model must.
std::unique_ptr<Objective> make_objective(const TrainerOptions& options, const ModelSpec& spec);
/// Of pictures, or texts, that have a class.
std::unique_ptr<Objective> make_class_objective(const ModelSpec& spec);
/// Of texts whose vectors are compared.
std::unique_ptr<Objective> make_contrastive_objective(const ContrastiveOptions& options, const ModelSpec& spec);
/// Of answers: options.preference.
std::unique_ptr<Objective> make_preference_objective(const TrainerOptions& options, const ModelSpec& spec);

}  // namespace toy
