// What people see of a training run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

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
  /// one, unless somebody looks at the bar on the same terminal.
  /// `launched`: by mpirun or the like, whose other tasks have to be told before the program ends.
  Reporter(Results& results, bool json, std::optional<int64_t> log_every, bool launched = false);

  void preparing(const std::string& what) override;
  void event(const runs::Event& event) override;
  void validating(int64_t batch, int64_t batches) override;
  bool stop() override;
  runs::EventSink* sink() override { return json_ ? &lines_ : nullptr; }
  bool lost() override { return results_.lost(); }

  /// The output of a run that is only planned.
  void estimated(const RunEstimate& estimate, bool with_roles = false);
  /// What is said once the run has begun.
  void say_at_start(std::string text) { at_start_ = std::move(text); }
  /// The run has ended, or had before. `how_to_resume` and `how_to_try` (or "") are command lines. Ends the program by
  /// the signal that stopped the run, if one did.
  void done(const TrainResult& result, const std::string& how_to_resume, const std::string& how_to_try);

 private:
  void show(const runs::Step& step, bool at_once);
  void show_progress(bool at_once, bool with_time = true);
  void print_loss();

  Results& results_;
  bool json_, launched_;
  // JSON Lines on stdout.
  struct Lines final : runs::EventSink {
    explicit Lines(Results& r) : results(r) {}
    void write(const runs::Event& event) override { results.put(runs::to_json_line(event) + "\n"); }
    Results& results;
  } lines_{results_};
  Progress progress_;
  int64_t log_every_;
  std::optional<Interrupt> interrupt_;
  int64_t steps_ = 0, step_ = 0;  // of the run; that of last_
  std::optional<runs::Step> last_;
  std::optional<double> first_loss_;
  std::string at_start_;
  bool last_is_printed_ = false;
  double validation_began_ = 0;
};

}  // namespace toy::cli
