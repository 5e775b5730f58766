// A progress bar on a terminal, plain lines elsewhere.
#pragma once

#include <string>

#include "toy/train/recipe.h"

namespace toy::cli {

/// Writes to stderr: one line that is redrawn on a terminal, a line every few seconds otherwise.
class Progress {
 public:
  Progress();
  void update(const TrainObserver::Step& step);
  /// Text that stays, above the bar.
  void note(const std::string& text);
  /// What somebody at a terminal is waiting for; not said elsewhere.
  void waiting(const std::string& what);
  /// Takes the bar away, so that a line of stdout on the same terminal does not run into it.
  void clear();
  void finish();

 private:
  bool terminal_;
  bool drawn_ = false;
  double last_ = 0;
};

}  // namespace toy::cli
