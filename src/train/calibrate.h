// The time of a run's parts, measured on the run's own plans.
#pragma once

#include <functional>

#include "toy/train/trainer.h"

namespace toy {

/// Seconds of steps.
struct StepTimes {
  double step = 0;   ///< median
  double first = 0;  ///< of the first one, which touches all memory for the first time
  int64_t steps = 0;
};
/// Makes 1 to `most` steps with the `windows` of each, for about two seconds, at least four where they are not slow.
/// The weights change.
StepTimes time_steps(Trainer& trainer, const std::function<Windows(int64_t step)>& windows, double lr, int64_t most);

/// Seconds of evaluating one batch of windows of `ids`.
double time_evaluation(Trainer& trainer, std::span<const int32_t> ids, const TrainerOptions& options);
/// Batches of windows that Trainer::evaluate reads of so many ids.
int64_t evaluation_batches(int64_t ids, int64_t max_tokens, const TrainerOptions& options);

}  // namespace toy
