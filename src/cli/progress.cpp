#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/console.h"

namespace toy::cli {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int columns() {
  winsize w{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

std::string clock_text(double seconds) {
  constexpr double kMost = 1e9;  // more than 30 years: nobody waits, and it fits
  if (!(seconds < kMost)) return "years";
  const int s = std::max(0, int(seconds + 0.5));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::update(const TrainObserver::Step& s) {
  const double t = now(), period = terminal_ ? 0.1 : 5.0;
  const bool edge = s.step == 1 || s.step == s.steps;
  if (!edge && t - last_ < period) return;
  last_ = t;
  const std::string text = fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  {} left", s.step, s.steps, s.loss,
                                       s.tokens_per_second, clock_text(s.seconds_left));
  if (!terminal_) {
    to_stderr(text + "\n");
    return;
  }
  const int width = columns(), bar = std::clamp(width - int(text.size()) - 4, 0, 40);
  const int full = int(double(bar) * double(s.step) / double(s.steps));
  std::string line =
      bar >= 4 ? "[" + std::string(size_t(full), '#') + std::string(size_t(bar - full), '.') + "] " + text : text;
  line.resize(std::min(line.size(), size_t(std::max(1, width - 1))));
  to_stderr("\r\x1b[2K" + line);
  drawn_ = true;
}

void Progress::note(const std::string& text) {
  finish();
  to_stderr(text + "\n");
}

void Progress::waiting(const std::string& what) {
  if (terminal_) note(what + " ...");
}

void Progress::clear() {
  if (drawn_) to_stderr("\r\x1b[2K");
  drawn_ = false;
}

void Progress::finish() {
  if (drawn_) to_stderr("\n");
  drawn_ = false;
}

}  // namespace toy::cli
