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
  /// Index of a color: in a chart of groups, of the group; else of the series (8 colors, then the same ones dashed).
  int color = 0;
};

/// What is drawn. A logarithmic scale shows positive values only.
struct Chart {
  enum class Best { neither, lowest, highest };
  std::string title, unit, x_label = "step";
  bool log_y = false;
  std::vector<Series> series;
  Best best = Best::neither;  ///< which series are named where not all can be
  /// Legend of a chart of many series: what each color stands for ("" for one that is not there). Then only outliers
  /// are named.
  std::vector<std::string> groups = {};
  bool ramp = false;  ///< the groups are ordered (depth), and so are their colors
  /// Is there a point to draw?
  bool empty() const;
};

/// Round numbers (1, 2 or 5 times a power of ten apart) from lo to hi, at most `most` of them, in order.
std::vector<double> nice_ticks(double lo, double hi, int most);
/// The same for a logarithmic scale, 0 < lo < hi: of powers of ten, simple multiples of them and (within a decade)
/// equal steps, those that leave the smallest part of the scale without a tick. At least two where most >= 3.
std::vector<double> log_ticks(double lo, double hi, int most);

/// Local linear regression (Cleveland 1979) with weights beta^|i-j|, beta = 1 - 120/n: centred, so that it neither lags
/// behind a falling loss nor runs ahead of it, at the ends of the series, too. It does not leave the range of the
/// values. Those that are not finite are skipped and stay as they are.
std::vector<double> smoothed(const std::vector<double>& y);

/// Where a chart is shown.
struct Terminal {
  int columns = 80;
  int rows = 12;        ///< of the drawing, without title and axis
  bool unicode = true;  ///< braille dots; else points and apostrophes
  bool color = false;   ///< ANSI colors tell the series apart
};
/// Lines that are at most `columns` wide, however few those are (at least 8), each ended.
std::string to_terminal(const Chart& chart, Terminal terminal);

/// How a chart is drawn as SVG.
struct SvgOptions {
  int width = 560, height = 300;  ///< CSS pixels, which scale with the page
  bool standalone = true;         ///< a file; else an element of a page that has svg::style() (toy/base/svg.h)
};
/// Series are labelled where they end. Long series are drawn with the extremes of each pixel column.
std::string to_svg(const Chart& chart, const SvgOptions& options);

}  // namespace toy::runs
