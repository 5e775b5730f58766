#include "runs/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "runs/text.h"

namespace toy::runs {
namespace {

bool shown(double v, bool log) { return std::isfinite(v) && (!log || v > 0); }

// "1e-5", without the zero that printf writes.
std::string log_label(double v) {
  if (v >= 1e-3 && v < 1e6) return short_number(v);
  const int e = int(std::floor(std::log10(v) + 1e-9));
  return fmt::format("{:.3g}e{}", v / std::pow(10.0, e), e);
}

// A series that may be named.
struct Candidate {
  size_t series;
  double last;               // value
  double far = 0, rank = 0;  // largest distance from the median of all series, in parts of the axis
};

void measure(const Chart& chart, const Axis& y, std::vector<Candidate>& list) {
  std::map<double, std::vector<std::pair<double, Candidate*>>> at;
  for (Candidate& c : list)
    for (size_t k = 0; k < chart.series[c.series].x.size(); ++k)
      if (const double v = y.at(chart.series[c.series].y[k]); std::isfinite(v))
        at[chart.series[c.series].x[k]].emplace_back(v, &c);
  for (auto& [x, values] : at) {
    const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    const double median = middle->first;
    for (const auto& [v, c] : values) c->far = c->rank = std::max(c->far, std::fabs(v - median));
  }
}

}  // namespace

bool Chart::empty() const {
  for (const Series& s : series)
    for (const double v : s.y)
      if (shown(v, log_y)) return false;
  return true;
}

std::vector<double> nice_ticks(double lo, double hi, int most) {
  if (!(hi > lo) || most < 1) return {};
  const double rough = (hi - lo) / most, power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double m : {1.0, 2.0, 5.0, 10.0, 20.0, 50.0}) {
    const double step = m * power;
    const double first = std::ceil(lo / step - 1e-9), last = std::floor(hi / step + 1e-9);
    if (last - first + 1 > most) continue;
    std::vector<double> ticks;
    for (double i = first; i <= last; ++i) ticks.push_back(i == 0 ? 0 : i * step);
    return ticks;
  }
  return {};
}

std::vector<double> log_ticks(double lo, double hi, int most) {
  if (!(lo > 0 && hi > lo)) return {};
  const int first = int(std::floor(std::log10(lo))), last = int(std::ceil(std::log10(hi)));
  const auto collect = [&](const std::vector<double>& mantissas, int every) {
    std::vector<double> ticks;
    for (int e = first; e <= last; ++e)
      for (const double m : mantissas)
        if (const double v = m * std::pow(10.0, e); e % every == 0 && v >= lo * (1 - 1e-9) && v <= hi * (1 + 1e-9))
          ticks.push_back(v);
    return ticks;
  };
  // The widest part of the axis without a tick, as the logarithm of a ratio.
  const auto gap = [&](const std::vector<double>& ticks) {
    double widest = 0, before = lo;
    for (const double t : ticks) widest = std::max(widest, std::log(t / before)), before = t;
    return std::max(widest, std::log(hi / before));
  };
  std::vector<double> best;
  const auto offer = [&](std::vector<double> ticks) {
    if (ticks.size() < 2 || int(ticks.size()) > most) return;
    if (best.empty() || gap(ticks) < gap(best) * 0.95) best = std::move(ticks);
  };
  const std::vector<double> choices[] = {
      {1}, {1, 3}, {1, 2, 5}, {1, 2, 3, 5}, {1, 1.5, 2, 3, 5, 7}, {1, 1.5, 2, 3, 4, 5, 6, 8}};
  for (const std::vector<double>& m : choices) offer(collect(m, 1));
  if (hi < 10 * lo) offer(nice_ticks(lo, hi, most));
  for (int every = 2; best.empty() && every < 700; ++every) offer(collect({1}, every));
  return best;
}

std::vector<double> smoothed(const std::vector<double>& y) {
  const size_t n = y.size();
  const double beta = 1 - 1 / std::max(1.0, double(n) / 120);
  // Sums over one side of a point at distance 0: of weights w, w d, w d^2, and w v, w d v.
  struct Sums {
    double w = 0, wd = 0, wdd = 0, wv = 0, wdv = 0;
    // All points move away by one place.
    void move(double beta) {
      wdd = beta * (wdd + 2 * wd + w), wd = beta * (wd + w), w *= beta;
      wdv = beta * (wdv + wv), wv *= beta;
    }
    void add(double v) {
      if (std::isfinite(v)) w += 1, wv += v;
    }
  };
  std::vector<Sums> before(n);  // without the point itself
  Sums past, coming;
  double lo = INFINITY, hi = -INFINITY;
  for (size_t i = 0; i < n; ++i) {
    past.move(beta), before[i] = past, past.add(y[i]);
    if (std::isfinite(y[i])) lo = std::min(lo, y[i]), hi = std::max(hi, y[i]);
  }
  std::vector<double> out(y);
  for (size_t i = n; i-- > 0;) {
    coming.move(beta), coming.add(y[i]);
    if (!std::isfinite(y[i])) continue;
    const Sums& b = before[i];  // their distances are negative
    const double w = b.w + coming.w, wd = coming.wd - b.wd, wdd = b.wdd + coming.wdd, wv = b.wv + coming.wv,
                 wdv = coming.wdv - b.wdv, determinant = wdd * w - wd * wd;
    const double fitted = determinant > 1e-9 * w * w ? (wdd * wv - wd * wdv) / determinant : wv / w;
    if (beta > 0) out[i] = std::clamp(fitted, lo, hi);
  }
  return out;
}

double Axis::at(double v) const {
  if (!shown(v, log)) return NAN;
  return log ? std::log(v / lo) / std::log(hi / lo) : (v - lo) / (hi - lo);
}

std::vector<double> Axis::ticks(int most) const { return log ? log_ticks(lo, hi, most) : nice_ticks(lo, hi, most); }

Axis x_axis(const Chart& chart) {
  double lo = INFINITY, hi = -INFINITY;
  for (const Series& s : chart.series)
    for (const double v : s.x)
      if (std::isfinite(v)) lo = std::min(lo, v), hi = std::max(hi, v);
  if (!(lo <= hi)) return {};
  if (lo == hi) return {lo - 1, hi + 1, false};
  return {lo > 0 && lo < 0.05 * hi ? 0 : lo, hi, false};
}

Axis y_axis(const Chart& chart) {
  double lo = INFINITY, hi = -INFINITY;
  for (const Series& s : chart.series) {
    std::vector<double> v;
    for (const double y : s.y)
      if (shown(y, chart.log_y)) v.push_back(y);
    if (v.empty()) continue;
    std::sort(v.begin(), v.end());
    // Of what lies behind, one percent on either side may be cut.
    const size_t cut = s.style == Series::Style::faint ? v.size() / 100 : 0;
    lo = std::min(lo, v[cut]), hi = std::max(hi, v[v.size() - 1 - cut]);
  }
  if (!(lo <= hi)) return {};
  if (chart.log_y) {
    if (hi / lo < 1.5) lo /= 1.5, hi *= 1.5;
    const double room = std::pow(hi / lo, 0.04);
    return {lo / room, hi * room, true};
  }
  const bool flat = hi - lo <= 1e-9 * std::max(std::fabs(lo), std::fabs(hi));
  const double room = !flat ? (hi - lo) * 0.04 : lo == 0 ? 1 : std::fabs(lo) * 0.1;
  // A scale that would begin just above zero begins at zero.
  return {!flat && lo >= 0 && lo < 0.1 * hi ? 0 : lo - room, hi + room, false};
}

std::vector<std::string> tick_labels(const std::vector<double>& ticks, bool log) {
  const bool is_wide = log && ticks.size() > 1 && ticks.back() / ticks.front() >= 1.99;
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  double most = 0;
  for (const double t : ticks) most = std::max(most, std::fabs(t));
  const int digits = std::clamp(int(-std::floor(std::log10(step) + 1e-9)), 0, 12);
  std::vector<std::string> labels;
  for (const double t : ticks)
    labels.push_back(is_wide        ? log_label(t)
                     : t == 0       ? "0"
                     : most >= 1000 ? short_number(t)
                     : most < 1e-3  ? number_text(t)
                                    : fmt::format("{:.{}f}", t, digits));
  return labels;
}

double last_value(const Series& s, const Axis& y) {
  const auto last = std::find_if(s.y.rbegin(), s.y.rend(), [&](double v) { return std::isfinite(y.at(v)); });
  return last == s.y.rend() ? NAN : *last;
}

std::vector<size_t> named_series(const Chart& chart, const Axis& y, size_t most) {
  std::vector<Candidate> list;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const Series& s = chart.series[i];
    const double v = last_value(s, y);
    if (s.style != Series::Style::faint && !s.name.empty() && std::isfinite(v)) list.push_back({i, v});
  }
  const auto sort = [&](const auto& key) {
    std::stable_sort(list.begin(), list.end(), [&](const auto& a, const auto& b) { return key(a) > key(b); });
  };
  if (list.size() > most && chart.groups.empty()) {
    const double sign = chart.best == Chart::Best::lowest ? -1 : 1;
    sort([&](const Candidate& c) { return sign * c.last; });
    list.resize(most);
  } else if (list.size() > most) {
    constexpr double kFar = 3, kNear = 0.05, kAlike = 0.25;
    measure(chart, y, list);
    sort([](const Candidate& c) { return c.far; });
    const double usual = list[(list.size() - 1) / 2].far;
    sort([](const Candidate& c) { return c.last; });
    list.front().rank = list.back().rank = INFINITY;
    sort([](const Candidate& c) { return c.rank; });
    // Those that end together, about as far away, are named by one.
    std::vector<Candidate> apart;
    for (const Candidate& c : list) {
      const auto like = [&](const Candidate& o) {
        return chart.series[o.series].color == chart.series[c.series].color && std::fabs(o.far - c.far) < kAlike &&
               std::fabs(y.at(o.last) - y.at(c.last)) < kNear;
      };
      if (apart.size() < most && c.rank > kFar * usual && std::none_of(apart.begin(), apart.end(), like))
        apart.push_back(c);
    }
    list = std::move(apart);
  }
  if (list.size() == 1 && chart.groups.empty()) return {};  // the title names a single one
  std::vector<size_t> named;
  for (const Candidate& c : list) named.push_back(c.series);
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
