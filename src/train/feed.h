// From windows to the inputs of a training step.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "toy/data/corpus.h"
#include "toy/nn/blocks.h"
#include "toy/runtime/session.h"
#include "toy/train/trainer.h"

namespace toy {

/// Targets that count in the loss: not negative ones, those of padding, nor those that a mask leaves out.
int64_t counted_targets(const Windows& windows);
/// `weight` for each of them among all places, 0 for the others.
std::vector<float> equal_weights(const Windows& windows, double weight);
/// The inputs `tokens`, `targets`, `sequence`, `position` and `weight`, with these `weights`. Windows that are not
/// packed are sequences of T tokens. Also those of spread_inputs(), where the session has them.
void feed_windows(Session& session, const Windows& batch, int64_t tokens, std::span<const float> weights);
/// Inputs for `n` places whose sequences, of at most `tokens`, share their beginnings and are `spread` rows when they
/// are complete; none where that is 0.
nn::Spread spread_inputs(Graph& g, int64_t n, int64_t tokens, int64_t spread);
/// The inputs of a trainer's graph, whatever it makes smaller.
void feed_windows(Session& session, const Windows& batch, const TrainerOptions& options,
                  std::span<const float> weights);
/// The input `random` of what drops: batch `number` of a run with this seed.
void feed_random(Session& session, uint64_t seed, int64_t number);
/// Fills up with padding: of packed rows each place is a sequence of its own.
void pad(Windows& windows, int64_t places);
/// Runs it, in pieces where there are `ends` (Session::run()); an error begins with `what` and the step.
void run_session(Session& session, const char* what, int64_t step, std::span<const size_t> ends = {},
                 const std::function<void(size_t)>& done = {});

}  // namespace toy
