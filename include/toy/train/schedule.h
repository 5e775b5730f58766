// Learning rate over time.
#pragma once

#include <cstdint>

namespace toy {

/// Linear warmup to `peak`, then half a cosine down to `peak * final_fraction` at the last step (Loshchilov and Hutter
/// 2017).
struct CosineSchedule {
  double peak = 1e-3;
  int64_t warmup = 0, steps = 1;
  double final_fraction = 0.1;
  /// Rate of step `step`, counted from 0.
  double at(int64_t step) const;
};

}  // namespace toy
