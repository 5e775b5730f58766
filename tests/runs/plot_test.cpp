// Charts: ticks, what a terminal of any width shows, SVG, and the report.
#include "toy/runs/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runs/chart.h"
#include "runs/text.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/runs/report.h"

namespace toy::runs::plot_test {
namespace {

Chart falling(int n = 200, bool log_y = false) {
  Series s{"training", {}, {}, Series::Style::line, 0};
  for (int i = 1; i <= n; ++i) s.x.push_back(i), s.y.push_back(1 + 4.5 / std::sqrt(double(i)));
  return {"Loss", "nats per token", "step", log_y, {s}};
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

// However little or much a logarithmic scale spans, ticks are all along it.
TEST(Ticks, OfALogarithmCoverIt) {
  for (const double lo : {1.1e-7, 0.00023, 0.62, 1.0, 3.3, 8.7, 41.0})
    for (const double ratio : {1.3, 1.6, 2.0, 3.3, 5.5, 8.0, 12.0, 40.0, 300.0, 1e5, 1e12})
      for (int most = 4; most <= 9; ++most) {
        const std::vector<double> t = log_ticks(lo, lo * ratio, most);
        const std::string what = std::to_string(lo) + " times " + std::to_string(ratio) + ", " + std::to_string(most);
        EXPECT_GE(t.size(), 2u) << what;
        EXPECT_LE(int(t.size()), most) << what;
        double before = lo, gap = 0;
        for (const double v : t) {
          EXPECT_TRUE(v >= lo * (1 - 1e-6) && v <= lo * ratio * (1 + 1e-6) && v >= before * (1 - 1e-9)) << what;
          gap = std::max(gap, std::log(v / before)), before = v;
        }
        gap = std::max(gap, std::log(lo * ratio / before));
        EXPECT_LE(gap, 0.62 * std::log(ratio)) << what;
      }
  EXPECT_EQ(log_ticks(1.1, 6.2, 5), (std::vector<double>{1.5, 2, 3, 5}));
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
}

TEST(Spread, KeepsLabelsApartAndInside) {
  const auto at = spread({10, 10, 11, 100}, 15, 0, 100);
  EXPECT_EQ(at, (std::vector<double>{10, 25, 40, 100}));
  const auto low = spread({99, 100, 100}, 15, 0, 100);
  EXPECT_EQ(low, (std::vector<double>{70, 85, 100}));
  const auto tight = spread({1, 2, 3, 4, 5}, 15, 0, 40);
  for (size_t i = 1; i < tight.size(); ++i) EXPECT_NEAR(tight[i] - tight[i - 1], 10, 1e-9);
}

// The value at i of the line that fits best, with weights beta^|i-j|, beta = 1 - 120/n.
TEST(Smoothed, IsALocalLineThatLagsNowhere) {
  EXPECT_EQ(smoothed({3, 1, 2}), (std::vector<double>{3, 1, 2}));  // few points stay
  std::vector<double> falling(400), noisy(400);
  for (size_t i = 0; i < falling.size(); ++i) falling[i] = 5 - 0.01 * double(i), noisy[i] = double(i % 7);
  falling[100] = NAN;
  const auto s = smoothed(falling);
  for (size_t i = 0; i < s.size(); ++i) {
    if (i == 100) continue;
    EXPECT_NEAR(s[i], falling[i], 1e-9) << i;  // at both ends, too
  }
  EXPECT_TRUE(std::isnan(s[100]));
  const auto line = smoothed(noisy);
  for (const size_t i : {size_t(0), size_t(1), size_t(60), size_t(200), size_t(399)}) {
    double w = 0, wd = 0, wdd = 0, wv = 0, wdv = 0;
    for (size_t j = 0; j < noisy.size(); ++j) {
      const double d = double(j) - double(i), weight = std::pow(1 - 120.0 / 400, std::fabs(d));
      w += weight, wd += weight * d, wdd += weight * d * d, wv += weight * noisy[j], wdv += weight * d * noisy[j];
    }
    EXPECT_NEAR(line[i], std::clamp((wdd * wv - wd * wdv) / (wdd * w - wd * wd), 0.0, 6.0), 1e-9) << i;
  }
}

TEST(Text, BlocksAreInTheOrderOfTheirNumbers) {
  std::vector<std::string> names{"blk.10.b", "blk.2.b", "output", "blk.2.a", "a9", "a10x", "blk.2", "a10"};
  std::sort(names.begin(), names.end(), NaturalLess{});
  EXPECT_EQ(names,
            (std::vector<std::string>{"a9", "a10", "a10x", "blk.2", "blk.2.a", "blk.2.b", "blk.10.b", "output"}));
}

TEST(Text, NumbersOfF32AreShort) {
  EXPECT_EQ(exact_text(double(1e-5f)), "1e-05");
  EXPECT_EQ(exact_text(double(0.1f)), "0.1");
  EXPECT_EQ(exact_text(0.1), "0.1");
  EXPECT_EQ(exact_text(1 / 3.0), "0.3333333333333333");
}

Series flat_series(const std::string& name, double value, int color = 0) {
  return {name, {1, 2, 3}, {value, value, value}, Series::Style::line, color};
}

std::vector<std::string> named(const Chart& chart, size_t most) {
  std::vector<std::string> names;
  for (const size_t i : named_series(chart, y_axis(chart), most)) names.push_back(chart.series[i].name);
  return names;
}

// All that there is room for; of more the best ones.
TEST(NamedSeries, AreTheBest) {
  Chart chart{"Loss", "", "step", false, {}, Chart::Best::lowest};
  for (int i = 0; i < 20; ++i) chart.series.push_back(flat_series("run " + std::to_string(i), 20 - i, i));
  EXPECT_EQ(named(chart, 20).size(), 20u);
  EXPECT_EQ(named(chart, 2), (std::vector<std::string>{"run 18", "run 19"}));
  chart.best = Chart::Best::highest;
  EXPECT_EQ(named(chart, 2), (std::vector<std::string>{"run 0", "run 1"}));
}

// In a chart of groups those far from the rest, in the middle of the run as at its end; one of those that end together.
TEST(NamedSeries, AreOutliers) {
  Chart chart{"Gradients", "", "step", false, {}};
  chart.groups = {"attention", "ffn"};
  for (int i = 0; i < 30; ++i) chart.series.push_back(flat_series("usual " + std::to_string(i), 1 + 0.01 * i, i % 2));
  chart.series.push_back(flat_series("high", 9));
  chart.series.push_back(flat_series("high too", 9.01));
  chart.series.push_back(flat_series("spike", 1.2));
  chart.series.back().y[1] = 7;
  EXPECT_EQ(named(chart, 8), (std::vector<std::string>{"usual 0", "high too", "spike"}));
  EXPECT_EQ(named(chart, 2).size(), 2u);
}

// More runs than colors: the ninth has dashes, and each its own color or dashes.
TEST(Charts, ManyRunsCanBeToldApart) {
  Chart chart{"Loss", "", "step", false, {}};
  for (int i = 0; i < 12; ++i) chart.series.push_back(flat_series("r" + std::to_string(i), i, i));
  const std::string svg = to_svg(chart, {});
  std::vector<std::string> looks;
  for (size_t at = svg.find("class=\"line "); at != std::string::npos; at = svg.find("class=\"line ", at + 1))
    looks.push_back(svg.substr(at, svg.find("named", at) - at));
  EXPECT_EQ(looks.size(), 12u);
  std::sort(looks.begin(), looks.end());
  EXPECT_EQ(std::unique(looks.begin(), looks.end()), looks.end());
  for (const Series& s : chart.series) EXPECT_NE(svg.find(">" + s.name + "</text>"), std::string::npos) << s.name;
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
          EXPECT_LE(terminal_columns(line), size_t(columns)) << line;
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
  start.config = {json_text(nlohmann::ordered_json{{"corpus", text}})};
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

Log with_gradients(std::initializer_list<const char*> parts, int layers) {
  Log log;
  for (int64_t step = 1; step <= 3; ++step)
    for (int i = layers - 1; i >= 0; --i)
      for (const char* part : parts) {
        Grad g;
        g.name = "blk." + std::to_string(i) + "." + part, g.rms = 1 + i, g.count = 1;
        log.events.push_back({double(step), step, "train", g});
      }
  return log;
}

TEST(Curves, ManySeriesAreColoredByKindOrDepth) {
  const auto chart_of = [](const Log& log) { return curves(log).at(0).chart; };
  const Chart few = chart_of(with_gradients({"attn_q.weight"}, 8));
  EXPECT_TRUE(few.groups.empty());
  const Chart kinds = chart_of(with_gradients({"attn_q.weight", "ffn_up.weight", "attn_norm.weight"}, 12));
  EXPECT_EQ(std::vector(kinds.groups.begin(), kinds.groups.begin() + 4),
            (std::vector<std::string>{"attention", "ffn", "norm", ""}));
  EXPECT_EQ(kinds.series[0].name, "blk.0.attn_norm");
  EXPECT_EQ(kinds.series.back().name, "blk.11.ffn_up");
  EXPECT_NE(kinds.series[0].color, kinds.series[1].color);
  const Chart depth = chart_of(with_gradients({"ffn_up.weight"}, 12));
  EXPECT_TRUE(depth.ramp);
  EXPECT_EQ(depth.groups.front() + depth.groups.back(), "blk.0blk.11");
  EXPECT_EQ(depth.series.front().color, 0);
  EXPECT_EQ(depth.series.back().color, 7);
  for (const Chart& c : {kinds, depth}) {
    const std::string svg = to_svg(c, {});
    EXPECT_NE(svg.find(c.ramp ? ">blk.0 to blk.11</text>" : ">attention</text>"), std::string::npos);
  }
}

// Values that options stand for are shown; those that are not there are listed.
TEST(Report, ShowsEffectiveValuesAndWhyARunFailed) {
  Log log = with_gradients({"attn_q.weight"}, 12);
  RunStart start;
  start.model = {json_text(nlohmann::ordered_json{{"rms_eps", double(1e-5f)}})};
  start.config = {R"({"lr":null,"warmup":-1,"val":null,"decay-steps":-1})"};
  start.effective = {{R"({"lr":0.001,"warmup":15,"decay-steps":null})"}};
  log.events.insert(log.events.begin(), {0, {}, "prepare", start});
  RunEnd end;
  end.error = "the <weights> diverged", end.exit_code = 1;
  log.events.push_back({9, 3, "end", end});
  const std::string html = html_report(log, summarize(log, "runs/x", false));
  const auto row = [](const std::string& name, const std::string& value) {
    return "<td>" + name + "</td><td class=\"l\">" + value + "</td>";
  };
  for (const std::string& there :
       {row("lr", "0.001"), row("warmup", "15"), row("not set", "val, decay-steps"), row("rms_eps", "1e-05"),
        std::string("<p class=\"reason\">the &lt;weights&gt; diverged</p></header>")})
    EXPECT_NE(html.find(there), std::string::npos) << there;
  EXPECT_LT(html.find("<td data-n=\"\">blk.2.attn_q"), html.find("<td data-n=\"\">blk.10.attn_q"));
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
}  // namespace toy::runs::plot_test
