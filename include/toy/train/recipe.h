// What every training recipe shares: its options, what it tells while it runs, and its result.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "toy/runs/event.h"
#include "toy/train/data.h"
#include "toy/train/policy.h"
#include "toy/train/schedule.h"
#include "toy/train/trainer.h"
#include "toy/train/watch.h"

namespace toy {

/// What the log of a run says of it at its beginning; nothing depends on it. See runs::RunStart. `config` is in
/// config.json, too, which is not written where it is empty.
struct RunRecord {
  std::string run_id;  ///< "": the name of the folder
  runs::JsonObject config;
};

/// With RecipeOptions::fit_tokens a sequence has as many tokens as the longest row, rounded up to a multiple of 64, but
/// no more than these nor than the model's context.
inline constexpr int64_t kMostFittedTokens = 2048;

/// The folder of a run that is told none: a new one each time.
inline constexpr const char* kNewFolder = "out/{recipe}-{date}-{seq}";
/// The newest of these folders, to which the link `latest` next to it leads; "" if there is none.
std::string newest_run();
/// A file or folder in `out` that no run has made, so that its own would be mixed with others; "" in the folder of a
/// run and where there is none. Hidden names and those that end with .log do not count.
std::string other_file_in(const std::string& out);

/// What every recipe is told.
struct RecipeOptions {
  DataOptions data;
  TrainerOptions trainer;
  int64_t steps = 1000;
  std::optional<double> epochs;  ///< instead of `steps`: as many as take every row this often on average
  bool fit_batch = false;        ///< answers of a step decide on TrainerOptions::batch, with fit_tokens
  bool fit_tokens = false;       ///< rows of --data decide on TrainerOptions::tokens: see kMostFittedTokens
  double lr = 1e-3;
  Schedule::Kind schedule = Schedule::cosine;
  int64_t warmup = -1, decay_steps = -1;
  double final_lr = 0.1;
  int64_t max_skipped = 10, patience = 0;
  double min_delta = 0;
  double time_limit = 0;  ///< seconds; the run stops after the step in which they have passed; 0: none
  uint64_t seed = 0;      ///< of shuffling, samples, dropout, and what else a recipe draws
  int64_t context = 0;    ///< positions that the saved model states; 0: as the model's source says
  int64_t eval_every = 0;
  int64_t eval_tokens = 0;  ///< of validation text read by evaluations; with eval_every the last one reads all. 0: all
  int64_t sample_tokens = 0;
  size_t memory = 0;          ///< bytes that the whole process may hold, see fit_memory(); 0: no limit
  DType stored = DType::f32;  ///< of matrices, in the file
  std::string mix;            ///< a mix of `toy quantize` that the file is quantized to; "": none
  /// Folder of the run: its model, checkpoints, log (docs/runs.md), and of an adapter a copy for PEFT.
  /// runs::make_folder() has the placeholders; {arch} and {recipe} are the run's. A folder that is named anew each time
  /// has a link to the newest one, `latest`, beside it. What is there and of no run is never replaced.
  std::string out = kNewFolder;
  bool overwrite = false;   ///< replace the model that an earlier run has made in `out`
  std::string tensorboard;  ///< folder for event files of TensorBoard; "": none
  std::string name;         ///< of the model; "": as the model's source says
  int64_t checkpoint_every = 0, keep = 2;
  /// Continue from the newest checkpoint in `out` (of kNewFolder: in the newest run there), or begin if there is none.
  bool resume = false;
  bool allow_changes = false;  ///< resume although options, texts or version are not the checkpoint's
  WatchOptions watch;          ///< what is looked at while it runs
  RunRecord record;            ///< what its log says of it
  /// Learn from rewards of answers that the model draws, instead of from the rows of the data, which are questions.
  std::optional<PolicyOptions> policy = {};
  /// Instead of trainer.compute, the faster type by measuring. A resumed run takes that of its checkpoint.
  bool auto_compute = false;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Schedule", kCheckpoints = "Checkpoints", kOutput = "Output";
    f({"steps", "Optimizer steps; by default 3 epochs of --data", at_least(1), k}, o.steps);
    f(text_option("epochs", "Instead of --steps: how often each row is learned", k, "", "steps", above(0)), o.epochs);
    f({.name = "lr", .help = "Peak learning rate", .limits = above(0), .group = "Optimizer", .derived = true}, o.lr);
    f(text_option("schedule", "After warmup: {}(decay=N)", k, "TEXT"), o.schedule);
    f({"warmup", "Steps of linear warmup; -1 takes 5% of --steps, at most 200", at_least(-1), k}, o.warmup);
    f({"decay_steps", "Final steps in which the rate falls; -1 takes 20% of --steps", at_least(-1), "", "wsd", "decay"},
      o.decay_steps);
    f({"final_lr", "Final learning rate as a fraction of the peak", from_to(0, 1), k}, o.final_lr);
    f({"patience", "Stop after N validations without improvement; 0 never stops", at_least(0), k}, o.patience);
    f({"min_delta", "Improvement in nats per token that --patience counts", at_least(0), k}, o.min_delta);
    f({"seed", "Seed of shuffling, and of weights that begin at random", {}, "Model"}, o.seed);
    f({"context", "Positions of the new model; 0 keeps its own", at_least(0), "Model"}, o.context);
    f({"eval_every", "Steps between validations; 0 validates only at the end", at_least(0), k}, o.eval_every);
    f({"eval_tokens", "Validation tokens to read per validation; 0 reads all", at_least(0), k}, o.eval_tokens);
    f({"sample_tokens", "Tokens to generate as a sample at each validation", at_least(0), kOutput, "", "", "--sample"},
      o.sample_tokens);
    f({"stored", "Type of the matrices in the file, as of `toy quantize`", {}, kOutput, "", "", "--dtype"}, o.stored);
    f({"name", "Name of the new model (default: toy, or that of the one it begins with)", {}, "Model"}, o.name);
    f({"max_skipped", "Abort after N consecutive steps with a non-finite gradient", at_least(1), k}, o.max_skipped);
    f(text_option("time_limit", "Stop and save after this time, such as 90s, 10m or 2h", k, "TIME", "", at_least(0)),
      o.time_limit);
    f({"checkpoint_every", "Steps between checkpoints; 0 saves only when interrupted", at_least(0), kCheckpoints},
      o.checkpoint_every);
    f({"keep", "Recent checkpoints to keep, besides the best", at_least(1), kCheckpoints}, o.keep);
    f({"resume", "Resume from the newest checkpoint in --out", {}, kCheckpoints}, o.resume);
    f({"allow_changes", "With --resume, accept other options, texts or toy versions", {}, kCheckpoints},
      o.allow_changes);
    f(text_option("out", "Folder of the run, with placeholders", kOutput, "FOLDER"), o.out);
    f({"overwrite", "Replace the model of an earlier run in --out", {}, kOutput}, o.overwrite);
    f(text_option("tensorboard", "Folder for event files of TensorBoard", kOutput, "FOLDER"), o.tensorboard);
    f(text_option("memory", "Memory limit, such as 4G or 512M; recomputes activations to keep it", "Machine", "SIZE"),
      o.memory);
  }

  /// The schedule that these say. Throws Error{bad_input} for an impossible one.
  Schedule rates() const;
};

/// Sets kind and settings of the schedule: "cosine", "wsd(decay=200)". Throws Error{bad_input}, which begins with
/// `what`, naming what the schedule has instead.
void set_schedule(RecipeOptions& options, std::string_view text, std::string_view what = "schedule");
/// What set_schedule() reads, with the steps that these are when there are so many in all.
std::string schedule_text(const RecipeOptions& options);

/// An evaluation on the validation text after `step` steps.
struct Evaluation : runs::Eval {
  int64_t step = 0;
};

/// Whoever watches a run. All methods are called on the caller's thread.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// What is being done before the first step, for people who wait.
  virtual void preparing(const std::string& what) { (void)what; }
  /// What happens, as a log holds it. Notes may come before run_start; a resumed run has its `resume` after it.
  virtual void event(const runs::Event& event) { (void)event; }
  /// Before each batch of a validation: `done` of `batches` are done. At the step's end its `eval` follows.
  virtual void validating(int64_t done, int64_t batches) { (void)done, (void)batches; }
  /// Asked after every step and its evaluation. Once it says true, the run saves a checkpoint and ends there.
  virtual bool stop() { return false; }
  /// Takes what the log takes, when it does, or nullptr.
  virtual runs::EventSink* sink() { return nullptr; }
  /// Does what it shows reach nobody any more? Then the run's last event says 1 for the program's exit code.
  virtual bool lost() { return false; }
};

/// What a recipe leaves.
struct TrainResult {
  std::string out;         ///< the run's folder
  std::string model_path;  ///< "" if the run was stopped before its end
  std::string checkpoint;  ///< the newest that is on disk, or ""
  int64_t step = 0;        ///< steps done
  double final_loss = 0;
  std::optional<Evaluation> eval;
  double seconds = 0;
  std::string average_path;  ///< of the averaged weights; "": none were kept
  /// done: all steps were made; patience: validation got no better; time: the limit has passed; stopped: it was asked
  /// to.
  enum Reason { done, patience, time, stopped } reason = done;
  std::string peft_path;             ///< folder of the adapter's copy for PEFT; "": there is none
  std::vector<std::string> remarks;  ///< for people: what an adapter cannot be used for
  bool was_complete = false;         ///< resumed although an earlier process had finished the run: nothing was written
};

/// "done", "patience", ...
std::string_view name_of(TrainResult::Reason reason);

}  // namespace toy
