// The checkpoints of a run: what is in them, which are kept, and how a run takes one up again. docs/checkpoints.md has
// the layout.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "toy/base/run_files.h"
#include "toy/formats/checkpoint.h"
#include "toy/train/recipe.h"
#include "train/tell.h"

namespace toy {

/// Where a run is, beside weights and moments.
struct RunState {
  int64_t step = 0;                ///< steps done
  int64_t updates = 0;             ///< of the optimizer: steps whose gradient was finite
  int64_t windows = 0;             ///< the data cursor: rows of T tokens taken (docs/data.md)
  double loss = 0;                 ///< of the last step
  std::optional<Evaluation> eval;  ///< the last
  std::optional<Evaluation> best;  ///< of least loss; evaluations of a part and of the whole do not compare
  int64_t skipped = 0;             ///< steps in a row that were not finite
  int64_t waited = 0;              ///< evaluations in a row that were no better than `least`
  double least = std::numeric_limits<double>::infinity();  ///< loss that early stopping compares with
  /// Steps in a row that learned nothing from rewards: without a difference; of answers that were all cut, too.
  int64_t unmixed = 0, cut = 0;
};

/// The folder `<out>/checkpoints`.
class Checkpoints {
 public:
  Checkpoints(const std::string& out, int64_t keep) : root_(out + "/" + runs::kCheckpointsFolder), keep_(keep) {}

  const std::string& root() const { return root_; }
  /// The newest that is whole, or "". Touches nothing. Throws Error{bad_input} when there are some and none is whole.
  const std::string& look();
  /// After look(): removes what killed writers left, sets aside the damaged ones that are newer than the one found, and
  /// returns what was wrong with each. `writes` false: the same report, and nothing is touched.
  std::vector<std::string> settle(bool writes) const;
  /// Writes one and removes what is not to be kept. Returns its path. Throws Error{bad_input} for a full disk, with
  /// what there is to go on from; checkpoints that are there are unharmed.
  std::string save(const Model& model, Trainer& trainer, const nlohmann::ordered_json& config, const RunState& s);
  /// The newest that is known to be whole, or "".
  const std::string& newest() const { return newest_; }
  /// That error of a run, and that the newest checkpoint is there to go on from, if one is and the error does not say
  /// so.
  Error with_resume_hint(const Error& error) const;
  /// Makes the link `best` lead to the best one, and removes what is not to be kept. save() does. Throws
  /// Error{bad_input} where the link cannot be made, with what there is to go on from.
  void tidy(const RunState& s) const;
  /// Throws Error{bad_input} where the folder or the link `best` cannot be made because something else has the name.
  void require_places() const;
  /// How many are there, whole or not.
  size_t count() const { return checkpoint_steps(root_).size(); }
  /// Bytes of one.
  static size_t bytes(const ModelSpec& spec, const OptimizerOptions& optimizer);

 private:
  std::vector<std::pair<int64_t, std::string>> damaged_;  // newer than newest_: step, and what is wrong
  std::string root_, newest_;
  int64_t keep_;
};

/// Bytes that a run after `step` steps writes in addition to what is there: the model, the averaged one, the
/// checkpoints that are kept, the best, the next one.
size_t disk_bytes(const RecipeOptions& options, const ModelSpec& spec, const Checkpoints& checkpoints, int64_t step);

/// @{
/// The parts of the checkpoint in folder `path`. They throw Error{bad_input} naming the file and what is wrong.
nlohmann::ordered_json checkpoint_config(const std::string& path);
RunState checkpoint_state(const std::string& path);
/// nullptr where some weights are frozen: then it is in the file that the run began with.
std::shared_ptr<const Tokenizer> checkpoint_tokenizer(const std::string& path);
/// Weights that can be trained, for the dimensions `spec`.
Model checkpoint_model(const std::string& path, const ModelSpec& spec, const Device& device);
/// Into a trainer of that model: moments and counters.
void restore_trainer(const std::string& path, const RunState& state, const Model& model, Trainer& trainer);
/// @}

/// What the newest checkpoint in `out` computed its products in; nullopt where there is none that can be read.
std::optional<DType> checkpoint_compute(const std::string& out);

/// A run that is complete, as `<out>/finished.json` records it beside the model: the file is written last, with length
/// and checksum of the model, without which it is no record.
struct FinishedRun {
  nlohmann::ordered_json config;      ///< what decided the numbers, see config_of()
  TrainResult result;                 ///< with its reason, `done` or `patience`; no time
  nlohmann::ordered_json init = {};   ///< content_of() the model file that the run began with
  nlohmann::ordered_json model = {};  ///< content_of() the run's model; write_finished() looks itself
};
/// {"bytes", "xxh64"} of a file; null for "".
nlohmann::ordered_json content_of(const std::string& path);
void write_finished(const std::string& out, const FinishedRun& run);
/// nullopt where the model, its average (if the run kept one) or the record is missing, or the record is of another
/// model. Throws Error{bad_input} naming the file for a record that is malformed; where there is a `checkpoint` to go
/// on from, that is only noted.
std::optional<FinishedRun> read_finished(const std::string& out, const std::string& checkpoint, Teller& tell);
/// After the model was replaced, or a new run has its first checkpoint. (Until then the record is good: the model may
/// not get written.)
void forget_finished(const std::string& out);

}  // namespace toy
