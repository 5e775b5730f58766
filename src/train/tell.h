// What a run tells its observer and its log.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "toy/train/recipe.h"
#include "train/agree.h"

namespace toy {

class RunFolder;

/// Makes events: gives each its time, step and phase.
class Teller {
 public:
  /// The clock begins here. Both must outlive it.
  Teller(TrainObserver& observer, RunFolder& folder);
  /// Tells what happened.
  void operator()(runs::Body body);
  /// The same of an event that has its step and phase.
  void operator()(runs::Event event);
  /// Something that people may want to know, and something that may be wrong.
  void note(const std::string& text) { operator()(runs::Note{text, {}}); }
  void warn(const std::string& text) { operator()(runs::Note{text, true}); }
  /// See TrainObserver.
  void preparing(const std::string& what) { observer_.preparing(what); }
  void validating(int64_t done, int64_t batches) { observer_.validating(done, batches); }
  bool stop() { return agree(observer_.stop()); }
  /// The last event of a run: how it ended.
  void ended(const TrainResult& r);
  /// The last event of a run that failed after this loss, if it had one. Where not even that can be told, a disk is
  /// full, say, and what the run failed of is what counts: nothing is thrown.
  void failed(const Error& error, std::optional<double> loss);

  /// Steps that are done, from now on.
  void at(int64_t step) { step_ = step; }
  /// Seconds since the run began.
  double seconds() const;

  /// A part of the run, "validation" or "save": what f() does.
  template <class F>
  void region(const std::string& name, const F& f) {
    operator()(runs::RegionEnter{name});
    const double begin = seconds();
    f();
    operator()(runs::RegionExit{name, std::llround((seconds() - begin) * 1e6)});
  }

 private:
  TrainObserver& observer_;
  RunFolder& folder_;
  double begin_;
  std::optional<int64_t> step_;
};

}  // namespace toy
