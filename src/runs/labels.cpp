#include "runs/labels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace toy::runs {
namespace {

double median(std::vector<double> v) {
  const auto middle = v.begin() + std::ptrdiff_t(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

// The largest distance of each series from the median of all of them, in parts of the axis.
std::vector<double> distances(const Chart& chart, const Axis& y, const std::vector<size_t>& series) {
  std::map<double, std::vector<double>> at;
  for (const size_t i : series)
    for (size_t k = 0; k < chart.series[i].x.size(); ++k)
      if (const double v = y.at(chart.series[i].y[k]); std::isfinite(v)) at[chart.series[i].x[k]].push_back(v);
  std::map<double, double> middle;
  for (auto& [x, values] : at) middle[x] = median(std::move(values));
  std::vector<double> list;
  for (const size_t i : series) {
    double most = 0;
    for (size_t k = 0; k < chart.series[i].x.size(); ++k)
      if (const double v = y.at(chart.series[i].y[k]); std::isfinite(v))
        most = std::max(most, std::fabs(v - middle[chart.series[i].x[k]]));
    list.push_back(most);
  }
  return list;
}

}  // namespace

double last_value(const Series& s, const Axis& y) {
  const auto last = std::find_if(s.y.rbegin(), s.y.rend(), [&](double v) { return std::isfinite(y.at(v)); });
  return last == s.y.rend() ? NAN : *last;
}

std::vector<size_t> named_series(const Chart& chart, const Axis& y, int most) {
  std::vector<size_t> list;
  std::vector<double> last;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const Series& s = chart.series[i];
    const double v = last_value(s, y);
    if (s.style == Series::Style::faint || s.name.empty() || !std::isfinite(v)) continue;
    list.push_back(i);
    last.push_back(v);
  }
  if (list.size() <= size_t(most)) return list;
  std::vector<size_t> order(list.size());
  std::iota(order.begin(), order.end(), size_t(0));
  const auto higher = [&](size_t a, size_t b) { return last[a] > last[b]; };
  std::stable_sort(order.begin(), order.end(), higher);
  if (chart.groups.empty()) {
    if (chart.best == Chart::Best::lowest) std::reverse(order.begin(), order.end());
    order.resize(size_t(most));
  } else {
    // Those that end together, about as far away, are named by one.
    constexpr double kFar = 3, kNear = 0.05, kAlike = 0.25;
    const std::vector<double> far = distances(chart, y, list);
    const double usual = median(far);
    const size_t highest = order.front(), lowest = order.back();
    const auto rank = [&](size_t i) { return i == highest || i == lowest ? INFINITY : far[i]; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) > rank(b); });
    std::vector<size_t> apart;
    for (const size_t i : order) {
      const auto like = [&](size_t k) {
        return chart.series[list[k]].color == chart.series[list[i]].color && std::fabs(far[k] - far[i]) < kAlike &&
               std::fabs(y.at(last[k]) - y.at(last[i])) < kNear;
      };
      if (apart.size() < size_t(most) && rank(i) > kFar * usual && std::none_of(apart.begin(), apart.end(), like))
        apart.push_back(i);
    }
    order = std::move(apart);
  }
  std::vector<size_t> named;
  for (const size_t i : order) named.push_back(list[i]);
  std::sort(named.begin(), named.end());
  return named;
}

std::vector<double> spread(const std::vector<double>& wanted, double height, double lo, double hi) {
  std::vector<size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
  if (wanted.size() > 1) height = std::min(height, (hi - lo) / double(wanted.size() - 1));
  std::vector<double> at = wanted;
  double from = lo;
  for (const size_t i : order) from = (at[i] = std::max(at[i], from)) + height;
  double to = hi;
  for (auto i = order.rbegin(); i != order.rend(); ++i) to = (at[*i] = std::min(at[*i], to)) - height;
  return at;
}

}  // namespace toy::runs
