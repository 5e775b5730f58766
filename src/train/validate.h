// What a run does between its steps to see how well it learns: the loss on its validation texts, and samples.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "toy/decode/decoder.h"
#include "toy/train/recipe.h"
#include "toy/train/trainer.h"
#include "train/dataset.h"

namespace toy {

/// The decoder that writes a run's samples.
DecoderOptions sample_options(const RecipeOptions& options, const ModelSpec& spec);

/// Throws Error{bad_input} where the options need a validation text and none has anything to predict; warns where they
/// have no effect.
void require_validation(const RecipeOptions& options, const Dataset& data, TrainObserver& observer);

class Validator {
 public:
  /// All that it is given must outlive it.
  Validator(const RecipeOptions& options, Device& device, const Model& model, Trainer& trainer, const Dataset& data,
            TrainObserver& observer)
      : o_(options), device_(device), model_(model), trainer_(trainer), data_(data), observer_(observer) {}

  /// The loss behind step `step` on at most `limit` tokens of each text (0: all), of the averaged weights too, and a
  /// sample if wanted, all told to the observer. Nothing where the observer wants the run to end.
  std::optional<TrainObserver::Eval> run(int64_t step, int64_t limit, bool with_sample = true);
  /// Seconds that run() will take, of which one batch takes `batch`; the time of a sample is measured once.
  double seconds(int64_t limit, double batch);
  /// The same without measuring: from what run() took so far, before its first call from `batch_seconds`, a guess.
  double expected_seconds(int64_t limit, double batch_seconds);
  /// Seconds that run() took so far.
  double spent() const { return spent_; }

 private:
  struct Losses;
  std::optional<Losses> losses(int64_t limit);
  std::optional<TrainObserver::Eval> validate(int64_t step, int64_t limit, bool with_sample);
  std::string sample(int64_t step, int64_t tokens);
  int64_t batches(int64_t limit);

  const RecipeOptions& o_;
  Device& device_;
  const Model& model_;
  Trainer& trainer_;
  const Dataset& data_;
  TrainObserver& observer_;
  std::unique_ptr<Decoder> decoder_;
  std::optional<double> sample_seconds_;
  std::map<int64_t, int64_t> batches_;  // of all texts, by the limit
  double spent_ = 0;
  int64_t batches_read_ = 0;         // in all calls of run()
  int64_t done_ = 0, in_total_ = 0;  // batches of this one
};

}  // namespace toy
