// From values to places along an axis, with ticks; shared by all drawings.
#pragma once

#include <string>
#include <vector>

#include "toy/runs/plot.h"

namespace toy::runs {

/// One axis of a drawing.
struct Axis {
  double lo = 0, hi = 1;
  bool log = false;
  /// 0 at lo, 1 at hi; NaN for what cannot be shown.
  double at(double v) const;
  std::vector<double> ticks(int most) const;
};

/// Axes that hold the points of a chart.
Axis x_axis(const Chart& chart);
/// @copydoc x_axis
Axis y_axis(const Chart& chart);

/// One text for each tick, with as many digits as tell neighbours apart.
std::vector<std::string> tick_labels(const std::vector<double>& ticks, bool log);

}  // namespace toy::runs
