// From windows to the inputs of a training step.
#pragma once

#include <span>
#include <vector>

#include "toy/data/corpus.h"
#include "toy/runtime/session.h"

namespace toy {

/// Targets that count in the loss: not negative ones, those of padding, nor those that a mask leaves out.
int64_t counted_targets(const Windows& windows, size_t first, size_t rows);
/// `weight` for each of them among all places, 0 for the others.
std::vector<float> equal_weights(const Windows& windows, double weight);
/// The inputs `tokens`, `targets`, `sequence`, `position` and `weight` of `rows` places from `first` on. `weights`: of
/// all places. Windows that are not packed are sequences of T tokens.
void feed_windows(Session& session, const Windows& windows, size_t first, size_t rows, int64_t tokens,
                  std::span<const float> weights);

/// Rows of a validation; `max_tokens` as in Trainer::evaluate().
Windows rows_for_evaluation(const PackedRows& rows, int64_t first, int64_t count, int64_t max_tokens);

}  // namespace toy
