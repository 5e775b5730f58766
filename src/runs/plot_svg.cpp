// Charts as SVG.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runs/chart.h"
#include "runs/text.h"
#include "toy/base/svg.h"
#include "toy/base/utf8.h"

namespace toy::runs {
namespace {

using svg::Drawing;

constexpr int kDashes = 4;
constexpr double kLine = 15;  // from label to label, and from row to row of the legend
constexpr double kLead = 24;  // of the line from a series to its label

struct Plot {
  const Chart& chart;
  Axis x, y;
  std::vector<size_t> named = {};  // indices of the series with a label, in order
  double left = 0, top = 0, right = 0, bottom = 0;
  double px(double v) const { return left + x.at(v) * (right - left); }
  double py(double v) const { return bottom - y.at(v) * (bottom - top); }
  bool is_named(size_t i) const { return std::binary_search(named.begin(), named.end(), i); }
  // 0: behind the others, 2: in front of them.
  int layer(size_t i) const { return chart.series[i].style == Series::Style::faint ? 0 : is_named(i) ? 2 : 1; }
};

double text_width(std::string_view s) { return double(terminal_columns(s)) * svg::kCharacter; }

// The classes of a series that give it color and dashes.
std::string look_of(const Chart& chart, const Series& s) {
  if (!chart.groups.empty()) return fmt::format("{}{}", chart.ramp ? 'r' : 'c', s.color % svg::kColors);
  return fmt::format("c{} k{}", s.color % svg::kColors, s.color / svg::kColors % kDashes);
}

// Points in pixels; of many in one pixel column the first, the extremes and the last.
Drawing::Points pixels(const Plot& p, const Series& s, size_t begin, size_t end) {
  Drawing::Points out;
  const bool dense = double(end - begin) > 2 * (p.right - p.left);
  for (size_t i = begin; i < end;) {
    size_t last = i, low = i, high = i;
    while (dense && last + 1 < end && std::floor(p.px(s.x[last + 1])) == std::floor(p.px(s.x[i]))) {
      ++last;
      if (s.y[last] < s.y[low]) low = last;
      if (s.y[last] > s.y[high]) high = last;
    }
    size_t chosen[] = {i, std::min(low, high), std::max(low, high), last};
    for (size_t k = 0; k < 4; ++k)
      if (k == 0 || chosen[k] != chosen[k - 1]) out.emplace_back(p.px(s.x[chosen[k]]), p.py(s.y[chosen[k]]));
    i = last + 1;
  }
  return out;
}

// A title is what a browser shows where the pointer rests; a page around it has more to show.
void draw_series(Drawing& d, const Plot& p, size_t index, bool titled) {
  constexpr size_t kFew = 60;
  constexpr double kMark = 2.5;
  const Series& s = p.chart.series[index];
  const bool marked = s.style == Series::Style::points && s.x.size() <= kFew;
  const auto is_shown = [&](size_t i) { return std::isfinite(p.y.at(s.y[i])) && std::isfinite(s.x[i]); };
  Drawing lines;
  for (size_t i = 0, end; i < s.x.size(); i = end + 1) {
    for (end = i; end < s.x.size() && is_shown(end);) ++end;
    if (end - i > 1) lines.line(pixels(p, s, i, end));
    for (size_t k = i; k < end && (marked || end - i == 1); ++k) lines.circle(p.px(s.x[k]), p.py(s.y[k]), kMark);
  }
  const char* weight[] = {" faint", p.chart.groups.empty() ? "" : " thin", " named"};
  d.group(lines, "line " + look_of(p.chart, s) + weight[p.layer(index)], s.name, titled);
}

int y_ticks(int height) { return std::max(3, (height - 76) / 32); }

void draw_grid(Drawing& d, const Plot& p, const SvgOptions& o) {
  const std::vector<double> ys = p.y.ticks(y_ticks(o.height));
  const std::vector<std::string> names = tick_labels(ys, p.y.log);
  for (size_t i = 0; i < ys.size(); ++i) {
    d.line(p.left, p.py(ys[i]), p.right, p.py(ys[i]), "grid");
    d.text(p.left - 8, p.py(ys[i]) + 4, names[i], "soft right");
  }
  std::vector<double> xs = p.x.ticks(std::max(2, int(p.right - p.left) / 60));
  if (p.chart.x_label != "seconds")
    std::erase_if(xs, [](double x) { return x != std::floor(x); });  // there is no step 1.5
  std::vector<std::string> steps = tick_labels(xs, false);
  if (!steps.empty() && !p.chart.x_label.empty()) steps.back().insert(0, p.chart.x_label + " ");
  for (size_t i = 0; i < xs.size(); ++i) {
    const double x = std::min(p.px(xs[i]), o.width - text_width(steps[i]) / 2 - 6);  // not over the edge
    d.text(x, p.bottom + 18, steps[i], "soft middle");
  }
  d.line(p.left, p.bottom, p.right, p.bottom, "axis");
}

// Names beside the ends of their series, each with a line to it, dashed as the series.
void draw_labels(Drawing& d, const Plot& p, double room) {
  std::vector<double> ends;
  for (const size_t i : p.named) ends.push_back(std::clamp(p.py(last_value(p.chart.series[i], p.y)), p.top, p.bottom));
  const std::vector<double> at = spread(ends, kLine, p.top, p.bottom - 2);
  for (size_t k = 0; k < p.named.size(); ++k) {
    const Series& s = p.chart.series[p.named[k]];
    const std::string look = look_of(p.chart, s);
    d.path(
        fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}H{:.1f}", p.right + 1, ends[k], p.right + 10, at[k], p.right + kLead),
        "lead " + look);
    d.text(p.right + kLead + 4, at[k] + 4, shortened(s.name, int((room - kLead - 6) / svg::kCharacter)),
           "label " + look);
  }
}

// What the colors stand for, below the title, in as many rows as it takes; returns their height.
double draw_legend(Drawing& d, const Chart& chart, int width) {
  constexpr double kLeft = 12, kTop = 40, kSwatch = 12;
  double x = kLeft, y = kTop;
  const auto put = [&](const std::string& text, int first, int last) {
    const double swatches = kSwatch * (last - first + 1), w = swatches + 5 + text_width(text) + 14;
    if (x > kLeft && x + w > width) x = kLeft, y += kLine;
    for (int c = first; c <= last; ++c)
      d.rect(x + kSwatch * (c - first), y - 6, kSwatch, 4, fmt::format("swatch {}{}", chart.ramp ? 'r' : 'c', c), 0);
    d.text(x + swatches + 5, y, text, "soft");
    x += w;
  };
  if (chart.ramp) put(chart.groups.front() + " to " + chart.groups.back(), 0, svg::kColors - 1);
  for (size_t g = 0; g < chart.groups.size() && !chart.ramp; ++g)
    if (!chart.groups[g].empty()) put(chart.groups[g], int(g), int(g));
  return x > kLeft ? y - kTop + kLine : 0;
}

}  // namespace

std::string to_svg(const Chart& chart, const SvgOptions& o) {
  constexpr size_t kMostOutliers = 8;
  Drawing d;
  d.text(12, 22, chart.title, "title", chart.unit);
  Plot p{chart, x_axis(chart), y_axis(chart)};
  p.top = 44 + draw_legend(d, chart, o.width), p.bottom = o.height - 30.0;
  const size_t room = std::max(size_t(2), size_t((p.bottom - p.top) / kLine) + 1);
  p.named = named_series(chart, p.y, chart.groups.empty() ? room : std::min(room, kMostOutliers));
  double labels = 0;
  for (const std::string& s : tick_labels(p.y.ticks(y_ticks(o.height)), p.y.log))
    p.left = std::max(p.left, text_width(s));
  for (const size_t i : p.named) labels = std::max(labels, text_width(chart.series[i].name) + kLead + 12);
  labels = std::min(labels, o.width * 0.4);
  p.left += 16, p.right = o.width - std::max(labels, 24.0);
  if (chart.empty()) {
    d.text(o.width / 2.0, o.height / 2.0, "nothing to draw", "soft middle");
  } else {
    draw_grid(d, p, o);
    Drawing lines;
    for (const int layer : {0, 1, 2})
      for (size_t i = 0; i < chart.series.size(); ++i)
        if (p.layer(i) == layer) draw_series(lines, p, i, o.standalone);
    d.window(lines, p.left - 4, p.top - 4, p.right - p.left + 8, p.bottom - p.top + 8);  // cuts what leaves the scale
    draw_labels(d, p, labels);
  }
  // What a page needs to read values off it.
  const std::string data = fmt::format(
      "data-x=\"{} {} {:.2f} {:.2f}\" data-y=\"{} {} {:.2f} {:.2f}\" data-log=\"{}\" data-along=\"{}\"", p.x.lo, p.x.hi,
      p.left, p.right, p.y.lo, p.y.hi, p.bottom, p.top, int(p.y.log), markup(p.chart.x_label));
  return o.standalone ? d.file(o.width, o.height, chart.title, data) : d.element(o.width, o.height, chart.title, data);
}

}  // namespace toy::runs
