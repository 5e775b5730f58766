// The windows of a tokenized text that a step trains on, and those that an evaluation reads.
#pragma once

#include <cstdint>
#include <vector>

#include "toy/data/token_view.h"

namespace toy {

/// An answer among the places of a batch: one sequence, prompt and answer, whose targets that count are the answer's.
struct Answer {
  int64_t first = 0, places = 0;
  bool chosen = true;  ///< or rejected
  int64_t id = -1;     ///< the same wherever it comes again; -1: it has none
};

/// One batch: B windows of T inputs and their next tokens, row-major [B,T]. A negative target counts in no loss: a
/// prompt, or whatever else a model need not predict.
struct Windows {
  std::vector<int32_t> inputs, targets;
  /// Of packed rows: which sequence each place belongs to, unique in the batch, and its position there, from 0. A
  /// negative sequence is padding, which counts in no loss. Empty: each row is one sequence.
  std::vector<int32_t> sequence = {}, position = {};
  /// Which targets count in the loss. Empty: all but padding.
  std::vector<uint8_t> trained = {};
  /// Of preference training, in the order of places. Of pairs the chosen answer comes first, then the rejected one.
  std::vector<Answer> answers = {};
  /// Does the target at place `i` count?
  bool counts(size_t i) const {
    return targets[i] >= 0 && (sequence.empty() || sequence[i] >= 0) && (trained.empty() || trained[i]);
  }
};

/// Shuffled windows of T+1 tokens. Each epoch covers the ids once with windows at stride T from a random start in
/// [0,T), in a random order; both depend only on (seed, epoch), so that any step can be had without the ones before it.
class WindowSampler {
 public:
  /// Throws Error{bad_input} when there are fewer than T+1 ids: says how many there are and how many are needed.
  /// `ids` must outlive the sampler.
  WindowSampler(TokenView ids, int64_t batch, int64_t tokens, uint64_t seed);
  /// The batch of step `step` (counted from 0): windows(step * batch, batch).
  Windows batch(int64_t step) const;
  /// `count` windows from window `first` on, counted from 0 through all epochs. They may cross the end of an epoch.
  Windows windows(int64_t first, int64_t count) const;
  int64_t windows_per_epoch() const { return per_epoch_; }

 private:
  TokenView ids_;
  int64_t batch_, tokens_, per_epoch_;
  uint64_t seed_;
};

/// One window of an evaluation: inputs ids[begin, begin+tokens), targets one further. The first `skip` targets were
/// already counted by the window before.
struct EvalWindow {
  int64_t begin, tokens, skip = 0;
};
/// Unshuffled windows of up to `tokens` inputs, `stride` apart (0: side by side), that count each of ids[1..] exactly
/// once. A smaller stride gives each counted target at least tokens - stride others to be predicted from.
std::vector<EvalWindow> eval_windows(int64_t ids, int64_t tokens, int64_t stride = 0);

}  // namespace toy
