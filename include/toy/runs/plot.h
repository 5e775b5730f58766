// Line charts: in a terminal, and as SVG.
#pragma once

#include <string>
#include <vector>

namespace toy::runs {

/// Points of a chart, x ascending. What is not finite is a gap.
struct Series {
  enum class Style {
    line,
    faint,   ///< what lies behind another series: no label, and spikes of it do not decide the scale
    points,  ///< a line with its points marked
  };
  std::string name;
  std::vector<double> x, y;
  Style style = Style::line;
  int color = 0;  ///< index into the palette of 8, taken around
};

/// What is drawn. A logarithmic scale shows positive values only.
struct Chart {
  std::string title, unit, x_label = "step";
  bool log_y = false;
  std::vector<Series> series;
  /// Is there a point to draw?
  bool empty() const;
};

/// Round numbers (1, 2 or 5 times a power of ten apart) from lo to hi, at most `most` of them, in order.
std::vector<double> nice_ticks(double lo, double hi, int most);
/// The same for a logarithmic scale: powers of ten, with 2 and 5 times them where there is room. 0 < lo < hi.
std::vector<double> log_ticks(double lo, double hi, int most);

/// Exponentially weighted mean over about a fortieth of the points, at the beginning over a quarter of those before it,
/// so that a steep beginning stays steep. What is not finite is left out and stays so.
std::vector<double> smoothed(const std::vector<double>& y);

/// Where a chart is shown.
struct Terminal {
  int columns = 80;
  int rows = 12;        ///< of the drawing, without title and axis
  bool unicode = true;  ///< braille dots; else points and apostrophes
  bool color = false;   ///< ANSI colors tell the series apart
};
/// Lines that are at most `columns` wide, however few those are (at least 8), each ended.
std::string to_terminal(const Chart& chart, const Terminal& terminal);

/// Size in CSS pixels.
struct SvgOptions {
  int width = 560, height = 300;
  bool standalone = true;  ///< with its own colors and background, light or dark as the reader's system
};
/// Series are labelled where they end. Long series are drawn with the extremes of each pixel column.
std::string to_svg(const Chart& chart, const SvgOptions& options);
/// The colors that a chart with standalone = false expects in the page around it.
std::string svg_style();

}  // namespace toy::runs
