// What a run does between its steps to see how well it learns: the loss on its validation texts, or the reward of its
// answers, and samples.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "toy/decode/decoder.h"
#include "toy/train/recipe.h"
#include "toy/train/trainer.h"
#include "train/checkpoints.h"
#include "train/dataset.h"
#include "train/tell.h"

namespace toy {

class Rollouts;

/// The decoder that writes a run's samples.
DecoderOptions sample_options(const RecipeOptions& options, const ModelSpec& spec);

/// Throws Error{bad_input} where the options need a validation text and none has anything to predict; warns where they
/// have no effect. Of questions make_rollouts() does.
void require_validation(const RecipeOptions& options, const Dataset& data, Teller& tell);
/// Warns where the validation at the end takes longer than all steps, as a twentieth of a large text may.
void warn_of_long_validation(const RecipeOptions& options, const Dataset& data, Teller& tell);

/// Validations of a run, early stopping and the best of them, which are parts of its state.
class Validator {
 public:
  /// All that it is given must outlive it. `checkpoints`: the best is linked there; nullptr where nothing may be
  /// written.
  /// `rollouts`: of reinforcement learning, whose held-out questions are asked instead of reading texts; else nullptr.
  Validator(const RecipeOptions& options, Device& device, const Model& model, Trainer& trainer, const Dataset& data,
            Teller& tell, RunState& state, const Checkpoints* checkpoints, Rollouts* rollouts)
      : o_(options),
        device_(device),
        model_(model),
        trainer_(trainer),
        data_(data),
        tell_(tell),
        state_(state),
        checkpoints_(checkpoints),
        rollouts_(rollouts) {}

  /// @{
  /// They return false (nullopt) where the observer wants the run to end. Then nothing was learned of what is missing,
  /// and catch_up() makes it later.

  /// The validation of this step. Early stopping and the best checkpoint compare like with like: where validations read
  /// a part of the text, they read that part at the last step, too, and the complete text only after it.
  bool evaluate(bool last);
  /// The validation that a run which is resumed was kept from.
  bool catch_up();
  /// The complete validation text where the clock ended this part of the run: to be known, but not to be learned from.
  /// The run has the same bits however often it is stopped.
  std::optional<Evaluation> look();
  /// @}
  /// Is there anything to validate on?
  bool is_there() const;
  /// Does a validation follow this step?
  bool is_due() const { return o_.eval_every > 0 && state_.step % o_.eval_every == 0; }
  /// Early stopping: the last `patience` validations were no better than the best before them.
  bool patience_is_over() const { return o_.patience > 0 && state_.waited >= o_.patience; }

  /// Seconds that a validation will take, of which one batch takes `batch`; the time of a sample is measured once.
  double seconds(int64_t limit, double batch);
  /// The same without measuring: from what validations took so far, before the first from `batch_seconds`, a guess.
  double expected_seconds(int64_t limit, double batch_seconds);
  /// Seconds that validations took so far.
  double spent() const { return spent_; }

 private:
  std::optional<runs::JsonObject> classes_of(const EvalResult& result, const ValidationText& text) const;
  struct Losses;
  std::optional<Losses> losses(int64_t limit);
  // The loss on at most `limit` tokens of each text (0: all), of the averaged weights too, and a sample if wanted.
  std::optional<Evaluation> run(int64_t limit, bool with_sample);
  std::optional<Evaluation> validate(int64_t limit, bool with_sample);
  std::optional<Evaluation> validate_answers(int64_t limit);
  void judge(const Evaluation& e);
  bool is_final(const Evaluation& e) const;
  bool is_made() const { return state_.eval && state_.eval->step == state_.step; }
  runs::Body sample_or_note();
  runs::Sample sample(int64_t tokens);
  int64_t batches(int64_t limit);

  const RecipeOptions& o_;
  Device& device_;
  const Model& model_;
  Trainer& trainer_;
  const Dataset& data_;
  Teller& tell_;
  RunState& state_;
  const Checkpoints* checkpoints_;
  Rollouts* rollouts_;
  std::unique_ptr<Decoder> decoder_;
  std::optional<double> sample_seconds_;
  std::map<int64_t, int64_t> batches_;  // of all texts, by the limit
  double spent_ = 0;
  int64_t batches_read_ = 0;         // in all validations
  int64_t done_ = 0, in_total_ = 0;  // batches of this one
};

}  // namespace toy
