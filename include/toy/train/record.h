// A run as events: what the recipe tells an observer, written where it is wanted.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "toy/runs/event.h"
#include "toy/train/recipe.h"

namespace toy {

/// What the recorder cannot see by itself.
struct RecordOptions {
  std::string run_id, toy, recipe;
  int threads = 1;
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  nlohmann::ordered_json effective = nlohmann::ordered_json::object();  ///< see runs::RunStart
};

/// Makes events and hands them to sinks, then passes what it was told on to `next`. The clock is steady and begins with
/// the recorder.
class Recorder final : public TrainObserver {
 public:
  using Sinks = std::vector<std::unique_ptr<runs::EventSink>>;
  /// Where events go. `goes_on`: the run that is resumed has its beginning there.
  struct Log {
    Sinks sinks;
    bool goes_on = false;
  };
  using Open = std::function<Log(const Start&, bool resumed)>;
  /// `open` is called once, when the run starts: the folder is there by then. `next` must outlive the recorder.
  Recorder(RecordOptions record, const RecipeOptions& recipe, const Device& device, Open open, TrainObserver& next);

  /// A `resume` event takes the place of run_start where the log goes on (runs::EventWriter::Mode::resume), and comes
  /// after it where a log had to begin again.
  void resumed(int64_t step, const std::string& checkpoint) override;
  void preparing(const std::string& what) override { next_.preparing(what); }
  void started(const Start& start) override;
  void entered(const std::string& region) override;
  void left(const std::string& region) override;
  void measured(const runs::Event& event) override;
  void stepped(const Step& step) override;
  void validating(int64_t done, int64_t batches) override { next_.validating(done, batches); }
  void evaluated(const Eval& eval) override;
  void checkpointed(const std::string& path, int64_t step) override;
  void warned(const std::string& text) override;
  void noted(const std::string& text) override;
  bool stop() override { return next_.stop(); }
  /// The last event of a run that has come to its end. Its exit code is 1 where `output_lost` says true, which is asked
  /// before each sink, the first of Log::sinks last.
  void done(const TrainResult& result, const std::function<bool()>& output_lost = {});
  /// The last event of a run that has not. Nothing is written if it had not started. Does not throw where a sink does.
  void failed(int exit_code, const std::string& error);

 private:
  double now() const;
  void write(const std::string& phase, runs::Body body);
  RecordOptions record_;
  const RecipeOptions& recipe_;
  std::string backend_;
  Open open_;
  Sinks sinks_;
  std::vector<std::string> early_notes_;  // from before there is a log
  TrainObserver& next_;
  double begin_;
  std::optional<int64_t> step_;
  std::optional<std::string> resumed_from_;
  double loss_ = runs::kUnknown;
  std::vector<std::pair<std::string, double>> regions_;
};

}  // namespace toy
