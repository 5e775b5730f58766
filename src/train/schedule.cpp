#include "toy/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace toy {

double CosineSchedule::at(int64_t step) const {
  if (step < warmup) return peak * double(step + 1) / double(warmup);
  const double done = double(step - warmup) / double(std::max<int64_t>(1, steps - warmup - 1));
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0)));
  return peak * (final_fraction + (1 - final_fraction) * cosine);
}

}  // namespace toy
