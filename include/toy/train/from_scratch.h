// The from-scratch recipe: a text becomes a tokenizer, a model, a GGUF.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "toy/train/schedule.h"
#include "toy/train/trainer.h"

namespace toy {

struct FromScratchOptions {
  std::string corpus;      ///< path of a text
  std::string validation;  ///< path of a text, or "": the last `validation_fraction` of the corpus
  double validation_fraction = 0.05;
  std::string size = "small";       ///< a named size or a JSON file
  std::string tokenizer = "bytes";  ///< "bytes" or "spm:V"
  TrainerOptions trainer;
  int64_t steps = 1000;
  double lr = 1e-3;
  int64_t warmup = -1;      ///< steps; -1: a twentieth, at most 200
  double final_lr = 0.1;    ///< of the peak
  double init_scale = 1.0;  ///< matrices start as N(0, init_scale / sqrt(fan_in))
  uint64_t seed = 0;
  int64_t context = 0;        ///< positions that the saved model states; 0: the size's own, at least the window
  int64_t eval_every = 0;     ///< steps; 0: at the end only
  int64_t eval_tokens = 0;    ///< of validation text read by evaluations before the last; 0: all
  int64_t sample_tokens = 0;  ///< tokens of the sample that goes with each evaluation
  DType stored = DType::f32;
  std::string out = "out";  ///< folder
  std::string name = "toy";
};

/// What a run tells whoever watches it. All methods are called on the caller's thread.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  struct Start {
    const ModelSpec& spec;
    int64_t parameters, train_tokens, validation_tokens, validation_bytes, windows_per_epoch;
    size_t planned_bytes;
    const Plan& plan;
  };
  struct Step {
    int64_t step, steps;  ///< step counts from 1
    double loss, lr, grad_norm, tokens_per_second, seconds_left;
  };
  struct Eval {
    int64_t step;
    double loss;  ///< nats a token
    double nats_per_byte;
    bool whole;  ///< all of the validation text was read
    std::string sample;
  };
  /// What is being done before the first step, for people who wait.
  virtual void preparing(const std::string& what) { (void)what; }
  virtual void started(const Start&) {}
  virtual void stepped(const Step&) {}
  virtual void evaluated(const Eval&) {}
};

struct FromScratchResult {
  std::string model_path;
  double final_loss = 0;
  std::optional<TrainObserver::Eval> eval;
  double seconds = 0;
};

/// Checks everything that can be checked (options, files, dimensions, memory, the output folder) before the first step.
/// Throws Error{bad_input} for what the caller can mend. Deterministic: the same options give the same bytes.
FromScratchResult train_from_scratch(const FromScratchOptions& options, Device& device, TrainObserver& observer);

}  // namespace toy
