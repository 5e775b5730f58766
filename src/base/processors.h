// What the system says of its processors, and how many threads of a team run by that.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>

namespace toy {

/// Nanoseconds that a thread of this process has waited for a processor while it could run. nullopt where the system
/// does not say. Allocates nothing.
std::optional<int64_t> waited_ns(pid_t thread);
/// Nanoseconds that the processors of a set have been idle, in all; counted in hundredths of a second. Likewise.
std::optional<int64_t> idle_ns(const cpu_set_t& set);

/// How many threads of a team run. Members of a team wait for each other at barriers, so one that waits for a
/// processor, because another program has it, delays all: then fewer are faster.
class TeamSize {
 public:
  explicit TeamSize(int most) : most_(most), now_(most) {}
  int now() const { return now_; }
  bool is_full() const { return now_ == most_; }

  /// In `elapsed` ns its threads waited that long for processors.
  void waited(int64_t elapsed, std::span<const int64_t> ns);
  /// In `elapsed` ns the processors were idle that long in all.
  void idle(int64_t elapsed, int64_t ns);

 private:
  int most_, now_;
};

}  // namespace toy
