// What people see of a training run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "toy/train/estimate.h"
#include "toy/train/recipe.h"

namespace toy::cli {

/// Where the events of a run go, the log first. `goes_on`: the log has the beginning of the run that is resumed.
struct RunLog {
  std::vector<std::unique_ptr<runs::EventSink>> sinks;
  bool goes_on = false;
};

/// Progress, validations and notes on stderr; losses of steps on stdout, the same bytes for the same options, unless
/// events go there. Hands events on to the run's log. SIGINT, SIGTERM and SIGHUP stop the run from its first step on.
class Reporter final : public TrainObserver {
 public:
  using OpenLog = std::function<RunLog(const ModelSpec& spec, bool resumed)>;
  /// `json`: stdout is for events. `log_every`: steps between two lines on stdout, 0: none; nullopt: every step has
  /// one, unless somebody looks at the bar on the same terminal. `open` is called once, when the run starts.
  Reporter(Results& results, bool json, std::optional<int64_t> log_every, OpenLog open = {});

  void preparing(const std::string& what) override;
  void settled(int64_t steps, int64_t tokens) override {
    if (on_settled) on_settled(steps, tokens);
  }
  void starting(const ModelSpec& spec, bool resumed) override { log_ = open_(spec, resumed); }
  void event(const runs::Event& event) override;
  void validating(int64_t batch, int64_t batches) override;
  bool stop() override;

  std::function<void(int64_t steps, int64_t tokens)> on_settled;  ///< TrainObserver::settled()
  /// The output of a run that is only planned.
  void estimated(const RunEstimate& estimate, bool with_roles = false);
  /// The run has ended, or had before. `how_to_resume`: a command line. Ends the program by the signal that stopped the
  /// run, if one did.
  void done(const TrainResult& result, const std::string& how_to_resume);

 private:
  void record(runs::Event event);
  void show(const runs::Event& event);
  void show(const runs::Step& step, bool at_once);
  void show_progress(bool at_once, bool with_time = true);
  void print_loss();

  Results& results_;
  bool json_;
  OpenLog open_;
  RunLog log_;
  std::vector<runs::Event> early_;  // notes from before there is a log
  Progress progress_;
  int64_t log_every_;
  std::optional<Interrupt> interrupt_;
  int64_t steps_ = 0, step_ = 0;  // of the run; that of last_
  std::optional<runs::Step> last_;
  bool last_is_printed_ = false;
  double validation_began_ = 0;
};

}  // namespace toy::cli
