// The folder of a run: where it is, what must not be lost there, and what the run leaves beside its weights.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "toy/runs/log.h"
#include "train/run.h"

namespace toy {

/// Made before the run and kept until its end.
class RunFolder {
 public:
  /// Fills in `options.out` and the run's id. Makes the folder, if `writes` and placeholders name it. Throws
  /// Error{bad_input} naming the option where the run would write over what it reads, or over what no run wrote.
  RunFolder(RecipeOptions& options, const ModelSource& source, TrainObserver& observer, bool writes);
  /// Takes a folder away again that was not there before and is empty.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Opens events.jsonl, and TensorBoard's files if they are wanted, writes config.json and flow.json, and links
  /// `latest` to a folder that placeholders named. `resumed`:
  /// the log goes on if it is there; one that cannot be read is put aside with a warning: it must not keep a whole
  /// checkpoint from going on.
  void open(const RecipeOptions& options, const ModelSpec& spec, bool resumed,
            const std::function<void(const std::string&)>& warn);
  /// Logs it. What comes before open() waits until the run has begun.
  void record(runs::Event event);

 private:
  void write(runs::Event& event);

  std::string path_;
  TrainObserver& observer_;
  bool named_ = false;    // by its placeholders
  bool ours_ = false;     // it was not there before
  bool goes_on_ = false;  // the log has the beginning of the run that is resumed
  std::vector<runs::Event> early_;
  std::unique_ptr<runs::EventSink> board_;
  std::unique_ptr<runs::EventWriter> log_;
};

}  // namespace toy
