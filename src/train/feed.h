// From windows to the inputs of a training step.
#pragma once

#include "toy/data/corpus.h"
#include "toy/runtime/session.h"

namespace toy {

/// Targets that count in the loss: not negative ones, those of padding, nor those that a mask leaves out.
int64_t counted_targets(const Windows& windows, size_t first, size_t rows);
/// The inputs `tokens`, `targets`, `sequence`, `position` and `weight` of `rows` places from `first` on: each counted
/// target has `weight`, others 0. Windows that are not packed are sequences of T tokens.
void feed_windows(Session& session, const Windows& windows, size_t first, size_t rows, int64_t tokens, double weight);

}  // namespace toy
