#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "cli/console.h"
#include "toy/base/clock.h"
#include "toy/base/utf8.h"

namespace toy::cli {
namespace {

constexpr int kShort = 40;    // columns; below there is no bar
constexpr int kLeastBar = 8;  // columns of a bar without its ends
constexpr int kMostBar = 40;

std::string clock_text(double seconds) {
  constexpr double kMost = 1e9;  // more than 30 years: nobody waits, and it fits
  if (!(seconds < kMost)) return "years";
  const int s = std::max(0, int(seconds + 0.5));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

// A diverged loss must not take the line.
std::string loss_text(double loss, int digits) {
  return std::fabs(loss) < 1e4 ? fmt::format("{:.{}f}", loss, digits) : fmt::format("{:.2g}", loss);
}

double part_done(const ProgressState& s) {
  return s.total > 0 ? std::clamp(double(s.done) / double(s.total), 0.0, 1.0) : 0.0;
}

// `columns` wide, with its ends.
std::string bar(double part, int columns, const ProgressScreen& screen) {
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int inside = columns - 2, eighths = int(part * inside * 8), full = eighths / 8;
  std::string filled, rest;
  int used = full;
  for (int i = 0; i < full; ++i) filled += screen.unicode ? "█" : "#";
  if (screen.unicode && eighths % 8 > 0) filled += kEighths[eighths % 8], ++used;
  rest = std::string(size_t(inside - used), screen.unicode ? ' ' : '.');
  if (screen.color && !filled.empty()) filled = "\x1b[32m" + filled + "\x1b[0m";
  return (screen.unicode ? "▕" : "[") + filled + rest + (screen.unicode ? "▏" : "]");
}

std::string in_line(std::initializer_list<std::string> parts) {
  std::string line;
  for (const std::string& part : parts)
    if (!part.empty()) line += (line.empty() ? "" : "  ") + part;
  return line;
}

// The longest form without a bar that fits. The last one always does, in as few columns as a percentage takes.
std::string short_line(const ProgressState& s, int columns) {
  const std::string count = fmt::format("{}/{}", s.done, s.total);
  const std::string named = s.brief.empty() ? count : fmt::format("{} {}", s.brief, count);
  const std::string loss = s.loss ? " " + loss_text(*s.loss, 2) : "";
  const std::string left = s.seconds_left ? " " + clock_text(*s.seconds_left) : "";
  for (const std::string& line : {named + loss + left, named + left, named, count})
    if (int(line.size()) <= columns) return line;
  return fmt::format("{:.0f}%", 100 * part_done(s)).substr(0, size_t(columns));
}

}  // namespace

std::string progress_line(const ProgressState& s, const ProgressScreen& screen) {
  const std::string loss = s.loss ? loss_text(*s.loss, 2) : "",
                    clock = s.seconds_left ? clock_text(*s.seconds_left) : "",
                    exact = s.loss ? fmt::format("{} {}", s.figure, loss_text(*s.loss, 4)) : "",
                    speed = s.tokens_per_second > 0 ? fmt::format("{:.0f} tokens/s", s.tokens_per_second) : "",
                    left = clock.empty() ? "" : clock + " left";
  if (screen.columns == 0) return in_line({fmt::format("{} {}/{}", s.label, s.done, s.total), exact, speed, left});
  const int columns = std::max(1, screen.columns - 1);  // a full last column makes some terminals begin a new line
  const std::string total = std::to_string(s.total);    // as wide at the beginning as at the end: the bar stands still
  const std::string count = fmt::format("{} {:>{}}/{}", s.label, s.done, total.size(), total);
  for (const std::string& end :
       {in_line({exact, speed, left}), in_line({exact, left}), in_line({loss, left}), in_line({loss, clock})}) {
    constexpr int kEcho = 2;  // "^C" that the terminal writes behind the line
    const int room = columns - kEcho - int(count.size()) - int(end.size()) - 2;
    if (screen.columns >= kShort && room >= kLeastBar + 2)
      return count + " " + bar(part_done(s), std::min(room, kMostBar + 2), screen) + " " + end;
  }
  return short_line(s, columns);
}

Progress::Progress()
    : terminal_(is_terminal(STDERR_FILENO)),
      unicode_(terminal_ && has_unicode()),
      color_(has_color(STDERR_FILENO)),
      last_(terminal_ ? 0 : steady_seconds()) {}

Progress::~Progress() { clear_status(); }

void Progress::show(const ProgressState& state, bool at_once) {
  const double now = steady_seconds(), period = terminal_ ? 0.1 : 5.0;
  if (!at_once && now - last_ < period) return;
  last_ = now;
  if (terminal_)
    show_status(progress_line(state, {terminal_width(STDERR_FILENO), unicode_, color_}));
  else
    to_stderr(progress_line(state, {.columns = 0}) + "\n");
}

void Progress::waiting(const std::string& what) const {
  if (!terminal_) return;
  const int columns = std::max(1, terminal_width(STDERR_FILENO) - 1);
  show_status(std::string(first_columns(what + " ...", size_t(columns))));
}

}  // namespace toy::cli
