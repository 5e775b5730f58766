// Charts in characters: braille dots, 2 by 4 in a cell, or 1 by 2 where there is no Unicode.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "runs/chart.h"
#include "runs/text.h"
#include "toy/base/utf8.h"

namespace toy::runs {
namespace {

// Eight that differ, then eight in the order of a ramp.
constexpr const char* kAnsi[] = {"34", "33", "32", "35", "31", "36", "37", "90",
                                 "34", "94", "36", "96", "32", "33", "31", "35"};

int color_of(const Chart& chart, int color) { return color % 8 + (chart.ramp ? 8 : 0); }

std::string ansi(int color) { return fmt::format("\x1b[{}m", kAnsi[color]); }

class Canvas {
 public:
  Canvas(int columns, int rows, bool unicode)
      : columns_(columns), rows_(rows), wide_(unicode ? 2 : 1), high_(unicode ? 4 : 2) {
    dots_.assign(size_t(columns) * size_t(rows), 0);
    colors_.assign(dots_.size(), -1);
  }
  int width() const { return columns_ * wide_; }
  int height() const { return rows_ * high_; }

  void dot(int x, int y, int color) {
    if (x < 0 || y < 0 || x >= width() || y >= height()) return;
    // Dots of a braille character, Unicode 15, section 21.1.
    constexpr unsigned char kBraille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const size_t cell = size_t(y / high_) * size_t(columns_) + size_t(x / wide_);
    dots_[cell] |= wide_ == 2 ? kBraille[y % 4][x % 2] : static_cast<unsigned char>(1 + y % 2);
    colors_[cell] = color;
  }
  void line(int x0, int y0, int x1, int y1, int color) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i)
      dot(x0 + int(std::lround(double(x1 - x0) * i / steps)), y0 + int(std::lround(double(y1 - y0) * i / steps)),
          color);
  }
  std::string row(int r, bool color) const {
    std::string s;
    int now = -1;
    for (int c = 0; c < columns_; ++c) {
      const size_t cell = size_t(r) * size_t(columns_) + size_t(c);
      const int wanted = dots_[cell] ? colors_[cell] : now;
      if (color && wanted != now) s += ansi(now = wanted);
      s += character(dots_[cell]);
    }
    return now >= 0 ? s + "\x1b[0m" : s;
  }

 private:
  std::string character(unsigned char dots) const {
    if (dots == 0) return " ";
    if (wide_ == 1) return std::string(1, " '.:"[dots]);
    return {char(0xe2), char(0xa0 | dots >> 6), char(0x80 | (dots & 0x3f))};
  }
  int columns_, rows_, wide_, high_;
  std::vector<unsigned char> dots_;
  std::vector<int> colors_;
};

struct Frame {
  Axis x, y;
  std::vector<size_t> named;      // indices of the series with a name beside the chart
  std::vector<std::string> left;  // label of each row, "" for most
  int left_width = 0, right_width = 0, columns = 0;
};

bool labelled(const Series& s) { return s.style != Series::Style::faint; }

Frame frame_of(const Chart& chart, const Terminal& t) {
  Frame f{x_axis(chart), y_axis(chart), {}, std::vector<std::string>(size_t(t.rows)), 0, 0, 0};
  const std::vector<double> ticks = f.y.ticks(std::max(3, t.rows / 2));
  const std::vector<std::string> labels = tick_labels(ticks, f.y.log);
  for (size_t i = 0; i < ticks.size(); ++i) {
    const int row = std::clamp(int((1 - f.y.at(ticks[i])) * t.rows), 0, t.rows - 1);
    f.left[size_t(row)] = labels[i];
    f.left_width = std::max(f.left_width, int(terminal_columns(labels[i])));
  }
  if (t.columns - f.left_width < 8) f.left_width = 0;  // no room for numbers
  f.named = named_series(chart, f.y, t.rows);
  if (f.named.size() == 1 && chart.groups.empty()) f.named.clear();  // the title names a single one
  if (t.columns >= 56) {
    for (const size_t i : f.named)
      f.right_width = std::max(f.right_width, int(terminal_columns(chart.series[i].name)) + 1);
    f.right_width = std::min(f.right_width, t.columns / 4);
  }
  f.columns = t.columns - f.left_width - (f.left_width ? 2 : 0) - f.right_width;
  return f;
}

void draw(const Series& s, const Frame& f, int color, Canvas& canvas) {
  int before_x = -1, before_y = -1;
  for (size_t i = 0; i < s.x.size(); ++i) {
    const double u = f.x.at(s.x[i]), v = f.y.at(s.y[i]);
    if (!std::isfinite(u) || !std::isfinite(v)) {
      before_x = -1;
      continue;
    }
    const int x = int(std::lround(u * (canvas.width() - 1)));
    const int y = int(std::lround((1 - std::clamp(v, 0.0, 1.0)) * (canvas.height() - 1)));
    canvas.line(before_x < 0 ? x : before_x, before_x < 0 ? y : before_y, x, y, color);
    before_x = x, before_y = y;
  }
}

// Names at the rows where their series end.
std::vector<std::string> names_at_rows(const Chart& chart, const Frame& f, const Terminal& t) {
  std::vector<std::string> names(static_cast<size_t>(t.rows));
  if (f.right_width == 0) return names;
  std::vector<double> wanted;
  for (const size_t i : f.named)
    wanted.push_back((1 - std::clamp(f.y.at(last_value(chart.series[i], f.y)), 0.0, 1.0)) * (t.rows - 1));
  const std::vector<double> rows = spread(wanted, 1, 0, t.rows - 1);
  for (size_t k = 0; k < f.named.size(); ++k) {
    const Series& s = chart.series[f.named[k]];
    const std::string text = " " + shortened(s.name, f.right_width - 1, t.unicode);
    names[size_t(std::lround(rows[k]))] = t.color ? ansi(color_of(chart, s.color)) + text + "\x1b[0m" : text;
  }
  return names;
}

// Numbers below their ticks, as many as fit with a space between.
std::string x_labels(const Frame& f, int indent, const std::string& label, int columns) {
  const std::vector<double> ticks = f.x.ticks(std::max(2, f.columns / 10));
  const std::vector<std::string> labels = tick_labels(ticks, false);
  std::string line(static_cast<size_t>(columns), ' ');
  int free_from = 0;
  for (size_t i = 0; i < ticks.size(); ++i) {
    const int w = int(labels[i].size());
    const int at = std::clamp(indent + int(std::lround(f.x.at(ticks[i]) * (f.columns - 1))) - w / 2, 0, columns - w);
    if (at < free_from || w > columns) continue;
    line.replace(size_t(at), size_t(w), labels[i]);
    free_from = at + w + 1;
  }
  const int at = columns - int(label.size());
  if (at >= free_from) line.replace(size_t(at), label.size(), label);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string to_terminal(const Chart& chart, const Terminal& wanted) {
  Terminal t = wanted;
  t.columns = std::max(t.columns, 8);
  t.rows = std::max(t.rows, 3);
  const std::string unit = chart.unit.empty() ? "" : ", " + chart.unit;
  std::string out = shortened(chart.title + unit, t.columns, t.unicode) + "\n";
  if (chart.empty()) return out + shortened("(nothing to draw)", t.columns, t.unicode) + "\n";
  const Frame f = frame_of(chart, t);
  Canvas canvas(f.columns, t.rows, t.unicode);
  // Where there is no color a faint series would hide what lies over it.
  for (const Series& s : chart.series)
    if (labelled(s)) draw(s, f, color_of(chart, s.color), canvas);
  for (const size_t i : f.named)
    draw(chart.series[i], f, color_of(chart, chart.series[i].color), canvas);  // over the others
  const std::vector<std::string> right = names_at_rows(chart, f, t);
  const std::string axis = t.unicode ? "│" : "|", tick = t.unicode ? "┤" : "+";
  for (int r = 0; r < t.rows; ++r) {
    if (f.left_width)
      out += fmt::format("{:>{}} {}", f.left[size_t(r)], f.left_width, f.left[size_t(r)].empty() ? axis : tick);
    std::string line = canvas.row(r, t.color) + right[size_t(r)];
    if (right[size_t(r)].empty() && !t.color) line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  const int indent = f.left_width ? f.left_width + 2 : 0;
  out += x_labels(f, indent, chart.x_label, t.columns);
  const auto entry = [&](const std::string& name, int color) {
    const std::string text = (t.unicode ? "─ " : "- ") + shortened(name, t.columns - 2, t.unicode);
    out += (t.color ? ansi(color_of(chart, color)) + text + "\x1b[0m" : text) + "\n";
  };
  if (f.right_width == 0)
    for (const size_t i : f.named) entry(chart.series[i].name, chart.series[i].color);
  if (t.color)
    for (size_t g = 0; g < chart.groups.size(); ++g)
      if (!chart.groups[g].empty()) entry(chart.groups[g], int(g));
  return out;
}

}  // namespace toy::runs
