// The axes of a chart, their ticks, and the names beside it; shared by all drawings.
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

/// The last value of a series that its chart can show; NaN: there is none.
double last_value(const Series& s, const Axis& y);

/// Indices of the series to name where they end, in the order of the chart, at most `most`. Of more the best are named,
/// or in a chart of groups the outliers: the highest and the lowest at the end, and those whose largest distance from
/// the median of all is more than three times the usual one; one of those of a color that end close together. The only
/// series of a chart has the chart's title for a name.
std::vector<size_t> named_series(const Chart& chart, const Axis& y, size_t most);

/// Places of labels that want to stand at `wanted` (in any order) and need `height` each, between lo and hi, moved as
/// little as needed; where there is no room for all they lie closer.
std::vector<double> spread(const std::vector<double>& wanted, double height, double lo, double hi);

}  // namespace toy::runs
