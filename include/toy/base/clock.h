// Time that only passes: for how long something took.
#pragma once

#include <chrono>

namespace toy {

/// Seconds since some moment, the same one for the whole process; steady, whatever happens to the date.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace toy
