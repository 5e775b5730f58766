// The time of a run's parts, measured on the run's own plans.
#pragma once

#include <functional>

#include "toy/train/trainer.h"
#include "train/dataset.h"

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

/// Seconds of evaluating one batch; all take the same.
double time_evaluation(Trainer& trainer, const ValidationText& text);
/// Batches that a validation of at most `max_tokens` of the text (0: all) reads.
int64_t evaluation_batches(const ValidationText& text, int64_t max_tokens, const TrainerOptions& options);

}  // namespace toy
