// The log of a run, events.jsonl: append-only, one event a line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "toy/base/run_files.h"
#include "toy/runs/event.h"

namespace toy::runs {

/// What a log holds.
struct Log {
  std::vector<Event> events;          ///< those that count
  std::vector<std::string> warnings;  ///< what was left out, with the line's number
};

/// Reads a log. A line that is not a whole event (a torn last line, above all) is skipped with a warning, an unknown
/// kind without one. After a `resume` at step s, what was written before it of later steps no longer counts, nor does
/// an earlier run_end; of step, eval, sample, tap, grad, drift and op_timing the last event of each step and name
/// counts. Where a second run begins in the same file, it alone counts, and a warning says so. Throws Error{bad_input}
/// naming the file when it cannot be read, holds no event, or has another schema.
Log read_events(const std::string& path);

/// Shows every event that counts, in order, holding one at a time; of several of one step and name it shows each.
/// Returns the warnings; throws as read_events() does.
std::vector<std::string> visit_events(const std::string& path, const std::function<void(Event&&)>& see);

/// Whether a process is writing this log now.
bool is_being_written(const std::string& path);

/// Appends to a log; each event is one write of one line, so that a reader sees whole lines and a killed process loses
/// nothing. fsync follows run_start, resume, eval and run_end: a machine that loses power loses what came after the
/// last of them.
///
/// The file is locked while the writer lives: two runs in one folder are refused, not mixed.
class EventWriter final : public EventSink {
 public:
  enum class Mode {
    fresh,   ///< a new run; an earlier log of this name becomes events.previous.jsonl
    resume,  ///< the run that the log is of goes on, and so does its clock: last_t() is added to the time of events
  };
  /// Throws Error{bad_input} where the file cannot be made or another process is writing it.
  EventWriter(const std::string& path, Mode mode);
  ~EventWriter() override;
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  /// Throws Error{bad_input} for a full disk, Error{failure} for other errors.
  void write(const Event& event) override;
  /// Where the clock of the resumed run stood; 0 for a new one.
  double last_t() const { return last_t_; }

 private:
  void open(int flags);
  void append(const std::string& text);
  std::string path_;
  int fd_ = -1;
  double last_t_ = 0;
};

}  // namespace toy::runs
