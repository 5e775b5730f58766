// What every training recipe shares: its options, what it tells while it runs, and its result.
#pragma once

#include <optional>
#include <string>

#include "toy/train/schedule.h"
#include "toy/train/trainer.h"

namespace toy {

/// What every recipe is told.
struct RecipeOptions {
  std::string corpus;      ///< path of a text
  std::string validation;  ///< path of a text, or "": the last `validation_fraction` of the corpus
  double validation_fraction = 0.05;
  TrainerOptions trainer;
  int64_t steps = 1000;
  double lr = 1e-3;
  int64_t warmup = -1;           ///< steps; -1: a twentieth, at most 200
  double final_lr = 0.1;         ///< of the peak
  uint64_t seed = 0;             ///< of shuffling, samples, dropout, and what else a recipe draws
  int64_t context = 0;           ///< positions that the saved model states; 0: as the model's source says
  int64_t eval_every = 0;        ///< steps; 0: at the end only
  int64_t eval_tokens = 0;       ///< of validation text read by evaluations before the last; 0: all
  int64_t sample_tokens = 0;     ///< tokens of the sample that goes with each evaluation
  DType stored = DType::f32;     ///< of matrices, in the file
  std::string out = "out";       ///< folder
  int64_t checkpoint_every = 0;  ///< steps; 0: only when the run is stopped
  int64_t keep = 2;              ///< checkpoints kept: the last ones; the best is kept beside them
  bool resume = false;           ///< go on from the newest whole checkpoint in `out`, or begin if there is none
  bool allow_changes = false;    ///< resume although options, texts or version are not the checkpoint's
  std::string name;              ///< of the model; "": as the model's source says
};

/// What a run tells whoever watches it. All methods are called on the caller's thread.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// What is known before the first step.
  struct Start {
    const ModelSpec& spec;
    int64_t parameters, train_tokens, validation_tokens, validation_bytes, windows_per_epoch;
    size_t planned_bytes;
    const Plan& plan;
  };
  /// One step.
  struct Step {
    int64_t step, steps;  ///< step counts from 1
    double loss, lr;
    std::optional<double> grad_norm;  ///< streaming updates have none
    bool skipped;                     ///< not finite: nothing has changed
    double tokens_per_second, seconds_left;
  };
  /// One evaluation on the validation text.
  struct Eval {
    int64_t step;
    double loss;  ///< nats a token
    double nats_per_byte;
    bool whole;  ///< all of the validation text was read
    std::string sample;
  };
  /// What is being done before the first step, for people who wait.
  virtual void preparing(const std::string& what) { (void)what; }
  /// Once, before the first step.
  virtual void started(const Start&) {}
  /// After every step.
  virtual void stepped(const Step&) {}
  /// After every evaluation.
  virtual void evaluated(const Eval&) {}
  /// After started(), where a run goes on behind `step` steps that are done.
  virtual void resumed(int64_t step) { (void)step; }
  /// A checkpoint is on disk.
  virtual void checkpointed(const std::string& path, int64_t step) { (void)path, (void)step; }
  /// What somebody should know although the run goes on: a damaged checkpoint that was passed over, a changed option.
  virtual void warned(const std::string& text) { (void)text; }
  /// Asked after every step and its evaluation. Once it says true, the run saves a checkpoint and ends there.
  virtual bool stop() { return false; }
};

/// What a recipe leaves.
struct TrainResult {
  std::string model_path;  ///< "" if the run was stopped before its end
  std::string checkpoint;  ///< the newest that is on disk, or ""
  int64_t step = 0;        ///< steps done
  double final_loss = 0;
  std::optional<TrainObserver::Eval> eval;
  double seconds = 0;
};

/// What the newest checkpoint in `out` computed its products in; nullopt where there is none that can be read. For a
/// caller who chose it by measuring and wants to resume.
std::optional<DType> checkpoint_compute(const std::string& out);

}  // namespace toy
