// Which series of a chart are named, and where the names stand; shared by all drawings.
#pragma once

#include <string>
#include <vector>

#include "runs/axis.h"

namespace toy::runs {

/// The last value of a series that its chart can show; NaN: there is none.
double last_value(const Series& s, const Axis& y);

/// Indices of the series to name where they end, at most `most`, in the order of the chart. Up to `most` series are all
/// named. Of more, the best are, or in a chart of groups the outliers: the highest and the lowest at the end, and those
/// whose largest distance from the median of all is more than three times the usual one; one of those of a color that
/// end close together.
std::vector<size_t> named_series(const Chart& chart, const Axis& y, int most);

/// Places of labels that want to stand at `wanted` (in any order) and need `height` each, between lo and hi, moved as
/// little as needed; where there is no room for all they lie closer.
std::vector<double> spread(const std::vector<double>& wanted, double height, double lo, double hi);

}  // namespace toy::runs
