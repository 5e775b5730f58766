// Charts as SVG. Colors are classes, so that one page sets them for light and dark.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runs/labels.h"
#include "runs/text.h"
#include "toy/base/utf8.h"

namespace toy::runs {
namespace {

constexpr int kColors = 8, kDashes = 4;
constexpr double kCharacter = 7.2;  // CSS pixels at 12 px, in the widest of the common sans-serif fonts
constexpr double kLine = 15;        // from label to label, and from row to row of the legend
constexpr double kLead = 24;        // of the line from a series to its label

struct Box {
  double left, top, right, bottom;
};

struct Drawing {
  const Chart& chart;
  Axis x, y;
  std::vector<size_t> named = {};  // indices of the series with a label, in order
  Box box{};
  double px(double v) const { return box.left + x.at(v) * (box.right - box.left); }
  double py(double v) const { return box.bottom - y.at(v) * (box.bottom - box.top); }
  bool is_named(size_t i) const { return std::binary_search(named.begin(), named.end(), i); }
  int y_ticks(int height) const { return std::max(3, (height - 76) / 32); }
};

double text_width(const std::string& s) { return double(width_of(s)) * kCharacter; }

// The classes of a series that give it color and dashes.
std::string look_of(const Chart& chart, const Series& s) {
  if (!chart.groups.empty()) return fmt::format("{}{}", chart.ramp ? 'r' : 'c', s.color % kColors);
  return fmt::format("c{} k{}", s.color % kColors, s.color / kColors % kDashes);
}

// Points in pixels; of many in one pixel column the first, the extremes and the last.
std::vector<std::pair<double, double>> pixels(const Drawing& d, const Series& s, size_t begin, size_t end) {
  std::vector<std::pair<double, double>> out;
  const bool dense = double(end - begin) > 2 * (d.box.right - d.box.left);
  for (size_t i = begin; i < end;) {
    size_t last = i, low = i, high = i;
    while (dense && last + 1 < end && std::floor(d.px(s.x[last + 1])) == std::floor(d.px(s.x[i]))) {
      ++last;
      if (s.y[last] < s.y[low]) low = last;
      if (s.y[last] > s.y[high]) high = last;
    }
    size_t chosen[] = {i, std::min(low, high), std::max(low, high), last};
    for (size_t k = 0; k < 4; ++k)
      if (k == 0 || chosen[k] != chosen[k - 1]) out.emplace_back(d.px(s.x[chosen[k]]), d.py(s.y[chosen[k]]));
    i = last + 1;
  }
  return out;
}

// A title is what a browser shows where the pointer rests; a page around it has more to show.
std::string series_svg(const Drawing& d, size_t index, bool titled) {
  const Series& s = d.chart.series[index];
  std::string lines, marks;
  const auto is_shown = [&](size_t i) { return std::isfinite(d.y.at(s.y[i])) && std::isfinite(s.x[i]); };
  for (size_t i = 0; i < s.x.size();) {
    if (!is_shown(i)) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < s.x.size() && is_shown(end)) ++end;
    std::string points;
    for (const auto& [x, y] : pixels(d, s, i, end))
      points += fmt::format("{}{:.2f},{:.2f}", points.empty() ? "" : " ", x, y);
    if (end - i > 1)
      lines += fmt::format("<polyline points=\"{}\"/>\n", points);
    else
      marks += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"2.5\"/>\n", d.px(s.x[i]), d.py(s.y[i]));
    if (s.style == Series::Style::points && s.x.size() <= 60)
      for (size_t k = i; k < end && end - i > 1; ++k)
        marks += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"2.5\"/>\n", d.px(s.x[k]), d.py(s.y[k]));
    i = end;
  }
  const std::string name = markup(s.name);
  const char* weight = s.style == Series::Style::faint                 ? " faint"
                       : !d.chart.groups.empty() && !d.is_named(index) ? " thin"
                       : d.is_named(index)                             ? " named"
                                                                       : "";
  return fmt::format("<g class=\"line {}{}\" data-name=\"{}\">{}\n{}{}</g>\n", look_of(d.chart, s), weight, name,
                     titled ? "<title>" + name + "</title>" : "", lines, marks);
}

std::string grid_svg(const Drawing& d, const SvgOptions& o) {
  std::string s;
  const std::vector<double> ys = d.y.ticks(d.y_ticks(o.height));
  const std::vector<std::string> names = tick_labels(ys, d.y.log);
  for (size_t i = 0; i < ys.size(); ++i) {
    const double y = d.py(ys[i]);
    s += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/><text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>\n",
        d.box.left, y, d.box.right, d.box.left - 8, y + 4, names[i]);
  }
  std::vector<double> xs = d.x.ticks(std::max(2, int(d.box.right - d.box.left) / 60));
  std::erase_if(xs, [](double x) { return x != std::floor(x); });  // there is no step 1.5
  const std::vector<std::string> steps = tick_labels(xs, false);
  for (size_t i = 0; i < xs.size(); ++i) {
    const bool last = i + 1 == xs.size() && !d.chart.x_label.empty();
    const std::string text = last ? d.chart.x_label + " " + steps[i] : steps[i];
    const double x = std::min(d.px(xs[i]), o.width - text_width(text) / 2 - 6);  // not over the edge
    s += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x,
                     d.box.bottom + 18, text);
  }
  return s + fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", d.box.left, d.box.bottom, d.box.right);
}

// Names beside the ends of their series, each with a line to it, dashed as the series.
std::string labels_svg(const Drawing& d, double room) {
  std::vector<double> ends;
  for (const size_t i : d.named)
    ends.push_back(std::clamp(d.py(last_value(d.chart.series[i], d.y)), d.box.top, d.box.bottom));
  const std::vector<double> at = spread(ends, kLine, d.box.top, d.box.bottom - 2);
  std::string s;
  for (size_t k = 0; k < d.named.size(); ++k) {
    const Series& series = d.chart.series[d.named[k]];
    const std::string look = look_of(d.chart, series);
    s += fmt::format(
        "<path class=\"lead {0}\" d=\"M{1:.1f} {2:.1f}L{3:.1f} {4:.1f}H{5:.1f}\"/><text class=\"label {0}\" "
        "x=\"{6:.1f}\" "
        "y=\"{7:.1f}\">{8}</text>\n",
        look, d.box.right + 1, ends[k], d.box.right + 10, at[k], d.box.right + kLead, d.box.right + kLead + 4,
        at[k] + 4, markup(shortened(series.name, int64_t((room - kLead - 6) / kCharacter))));
  }
  return s;
}

// What the colors stand for, below the title, in as many rows as it takes.
struct Legend {
  std::string svg;
  double height = 0;
};
Legend legend_of(const Chart& chart, int width) {
  Legend l;
  double x = 12, y = 40;
  const auto put = [&](const std::string& text, int first, int last) {
    const double swatches = 12.0 * (last - first + 1), w = swatches + 5 + text_width(text) + 14;
    if (x > 12 && x + w > width) x = 12, y += kLine;
    for (int c = first; c <= last; ++c)
      l.svg += fmt::format("<rect class=\"{}{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"4\"/>",
                           chart.ramp ? 'r' : 'c', c, x + 12 * (c - first), y - 6);
    l.svg +=
        fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + swatches + 5, y, markup(text));
    x += w;
    l.height = y - 40 + kLine;
  };
  if (chart.ramp)
    put(chart.groups.front() + " to " + chart.groups.back(), 0, kColors - 1);
  else
    for (size_t g = 0; g < chart.groups.size(); ++g)
      if (!chart.groups[g].empty()) put(chart.groups[g], int(g), int(g));
  return l;
}

std::string page_colors() {
  return ".plot{--ink:#1c2127;--soft:#69717c;--grid:#e6e8ec;--paper:#fff;--c0:#2563c9;--c1:#d06a00;--c2:#178152;"
         "--c3:#8446c4;--c4:#c72c48;--c5:#0b7f92;--c6:#86592d;--c7:#5f6874;--r0:#3d2fa8;--r1:#2f5fd0;--r2:#1687b8;"
         "--r3:#138a72;--r4:#4f8f1d;--r5:#9c8500;--r6:#c96a00;--r7:#c72c48}\n"
         "@media(prefers-color-scheme:dark){.plot{--ink:#e8eaed;--soft:#9aa2ad;--grid:#2c3138;--paper:#16191d;"
         "--c0:#74aaff;--c1:#f5a14b;--c2:#5acb96;--c3:#c29bff;--c4:#ff8093;--c5:#56c8da;--c6:#d0a67c;--c7:#a3acb8;"
         "--r0:#a99bff;--r1:#74aaff;--r2:#56c0ee;--r3:#4fd0b4;--r4:#8fd05a;--r5:#dcc84a;--r6:#f5a14b;--r7:#ff8093}}\n";
}

}  // namespace

std::string svg_style() {
  std::string s = page_colors() +
                  ".plot text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;"
                  "font-variant-numeric:tabular-nums}\n"
                  ".plot .title{font-size:14px;font-weight:600;fill:var(--ink)}\n"
                  ".plot .unit,.plot .tick{fill:var(--soft)}\n.plot .unit{font-size:12px;font-weight:400}\n"
                  ".plot .label{font-weight:500}\n"
                  ".plot .grid{stroke:var(--grid);fill:none}\n.plot .axis{stroke:var(--soft);fill:none}\n"
                  ".plot polyline,.plot .lead{fill:none;stroke-width:1.75;stroke-linejoin:round;stroke-linecap:round}\n"
                  ".plot .lead{stroke-width:1.25}\n"
                  ".plot .faint polyline{stroke-width:1;opacity:.35}\n.plot .faint circle{opacity:.35}\n"
                  ".plot .thin polyline{stroke-width:1;opacity:.5}\n.plot .hot polyline{stroke-width:3;opacity:1}\n"
                  ".plot .k1{stroke-dasharray:7 4}.plot .k2{stroke-dasharray:2 4}.plot .k3{stroke-dasharray:10 4 2 4}\n"
                  ".plot .paper{fill:var(--paper)}\n";
  for (const char palette : {'c', 'r'})
    for (int c = 0; c < kColors; ++c) s += fmt::format(".plot .{0}{1}{{--color:var(--{0}{1})}}", palette, c);
  return s +
         "\n.plot .line polyline,.plot .lead{stroke:var(--color)}\n"
         ".plot .line circle,.plot rect,.plot .label{fill:var(--color)}\n";
}

std::string to_svg(const Chart& chart, const SvgOptions& o) {
  constexpr int kMostOutliers = 8;
  Drawing d{chart, x_axis(chart), y_axis(chart)};
  const Legend legend = legend_of(chart, o.width);
  const double top = 44 + legend.height, bottom = o.height - 30.0;
  const int room_for = std::max(2, int((bottom - top) / kLine) + 1);
  d.named = named_series(chart, d.y, chart.groups.empty() ? room_for : std::min(room_for, kMostOutliers));
  if (d.named.size() == 1 && chart.groups.empty()) d.named.clear();  // the title names a single one
  double left = 0, right = 0;
  for (const std::string& s : tick_labels(d.y.ticks(d.y_ticks(o.height)), d.y.log))
    left = std::max(left, text_width(s));
  for (const size_t i : d.named) right = std::max(right, text_width(chart.series[i].name) + kLead + 12);
  right = std::min(right, o.width * 0.4);
  d.box = {left + 16, top, o.width - std::max(right, 24.0), bottom};
  std::string s = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\" aria-label=\"{2}\" data-x=\"{3} {4} {5:.2f} {6:.2f}\" data-y=\"{7} {8} {9:.2f} {10:.2f}\" "
      "data-log=\"{11}\"{12}>\n",
      o.width, o.height, markup(chart.title), d.x.lo, d.x.hi, d.box.left, d.box.right, d.y.lo, d.y.hi, d.box.bottom,
      d.box.top, int(d.y.log), o.standalone ? " style=\"max-width:100%;height:auto\"" : "");
  if (o.standalone)
    s += "<style>\n" + svg_style() + "</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
  s += fmt::format("<text class=\"title\" x=\"12\" y=\"22\">{}<tspan class=\"unit\" dx=\"8\">{}</tspan></text>\n",
                   markup(chart.title), markup(chart.unit));
  if (chart.empty())
    return s +
           fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">nothing to draw</text>\n</svg>\n",
                       o.width / 2, o.height / 2);
  s += legend.svg + grid_svg(d, o);
  // A viewport of its own cuts what leaves the scale.
  s += fmt::format(
      "<svg x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" height=\"{3:.1f}\" viewBox=\"{0:.1f} {1:.1f} "
      "{2:.1f} {3:.1f}\">\n",
      d.box.left - 4, d.box.top - 4, d.box.right - d.box.left + 8, d.box.bottom - d.box.top + 8);
  const auto layer = [&](size_t i) {
    return chart.series[i].style == Series::Style::faint ? 0 : d.is_named(i) ? 2 : 1;
  };
  for (const int wanted : {0, 1, 2})
    for (size_t i = 0; i < chart.series.size(); ++i)
      if (layer(i) == wanted) s += series_svg(d, i, o.standalone);
  return s + "</svg>\n" + labels_svg(d, right) + "</svg>\n";
}

}  // namespace toy::runs
