#include "toy/base/svg.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace toy::svg::svg_test {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Svg, ShapesAreWhatTheySay) {
  Drawing lines, d;
  lines.line({{1, 2}, {3.456, 4}});
  lines.circle(3, 4, 2.5);
  d.group(lines, "line c0", "a", true);
  d.text(5, 6, "loss", "title", "nats");
  EXPECT_EQ(
      d.element(30, 20, "l"),
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 30 20\" role=\"img\" "
      "aria-label=\"l\">\n"
      "<g class=\"line c0\" data-name=\"a\"><title>a</title>\n"
      "<polyline points=\"1.00,2.00 3.46,4.00\"/>\n<circle cx=\"3.00\" cy=\"4.00\" r=\"2.5\"/>\n</g>\n"
      "<text x=\"5.0\" y=\"6.0\" class=\"title\">loss<tspan class=\"soft\" dx=\"8\">nats</tspan></text>\n</svg>\n");
}

TEST(Svg, NamesAreText) {
  Drawing d;
  d.text(0, 0, "<b>\n\xff", {}, "&");
  d.group(Drawing(), "line", "\"x\" onload=", true);
  const std::string text = d.file(10, 10, "\"><script>");
  EXPECT_TRUE(has(text, ">&lt;b&gt;?\xEF\xBF\xBD<tspan"));
  EXPECT_FALSE(has(text, "\"x\" onload"));
  EXPECT_FALSE(has(text, "<script"));
}

TEST(Svg, FilesBringTheirStyleAndScale) {
  Drawing d;
  d.path("M0 0H5", "flow");
  const std::string plain = d.file(700, 300, "x");
  EXPECT_TRUE(has(plain, "width=\"100%\" style=\"max-width:700px;height:auto\"")) << plain.substr(0, 300);
  EXPECT_TRUE(has(plain, style()));
  EXPECT_FALSE(has(plain, "<marker"));
  EXPECT_FALSE(has(d.element(700, 300, "x"), "<style>"));
  d.path("M0 0H5", "flow", true);
  EXPECT_TRUE(has(d.file(700, 300, "x"), "<marker id=\"arrow\""));
}

// Each color of the light style has one in the dark one.
TEST(Svg, StyleIsForLightAndDarkReaders) {
  const std::string css = style();
  const size_t dark = css.find("@media(prefers-color-scheme:dark)");
  ASSERT_NE(dark, std::string::npos);
  EXPECT_EQ(std::count(css.begin(), css.begin() + long(dark), '#'),
            std::count(css.begin() + long(dark), css.end(), '#'));
  for (const char* name : {".c0{", ".c7{", ".r7{", ".paper{", ".forward{"}) {
    EXPECT_LT(css.find(name), dark) << name;
    EXPECT_NE(css.find(name, dark), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace toy::svg::svg_test
