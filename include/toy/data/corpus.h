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
  /// Of contrastive training the texts of each row: anchor, positive, and perhaps a negative; equal ones have one id.
  /// Of texts with classes the text of each row.
  std::vector<Answer> answers = {};
  /// Of pictures, each a row of places: the values of each place's patch. Of pictures and of texts with classes, each a
  /// row: the share that each class has in the target. The target at the first place of a row is its class; the others
  /// count in no loss.
  std::vector<float> pixels = {}, shares = {};
  /// Its `count` places from `first` on, which begin and end with sequences.
  Windows part(int64_t first, int64_t count) const;
  /// Does the target at place `i` count?
  bool counts(size_t i) const {
    return targets[i] >= 0 && (sequence.empty() || sequence[i] >= 0) && (trained.empty() || trained[i]);
  }
};

/// Rows of T places that steps train on, in an order without an end: each epoch has every row once.
class Rows {
 public:
  virtual ~Rows() = default;
  /// Of an epoch.
  virtual int64_t rows() const = 0;
  /// `count` rows from row `first` on, counted from 0 through all epochs. They may cross the end of an epoch.
  virtual Windows windows(int64_t first, int64_t count) const = 0;
};

/// Rows of T places that a validation reads. `max_tokens`: of how many targets, 0: all.
class ValidationRows {
 public:
  virtual ~ValidationRows() = default;
  /// About how many rows have so many targets that count.
  virtual int64_t rows_for(int64_t max_tokens) const = 0;
  /// Up to `count` rows from row `first` on; none behind the last.
  virtual Windows validation(int64_t first, int64_t count, int64_t max_tokens) const = 0;
};

/// Shuffled windows of T+1 tokens. Each epoch covers the ids once with windows at stride T from a random start in
/// [0,T), in a random order; both depend only on (seed, epoch), so that any step can be had without the ones before it.
class WindowSampler final : public Rows {
 public:
  /// Throws Error{bad_input} when there are fewer than T+1 ids: says how many there are and how many are needed.
  /// `ids` must outlive the sampler.
  WindowSampler(TokenView ids, int64_t batch, int64_t tokens, uint64_t seed);
  /// The batch of step `step` (counted from 0): windows(step * batch, batch).
  Windows batch(int64_t step) const;
  Windows windows(int64_t first, int64_t count) const override;
  int64_t rows() const override { return per_epoch_; }

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

/// These windows of a text, at stride T/4: every token but the first few is predicted from at least 3T/4 others.
class TextRows final : public ValidationRows {
 public:
  /// `ids` must outlive it.
  TextRows(TokenView ids, int64_t tokens);
  int64_t rows_for(int64_t max_tokens) const override;
  Windows validation(int64_t first, int64_t count, int64_t max_tokens) const override;

 private:
  /// Ids that are read.
  int64_t ids(int64_t max_tokens) const;
  TokenView ids_;
  int64_t tokens_, stride_;
};

}  // namespace toy
