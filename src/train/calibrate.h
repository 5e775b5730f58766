// The time of a run's parts, measured on its own plans or, where these take long, on smaller ones.
#pragma once

#include <functional>

#include "toy/train/trainer.h"
#include "train/dataset.h"

namespace toy {

/// Windows [0, count) of the steps that are measured.
using WindowsFrom = std::function<Windows(int64_t first, int64_t count)>;

/// What was measured.
struct Calibration {
  double step = 0;     ///< seconds of a step
  double first = 0;    ///< of the first one, which touches all memory for the first time
  double batch = 0;    ///< of evaluating one batch; 0 without a text
  int64_t steps = 0;   ///< that were made
  int64_t tokens = 0;  ///< of each of them: fewer than a step has, where the times were extrapolated
};
/// Makes up to `most` steps and some evaluations of `text` (nullptr: none), for a few seconds. Where a step would take
/// long, these have fewer tokens, and the times are extrapolated by the work of each op. The weights change.
Calibration calibrate(Device& device, Model& model, Trainer& trainer, const TrainerOptions& options,
                      const WindowsFrom& windows, const ValidationText* text, double lr, int64_t most);
/// Batches that a validation of at most `max_tokens` of the text (0: all) reads.
int64_t evaluation_batches(const ValidationText& text, int64_t max_tokens, const TrainerOptions& options);

}  // namespace toy
