// What people see of a training run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "toy/train/estimate.h"
#include "toy/train/recipe.h"

namespace toy::cli {

/// Progress, validations and notes on stderr; losses of steps on stdout, the same bytes for the same options, unless
/// events go there. SIGINT, SIGTERM and SIGHUP stop the run from its first step on.
class Reporter final : public TrainObserver {
 public:
  /// `json`: stdout is for events. `log_every`: steps between two lines on stdout, 0: none; nullopt: every step has
  /// one, unless somebody looks at the bar on the same terminal. Throws Error{bad_input} for a negative number.
  Reporter(Results& results, bool json, std::optional<int64_t> log_every);

  void preparing(const std::string& what) override;
  void warned(const std::string& text) override;
  void noted(const std::string& text) override;
  void started(const Start& start) override;
  void resumed(int64_t step, const std::string& checkpoint) override;
  void checkpointed(const std::string& path, int64_t step) override;
  void stepped(const Step& step) override;
  void validating(int64_t batch, int64_t batches) override;
  void evaluated(const Eval& eval) override;
  bool stop() override;

  /// The output of a run that is only planned.
  void estimated(const RunEstimate& estimate);
  /// `how_to_resume`: a command line. Ends the program by the signal that stopped the run, if one did; else output that
  /// was lost makes it fail.
  void done(const TrainResult& result, const std::string& how_to_resume);

 private:
  void show(const Step& step, bool now, bool with_time = true);
  void log(const Step& step);

  Results& results_;
  bool json_;
  Progress progress_;
  int64_t log_every_;
  std::optional<Interrupt> interrupt_;
  std::optional<Step> last_;
  bool last_is_logged_ = false;
  double validation_began_ = 0;
};

}  // namespace toy::cli
