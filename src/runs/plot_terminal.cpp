// Charts in characters: braille dots, 2 by 4 in a cell, or 1 by 2 where there is no Unicode.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runs/chart.h"
#include "runs/text.h"
#include "toy/base/utf8.h"

namespace toy::runs {
namespace {

constexpr const char* kEndColor = "\x1b[0m";

// Eight that differ, then eight in the order of a ramp.
std::string ansi(const Chart& chart, int color) {
  constexpr int kAnsi[2][8] = {{34, 33, 32, 35, 31, 36, 37, 90}, {34, 94, 36, 96, 32, 33, 31, 35}};
  return fmt::format("\x1b[{}m", kAnsi[chart.ramp][color % 8]);
}

class Canvas {
 public:
  Canvas(int columns, int rows, bool unicode)
      : columns_(columns), wide_(unicode ? 2 : 1), high_(unicode ? 4 : 2), cells_(size_t(columns) * size_t(rows)) {}
  int width() const { return columns_ * wide_; }
  int height() const { return int(cells_.size()) / columns_ * high_; }

  // From dot to dot, in the color that starts with these characters.
  void line(int x0, int y0, int x1, int y1, const std::string& color) {
    // Dots of a braille character, Unicode 15, section 21.1.
    constexpr unsigned char kBraille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      const int x = x0 + int(std::lround(double(x1 - x0) * i / steps));
      const int y = y0 + int(std::lround(double(y1 - y0) * i / steps));
      Cell& cell = cells_[size_t(y / high_ * columns_ + x / wide_)];
      cell.dots |= wide_ == 2 ? kBraille[y % 4][x % 2] : static_cast<unsigned char>(1 + y % 2);
      cell.color = color;
    }
  }
  std::string row(int r) const {
    std::string s, now;
    for (int c = 0; c < columns_; ++c) {
      const Cell& cell = cells_[size_t(r * columns_ + c)];
      if (cell.dots && cell.color != now) s += now = cell.color;
      s += cell.dots && wide_ == 2 ? utf8_encode(0x2800u + cell.dots) : std::string(1, " '.:"[cell.dots]);
    }
    return now.empty() ? s : s + kEndColor;
  }

 private:
  struct Cell {
    unsigned char dots = 0;
    std::string color;
  };
  int columns_, wide_, high_;
  std::vector<Cell> cells_;
};

struct Frame {
  Axis x, y;
  std::vector<size_t> named;      // indices of the series with a name beside the chart
  std::vector<std::string> left;  // label of each row, "" for most
  int left_width = 0, right_width = 0, columns = 0;
};

Frame frame_of(const Chart& chart, const Terminal& t) {
  Frame f{x_axis(chart), y_axis(chart), {}, std::vector<std::string>(size_t(t.rows))};
  const std::vector<double> ticks = f.y.ticks(std::max(3, t.rows / 2));
  const std::vector<std::string> labels = tick_labels(ticks, f.y.log);
  for (size_t i = 0; i < ticks.size(); ++i) {
    f.left[size_t(std::clamp(int((1 - f.y.at(ticks[i])) * t.rows), 0, t.rows - 1))] = labels[i];
    f.left_width = std::max(f.left_width, int(labels[i].size()) + 2);
  }
  if (t.columns - f.left_width < 6) f.left_width = 0;  // no room for numbers
  f.named = named_series(chart, f.y, size_t(t.rows));
  if (t.columns >= 56) {
    for (const size_t i : f.named)
      f.right_width = std::max(f.right_width, int(terminal_columns(chart.series[i].name)) + 1);
    f.right_width = std::min(f.right_width, t.columns / 4);
  }
  f.columns = t.columns - f.left_width - f.right_width;
  return f;
}

void draw(const Series& s, const Frame& f, const std::string& color, Canvas& canvas) {
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

// Numbers below their ticks, as many as fit with a space between.
std::string x_labels(const Frame& f, const std::string& label, int columns) {
  const std::vector<double> ticks = f.x.ticks(std::max(2, f.columns / 10));
  const std::vector<std::string> labels = tick_labels(ticks, false);
  std::string line(static_cast<size_t>(columns), ' ');
  int free_from = 0;
  for (size_t i = 0; i < ticks.size(); ++i) {
    const int w = int(labels[i].size()), middle = f.left_width + int(std::lround(f.x.at(ticks[i]) * (f.columns - 1)));
    const int at = std::clamp(middle - w / 2, 0, std::max(0, columns - w));
    if (at < free_from || w > columns) continue;
    line.replace(size_t(at), size_t(w), labels[i]);
    free_from = at + w + 1;
  }
  const int at = columns - int(label.size());
  if (at >= free_from) line.replace(size_t(at), label.size(), label);
  return line;
}

}  // namespace

std::string to_terminal(const Chart& chart, Terminal t) {
  t.columns = std::max(t.columns, 8);
  t.rows = std::max(t.rows, 3);
  const auto cut = [&](const std::string& text, int width) { return shortened(text, width, t.unicode); };
  const auto color_of = [&](int color) { return t.color ? ansi(chart, color) : ""; };
  const auto colored = [&](const std::string& text, int color) {
    return t.color ? color_of(color) + text + kEndColor : text;
  };
  std::string out = cut(chart.unit.empty() ? chart.title : chart.title + ", " + chart.unit, t.columns) + "\n";
  if (chart.empty()) return out + cut("(nothing to draw)", t.columns) + "\n";

  const Frame f = frame_of(chart, t);
  Canvas canvas(f.columns, t.rows, t.unicode);
  // Where there is no color a faint series would hide what lies over it.
  for (const Series& s : chart.series)
    if (s.style != Series::Style::faint) draw(s, f, color_of(s.color), canvas);
  for (const size_t i : f.named) draw(chart.series[i], f, color_of(chart.series[i].color), canvas);  // over the others

  std::vector<double> ends;
  for (const size_t i : f.named)
    ends.push_back((1 - std::clamp(f.y.at(last_value(chart.series[i], f.y)), 0.0, 1.0)) * (t.rows - 1));
  ends = spread(ends, 1, 0, t.rows - 1);
  std::vector<std::string> right(static_cast<size_t>(t.rows));
  for (size_t k = 0; k < ends.size() && f.right_width > 0; ++k) {
    const Series& s = chart.series[f.named[k]];
    right[size_t(std::lround(ends[k]))] = colored(" " + cut(s.name, f.right_width - 1), s.color);
  }

  const auto put = [&](std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  for (size_t r = 0; r < right.size(); ++r) {
    const char* edge = f.left[r].empty() ? (t.unicode ? "│" : "|") : t.unicode ? "┤" : "+";
    const std::string left = f.left_width ? fmt::format("{:>{}} {}", f.left[r], f.left_width - 2, edge) : "";
    put(left + canvas.row(int(r)) + right[r]);
  }
  put(x_labels(f, chart.x_label, t.columns));
  const auto entry = [&](const std::string& name, int color) {
    out += colored((t.unicode ? "─ " : "- ") + cut(name, t.columns - 2), color) + "\n";
  };
  if (f.right_width == 0)
    for (const size_t i : f.named) entry(chart.series[i].name, chart.series[i].color);
  for (size_t g = 0; g < chart.groups.size() && t.color; ++g)
    if (!chart.groups[g].empty()) entry(chart.groups[g], int(g));
  return out;
}

}  // namespace toy::runs
