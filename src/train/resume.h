// What an earlier process left of a run in its folder, and how this one continues it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "toy/base/folder_lock.h"
#include "train/checkpoints.h"
#include "train/run.h"
#include "train/tell.h"

namespace toy {

/// With RecipeOptions::auto_compute: the type of products that is faster here, or that of the checkpoint to resume
/// from, since with another the run would not be the same.
void choose_compute(RecipeOptions& options, Device& device, Teller& tell);

/// A checkpoint to resume from, a complete run, or nothing. Never overwrites what belongs to another run.
class Resume {
 public:
  /// Looks. Locks the folder if it is there and `writes`. Throws Error{bad_input} where options and folder disagree.
  Resume(const RecipeOptions& options, ModelSource& source, Teller& tell, bool writes);

  /// The checkpoint to resume from, or "".
  const std::string& from() const { return from_; }
  /// Where it is; the start, without a checkpoint.
  const RunState& state() const { return state_; }
  /// Of the checkpoint, or of the complete run; else nullptr.
  std::shared_ptr<const Tokenizer> tokenizer() const;

  /// What the earlier run's config says at a place; null: nothing, or there is no earlier run.
  nlohmann::ordered_json earlier(const char* place) const;
  /// What decides the numbers of this run, to be compared with the earlier one's. Throws Error{bad_input} where it is
  /// another run, unless changes are allowed.
  void compare(const nlohmann::ordered_json& config);
  /// After compare(). The result of an earlier process that completed this very run.
  const std::optional<TrainResult>& complete() const { return complete_; }
  /// After compare(): sets damaged checkpoints aside, makes the folder and proves that it can be written.
  void prepare_to_write(const ModelSpec& spec);

  /// The file that the model began with: content_of() it when the run began.
  const nlohmann::ordered_json& init() const { return init_; }
  Checkpoints& checkpoints() { return checkpoints_; }

 private:
  std::string result_path() const;
  std::string earlier_result() const;
  bool replaces_its_source() const;
  std::string how_to_train_further() const;
  void compare_with_finished(const nlohmann::ordered_json& config);
  void compare_with_checkpoint(const nlohmann::ordered_json& config);

  const RecipeOptions& o_;
  ModelSource& source_;
  Teller& tell_;
  bool writes_;
  std::optional<FolderLock> lock_;
  Checkpoints checkpoints_;
  std::string from_;
  RunState state_;
  std::optional<FinishedRun> finished_;  // of the model that is there, of this run or another
  std::optional<TrainResult> complete_;
  nlohmann::ordered_json init_;
};

}  // namespace toy
