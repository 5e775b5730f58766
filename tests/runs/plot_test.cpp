// Charts: ticks, what a terminal of any width shows, SVG, and the report.
#include "toy/runs/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "runs/axis.h"
#include "runs/text.h"
#include "toy/runs/report.h"

namespace toy::runs {
namespace {

Chart falling(int n = 200, bool log_y = false) {
  Series s{"training", {}, {}, Series::Style::line, 0};
  for (int i = 1; i <= n; ++i) s.x.push_back(i), s.y.push_back(1 + 4.5 / std::sqrt(double(i)));
  return {"Loss", "nats a token", "step", log_y, {s}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Ticks, AreRound) {
  EXPECT_EQ(nice_ticks(0, 10, 6), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(nice_ticks(1.3, 5.4, 5), (std::vector<double>{2, 3, 4, 5}));
  EXPECT_EQ(nice_ticks(-1, 1, 5), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(log_ticks(0.9, 110, 4), (std::vector<double>{1, 10, 100}));
  EXPECT_TRUE(nice_ticks(1, 1, 5).empty());
  for (const double lo : {-3.7, 0.0, 1e-9, 12345.6})
    for (const double width : {1e-8, 0.3, 7.0, 1e6})
      for (int most = 2; most < 12; ++most) {
        const auto t = nice_ticks(lo, lo + width, most);
        EXPECT_LE(int(t.size()), most);
        for (const double v : t) EXPECT_TRUE(v >= lo - 1e-6 * width && v <= lo + width * (1 + 1e-6));
      }
}

TEST(Ticks, LabelsTellNeighboursApart) {
  EXPECT_EQ(tick_labels({1, 1.5, 2}, false), (std::vector<std::string>{"1.0", "1.5", "2.0"}));
  EXPECT_EQ(tick_labels({0, 1000, 2000}, false), (std::vector<std::string>{"0", "1k", "2k"}));
  EXPECT_EQ(tick_labels({1e-5, 1e-4}, true), (std::vector<std::string>{"1e-5", "1e-4"}));
  for (const double step : {1e-7, 0.002, 0.5, 20.0, 500.0, 250000.0}) {
    const auto labels = tick_labels({step, 2 * step, 3 * step}, false);
    EXPECT_NE(labels[0], labels[1]) << step;
    EXPECT_NE(labels[1], labels[2]) << step;
  }
}

TEST(Text, NumbersForPeople) {
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(-1234), "-1,234");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(duration_text(3723.4), "1:02:03");
  EXPECT_EQ(duration_text(59.96), "60.0 s");
  EXPECT_EQ(short_number(2.5e6), "2.5M");
  EXPECT_EQ(shortened("abcdef", 4), "abc…");
  EXPECT_EQ(shortened("äöüß", 4), "äöüß");
  EXPECT_EQ(shortened("abcdef", 4, false), "abc.");
  EXPECT_EQ(escaped("<a href='x'>&\x01\xff"), "&lt;a href=&#39;x&#39;&gt;&amp;\xef\xbf\xbd");
}

TEST(Spread, KeepsLabelsApartAndInside) {
  const auto at = spread({10, 10, 11, 100}, 15, 0, 100);
  EXPECT_EQ(at, (std::vector<double>{10, 25, 40, 100}));
  const auto low = spread({99, 100, 100}, 15, 0, 100);
  EXPECT_EQ(low, (std::vector<double>{70, 85, 100}));
  const auto tight = spread({1, 2, 3, 4, 5}, 15, 0, 40);
  for (size_t i = 1; i < tight.size(); ++i) EXPECT_NEAR(tight[i] - tight[i - 1], 10, 1e-9);
}

TEST(Smoothed, IsAWeightedMean) {
  EXPECT_EQ(smoothed({3, 1, 2}), (std::vector<double>{3, 1, 2}));  // few points stay
  std::vector<double> flat(400, 2.5);
  flat[100] = NAN;
  const auto s = smoothed(flat);
  for (size_t i = 0; i < s.size(); ++i) EXPECT_EQ(i == 100 ? 2.5 : s[i], 2.5) << i;
  EXPECT_TRUE(std::isnan(s[100]));
}

// No line is wider than the terminal, however narrow it is, with and without Unicode, one series or several.
TEST(Terminal, StaysInItsWidth) {
  Chart many = falling();
  for (int i = 1; i < 12; ++i) {
    Series s = many.series[0];
    s.name = "a run with a rather long name " + std::to_string(i);
    s.color = i;
    for (double& y : s.y) y += 0.1 * i;
    many.series.push_back(s);
  }
  for (const Chart& chart : {falling(), falling(1), falling(3, true), many, Chart{"Empty", "", "step", false, {}}})
    for (const bool unicode : {true, false})
      for (int columns = 8; columns < 130; ++columns) {
        const auto lines = lines_of(to_terminal(chart, {.columns = columns, .rows = 6, .unicode = unicode}));
        EXPECT_GE(lines.size(), 2u);
        for (const std::string& line : lines) {
          EXPECT_LE(width_of(line), columns) << line;
          EXPECT_TRUE(unicode || std::all_of(line.begin(), line.end(), [](char c) { return c >= 32 && c < 127; }))
              << line;
        }
      }
}

TEST(Terminal, DrawsWhatItIsGiven) {
  Series s{"x", {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, Series::Style::line, 0};
  const Chart chart{"Line", "", "", false, {s}};
  EXPECT_EQ(to_terminal(chart, {.columns = 12, .rows = 4, .unicode = false}),
            "Line\n"
            "  |       .'\n"
            "5 +    ..'\n"
            "  |  .'\n"
            "0 +.'\n"
            "   0     5\n");
}

TEST(Terminal, ColorsEnd) {
  const std::string text = to_terminal(falling(), {.columns = 60, .rows = 8, .unicode = true, .color = true});
  EXPECT_NE(text.find("\x1b[34m"), std::string::npos);
  for (const std::string& line : lines_of(text))
    EXPECT_TRUE(line.find("\x1b[3") == std::string::npos || line.ends_with("\x1b[0m")) << line;
}

TEST(Charts, GapsAndConstantsAndNothing) {
  Chart chart = falling(10);
  chart.series[0].y[4] = NAN;
  const std::string svg = to_svg(chart, {});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(std::count(svg.begin(), svg.end(), '\n') > 5, true);
  size_t lines = 0;
  for (size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++lines;
  EXPECT_EQ(lines, 2u);  // before and after the gap
  for (const double c : {0.0, 2.0, -3.0, 1e-12, 1e300}) {
    Chart flat{"Flat", "", "step", false, {{"f", {1, 2, 3}, {c, c, c}, Series::Style::line, 0}}};
    for (const std::string& text : {to_svg(flat, {}), to_terminal(flat, {})}) {
      EXPECT_EQ(text.find("nan"), std::string::npos) << c;
      EXPECT_EQ(text.find("inf"), std::string::npos) << c;
    }
  }
  Chart none{"None", "", "step", true, {{"n", {1, 2}, {0, -1}, Series::Style::line, 0}}};
  EXPECT_TRUE(none.empty());
  EXPECT_NE(to_svg(none, {}).find("nothing to draw"), std::string::npos);
}

// A million points are drawn with a few a pixel column, the extremes among them.
TEST(Charts, LongSeriesStaySmall) {
  Series s{"s", {}, {}, Series::Style::line, 0};
  for (int i = 0; i < 1000000; ++i) s.x.push_back(i), s.y.push_back(i == 543210 ? 9 : 1);
  const std::string svg = to_svg({"Long", "", "step", false, {s}}, {});
  EXPECT_LT(svg.size(), 60000u);
  EXPECT_NE(to_svg({"Long", "", "step", false, {s}}, {}).find("points"), std::string::npos);
  s.y[543210] = 1;
  EXPECT_NE(svg, to_svg({"Long", "", "step", false, {s}}, {}));
}

Log log_with(const std::string& text) {
  RunStart start;
  start.run_id = "<script>alert(1)</script>";
  start.config = {{"corpus", text}};
  Log log;
  log.events.push_back({0, {}, "prepare", start});
  for (int64_t i = 1; i <= 100; ++i) {
    Step s;
    s.loss = 5.0 / double(i), s.lr = 1e-3, s.tokens = 8, s.wall_us = 100, s.grad_norm = 1.0 / double(i);
    log.events.push_back({double(i), i, "train", s});
  }
  log.events.push_back({100, 100, "eval", Eval{1, 1, true}});
  log.events.push_back({100, 100, "eval", Sample{text}});
  return log;
}

TEST(Curves, OneForEachMetricThatIsThere) {
  std::vector<std::string> names;
  for (const Curve& c : curves(log_with("a"))) names.push_back(c.metric);
  EXPECT_EQ(names, (std::vector<std::string>{"loss", "validation_loss", "lr", "grad_norm", "tokens_per_second"}));
  EXPECT_TRUE(curves(Log{}).empty());
}

// What came from outside is text, never markup, and nothing is loaded from anywhere.
TEST(Report, IsSelfContainedAndEscaped) {
  const Log log = log_with("</pre><img src=http://x onerror=alert(1)>\xff");
  const std::string html = html_report(log, summarize(log, "runs/x", false));
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_NE(html.find("&lt;/pre&gt;"), std::string::npos);
  for (const char* outside : {"src=\"", "href=", "url(", "@import", "fetch(", "XMLHttpRequest"})
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  const std::string empty = html_report(Log{}, Summary{});
  EXPECT_NE(empty.find("No step has been written yet"), std::string::npos);
}

}  // namespace
}  // namespace toy::runs
