#include "toy/base/svg.h"

#include <fmt/format.h>

#include "toy/base/utf8.h"

namespace toy::svg {
namespace {

// Many viewers do not know variables, so each color stands in a rule of its own.
struct Color {
  const char *classes, *property, *light, *dark;
};
constexpr Color kScheme[] = {
    {"text", "fill", "#1c2127", "#e8eaed"},        {".soft", "fill", "#69717c", "#9aa2ad"},
    {".paper", "fill", "#fff", "#16191d"},         {".grid", "stroke", "#e6e8ec", "#2c3138"},
    {".axis", "stroke", "#69717c", "#9aa2ad"},     {".flow", "stroke", "#777d86", "#8f959d"},
    {"marker path", "fill", "#777d86", "#8f959d"}, {".residual", "stroke", "#c2410c", "#f0793a"},
    {".limit", "stroke", "#c2410c", "#f0793a"},    {".layer", "fill", "#f5f6f7", "#1e2125"},
    {".layer", "stroke", "#868d96", "#666c75"},    {".forward", "fill", "#cfe3f5", "#1f3e5c"},
    {".backward", "fill", "#f9dcc4", "#5a3720"},   {".update", "fill", "#d8ecd0", "#2b4a22"},
    {".c0", "color", "#2563c9", "#74aaff"},        {".c1", "color", "#d06a00", "#f5a14b"},
    {".c2", "color", "#178152", "#5acb96"},        {".c3", "color", "#8446c4", "#c29bff"},
    {".c4", "color", "#c72c48", "#ff8093"},        {".c5", "color", "#0b7f92", "#56c8da"},
    {".c6", "color", "#86592d", "#d0a67c"},        {".c7", "color", "#5f6874", "#a3acb8"},
    {".r0", "color", "#3d2fa8", "#a99bff"},        {".r1", "color", "#2f5fd0", "#74aaff"},
    {".r2", "color", "#1687b8", "#56c0ee"},        {".r3", "color", "#138a72", "#4fd0b4"},
    {".r4", "color", "#4f8f1d", "#8fd05a"},        {".r5", "color", "#9c8500", "#dcc84a"},
    {".r6", "color", "#c96a00", "#f5a14b"},        {".r7", "color", "#c72c48", "#ff8093"},
};

constexpr const char* kShapes = R"css(
.plot text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;
font-variant-numeric:tabular-nums}
.plot .title{font-size:14px}.plot .title,.plot .name{font-weight:600}.plot tspan{font-size:12px;font-weight:400}
.plot .code{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:11px}
.plot .right{text-anchor:end}.plot .middle{text-anchor:middle}
.plot .flow,.plot .residual,.plot polyline,.plot .lead{fill:none}
.plot .residual{stroke-width:1.6}.plot .limit{stroke-dasharray:4 3}
.plot polyline,.plot .lead{stroke:currentColor;stroke-width:1.75;stroke-linejoin:round;stroke-linecap:round}
.plot .lead{stroke-width:1.25}.plot .label{font-weight:500}
.plot circle,.plot .label,.plot .swatch{fill:currentColor}
.plot .k1{stroke-dasharray:7 4}.plot .k2{stroke-dasharray:2 4}.plot .k3{stroke-dasharray:10 4 2 4}
.plot .faint polyline{stroke-width:1;opacity:.35}.plot .faint circle{opacity:.35}
.plot .thin polyline{stroke-width:1;opacity:.5}.plot .hot polyline{stroke-width:3;opacity:1}
)css";

std::string svg(double width, double height, std::string_view label, std::string_view attributes,
                std::string_view content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-label=\"{}\"{}{}>\n{}</svg>\n",
      width, height, markup(one_line(label)), attributes.empty() ? "" : " ", attributes, content);
}

}  // namespace

std::string style() {
  std::string light, dark;
  for (const Color& c : kScheme) {
    light += fmt::format(".plot {}{{{}:{}}}\n", c.classes, c.property, c.light);
    dark += fmt::format(".plot {}{{{}:{}}}\n", c.classes, c.property, c.dark);
  }
  return light + "@media(prefers-color-scheme:dark){\n" + dark + "}" + kShapes;
}

void Drawing::rect(double x, double y, double w, double h, std::string_view css, double radius) {
  body_ +=
      fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:g}\"/>\n",
                  css, x, y, w, h, radius);
}

void Drawing::circle(double x, double y, double radius) {
  body_ += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{:g}\"/>\n", x, y, radius);
}

void Drawing::line(double x1, double y1, double x2, double y2, std::string_view css) {
  body_ += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", css, x1, y1,
                       x2, y2);
}

void Drawing::line(const Points& points) {
  body_ += "<polyline points=\"";
  for (const auto& [x, y] : points) body_ += fmt::format("{:.2f},{:.2f} ", x, y);
  body_.back() = '"';
  body_ += "/>\n";
}

void Drawing::path(std::string_view commands, std::string_view css, bool arrow) {
  body_ += fmt::format("<path class=\"{}\" d=\"{}\"{}/>\n", css, commands, arrow ? " marker-end=\"url(#arrow)\"" : "");
  has_arrows_ = has_arrows_ || arrow;
}

void Drawing::text(double x, double y, std::string_view text, std::string_view css, std::string_view more) {
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}", x, y,
                       css.empty() ? "" : fmt::format(" class=\"{}\"", css), markup(one_line(text)));
  if (!more.empty()) body_ += fmt::format("<tspan class=\"soft\" dx=\"8\">{}</tspan>", markup(one_line(more)));
  body_ += "</text>\n";
}

void Drawing::group(const Drawing& shapes, std::string_view css, std::string_view name, bool titled) {
  const std::string text = markup(one_line(name));
  body_ += fmt::format("<g class=\"{}\" data-name=\"{}\">{}\n{}</g>\n", css, text,
                       titled ? "<title>" + text + "</title>" : "", shapes.body_);
}

void Drawing::window(const Drawing& shapes, double x, double y, double w, double h) {
  body_ += fmt::format(
      "<svg x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" height=\"{3:.1f}\" viewBox=\"{0:.1f} {1:.1f} {2:.1f} "
      "{3:.1f}\">\n{4}</svg>\n",
      x, y, w, h, shapes.body_);
}

std::string Drawing::element(double width, double height, std::string_view label, std::string_view attributes) const {
  return svg(width, height, label, attributes, body_);
}

std::string Drawing::file(double width, double height, std::string_view label, std::string_view attributes) const {
  constexpr const char* kArrow =
      "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" "
      "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n";
  return svg(width, height, label,
             fmt::format("width=\"100%\" style=\"max-width:{:.0f}px;height:auto\" {}", width, attributes),
             "<style>\n" + style() + "</style>\n" + (has_arrows_ ? kArrow : "") +
                 "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n" + body_);
}

}  // namespace toy::svg
