#include "train/time_left.h"

#include <algorithm>

namespace toy {

ValidationTime validation_time(const RecipeOptions& o, int64_t step, bool validated, double part, double full) {
  if (o.eval_every == 0) return {0, part};
  const auto due = [&o](int64_t last) { return std::max<int64_t>(last, 0) / o.eval_every; };  // up to that step
  const int64_t count = std::max<int64_t>(due(o.steps - 1) - due(validated ? step : step - 1), 0);
  return {double(count) * part, part < full ? part + full : full};
}

double time_left(const RecipeOptions& o, double steps, const ValidationTime& v, double elapsed) {
  double loop = steps + v.during;
  if (o.time_limit > 0) loop = std::clamp(o.time_limit - elapsed, 0.0, loop);
  return loop + v.at_end;
}

}  // namespace toy
