// Charts as SVG. Colors are classes, so that one page sets them for light and dark.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runs/axis.h"
#include "runs/text.h"

namespace toy::runs {
namespace {

constexpr int kColors = 8;
constexpr double kCharacter = 6.5;  // CSS pixels, of a digit at 12 px in common sans-serif fonts
constexpr int kMostLabels = 8;

struct Box {
  double left, top, right, bottom;
};

struct Drawing {
  const Chart& chart;
  Axis x, y;
  Box box{};
  double px(double v) const { return box.left + x.at(v) * (box.right - box.left); }
  double py(double v) const { return box.bottom - y.at(v) * (box.bottom - box.top); }
};

double text_width(const std::string& s) { return double(width_of(s)) * kCharacter; }

struct Label {
  const Series* series;
  double y;
};

double last_value(const Drawing& d, const Series& s) {
  const auto last = std::find_if(s.y.rbegin(), s.y.rend(), [&](double v) { return std::isfinite(d.y.at(v)); });
  return last == s.y.rend() ? NAN : *last;
}

// The series that are named: the highest at their ends, if there are too many.
std::vector<Label> labels_of(const Drawing& d) {
  std::vector<Label> labels;
  for (const Series& s : d.chart.series)
    if (const double v = last_value(d, s); s.style != Series::Style::faint && !s.name.empty() && std::isfinite(v))
      labels.push_back({&s, v});
  if (labels.size() < 2) return {};  // the title names a single one
  std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.y > b.y; });
  if (labels.size() > size_t(kMostLabels)) labels.resize(size_t(kMostLabels));
  return labels;
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

std::string series_svg(const Drawing& d, const Series& s) {
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
  const bool faint = s.style == Series::Style::faint;
  return fmt::format("<g class=\"line c{}{}\" data-name=\"{}\">\n{}{}</g>\n", s.color % kColors, faint ? " faint" : "",
                     escaped(s.name), lines, marks);
}

std::string grid_svg(const Drawing& d, const SvgOptions& o) {
  std::string s;
  const std::vector<double> ys = d.y.ticks(std::max(2, o.height / 45));
  const std::vector<std::string> names = tick_labels(ys, d.y.log);
  for (size_t i = 0; i < ys.size(); ++i) {
    const double y = d.py(ys[i]);
    s += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/><text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>\n",
        d.box.left, y, d.box.right, d.box.left - 8, y + 4, names[i]);
  }
  const std::vector<double> xs = d.x.ticks(std::max(2, int(d.box.right - d.box.left) / 70));
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

std::string labels_svg(const Drawing& d, const std::vector<Label>& labels) {
  std::vector<double> wanted;
  for (const Label& l : labels) wanted.push_back(std::clamp(d.py(l.y), d.box.top, d.box.bottom));
  const std::vector<double> at = spread(wanted, 15, d.box.top, d.box.bottom - 2);
  std::string s;
  for (size_t i = 0; i < labels.size(); ++i)
    s += fmt::format("<text class=\"label t{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                     labels[i].series->color % kColors, d.box.right + 7, at[i] + 4, escaped(labels[i].series->name));
  return s;
}

std::string page_colors() {
  return ".plot{--ink:#1c2127;--soft:#69717c;--grid:#e6e8ec;--paper:#fff;--c0:#2563c9;--c1:#d06a00;--c2:#178152;"
         "--c3:#8446c4;--c4:#c72c48;--c5:#0b7f92;--c6:#86592d;--c7:#5f6874}\n"
         "@media(prefers-color-scheme:dark){.plot{--ink:#e8eaed;--soft:#9aa2ad;--grid:#2c3138;--paper:#16191d;"
         "--c0:#74aaff;--c1:#f5a14b;--c2:#5acb96;--c3:#c29bff;--c4:#ff8093;--c5:#56c8da;--c6:#d0a67c;--c7:#a3acb8}}\n";
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
                  ".plot polyline{fill:none;stroke-width:1.75;stroke-linejoin:round;stroke-linecap:round}\n"
                  ".plot .faint polyline{stroke-width:1;opacity:.35}\n.plot .faint circle{opacity:.35}\n"
                  ".plot .paper{fill:var(--paper)}\n";
  for (int c = 0; c < kColors; ++c)
    s += fmt::format(".plot .c{0} polyline{{stroke:var(--c{0})}}.plot .c{0} circle,.plot .t{0}{{fill:var(--c{0})}}\n",
                     c);
  return s;
}

std::string to_svg(const Chart& chart, const SvgOptions& o) {
  Drawing d{chart, x_axis(chart), y_axis(chart)};
  const std::vector<Label> labels = labels_of(d);
  double left = 0, right = 0;
  for (const std::string& s : tick_labels(d.y.ticks(std::max(2, o.height / 45)), d.y.log))
    left = std::max(left, text_width(s));
  for (const Label& l : labels) right = std::max(right, text_width(l.series->name) + 14);
  right = std::min(right, o.width * 0.4);
  d.box = {left + 16, 44, o.width - std::max(right, 24.0), o.height - 30.0};
  std::string s = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\" aria-label=\"{2}\" data-x=\"{3} {4} {5:.2f} {6:.2f}\" data-y=\"{7} {8} {9:.2f} {10:.2f}\" "
      "data-log=\"{11}\">\n",
      o.width, o.height, escaped(chart.title), d.x.lo, d.x.hi, d.box.left, d.box.right, d.y.lo, d.y.hi, d.box.bottom,
      d.box.top, int(d.y.log));
  if (o.standalone)
    s += "<style>\n" + svg_style() + "</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
  s += fmt::format("<text class=\"title\" x=\"12\" y=\"22\">{}<tspan class=\"unit\" dx=\"8\">{}</tspan></text>\n",
                   escaped(chart.title), escaped(chart.unit));
  if (chart.empty())
    return s +
           fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">nothing to draw</text>\n</svg>\n",
                       o.width / 2, o.height / 2);
  s += grid_svg(d, o);
  // A viewport of its own cuts what leaves the scale.
  s += fmt::format(
      "<svg x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" height=\"{3:.1f}\" viewBox=\"{0:.1f} {1:.1f} "
      "{2:.1f} {3:.1f}\">\n",
      d.box.left - 4, d.box.top - 4, d.box.right - d.box.left + 8, d.box.bottom - d.box.top + 8);
  for (const bool faint : {true, false})
    for (const Series& series : chart.series)
      if ((series.style == Series::Style::faint) == faint) s += series_svg(d, series);
  return s + "</svg>\n" + labels_svg(d, labels) + "</svg>\n";
}

}  // namespace toy::runs
