// How far long work is: a bar on a terminal, a line every few seconds elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace toy::cli {

/// What is known of work that is under way.
struct ProgressState {
  std::string_view label;  ///< "step": what is counted
  std::string_view brief;  ///< the same where there is little room, or ""
  int64_t done = 0, total = 0;
  std::optional<double> loss = {};
  std::string_view figure = "loss";         ///< what `loss` is
  double tokens_per_second = 0;             ///< 0: not known
  std::optional<double> seconds_left = {};  ///< until everything is done, not only what is counted
};

/// Where a line of progress goes.
struct ProgressScreen {
  int columns = 80;      ///< the line is narrower; 0: there is no limit, and no bar
  bool unicode = false;  ///< blocks in eighths; else ASCII
  bool color = false;    ///< ANSI colors
};

/// "step 120/2000 [###.......] loss 3.4123  5120 tokens/s  1:05 left" or as much of it as there is room for; below 40
/// columns "120/2000 3.41 1:05".
std::string progress_line(const ProgressState& state, const ProgressScreen& screen);

/// Shows the latest state on stderr.
class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Removes the bar.
  ~Progress();

  bool on_terminal() const { return terminal_; }
  /// `now`: even if the last one was shown a moment ago.
  void show(const ProgressState& state, bool now = false);
  /// What somebody at a terminal is waiting for; not written elsewhere.
  void waiting(const std::string& what) const;

 private:
  bool terminal_;
  bool unicode_, color_;
  double last_;
};

}  // namespace toy::cli
