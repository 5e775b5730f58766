#include "toy/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "toy/base/error.h"

namespace toy {

void Schedule::validate() const {
  check(peak > 0 && std::isfinite(peak), "lr is {}, expected a positive number", peak);
  check(steps >= 1, "steps is {}, expected at least 1", steps);
  check(warmup >= 0 && warmup <= steps, "warmup is {}, expected 0 to the number of steps ({})", warmup, steps);
  check(final_fraction >= 0 && final_fraction <= 1, "final-lr is {}, expected a fraction of the peak, 0 to 1",
        final_fraction);
  check(decay >= 0 && decay <= steps, "decay is {}, expected 0 to the number of steps ({})", decay, steps);
  check(kind != wsd || decay <= steps - warmup,
        "warmup {} and decay {} are more than the {} steps; make one of them smaller", warmup, decay, steps);
}

double Schedule::at(int64_t step) const {
  if (step < warmup) return peak * double(step + 1) / double(warmup);
  // From 0 behind `begin` steps to 1 at the last step.
  const auto part_since = [&](int64_t begin) {
    const double part = double(step - begin) / double(std::max<int64_t>(1, steps - begin - 1));
    return std::clamp(part, 0.0, 1.0);
  };
  const auto line = [&](double part) { return peak * (1 - (1 - final_fraction) * part); };
  switch (kind) {
    case constant:
      return peak;
    case linear:
      return line(part_since(warmup));
    case wsd:  // the first step of the decay is already below the peak
      return decay > 0 ? line(part_since(steps - decay - 1)) : peak;
    case cosine:
      break;
  }
  const double wave = 0.5 * (1 + std::cos(std::numbers::pi * part_since(warmup)));
  return peak * (final_fraction + (1 - final_fraction) * wave);
}

}  // namespace toy
