#include "toy/graph/svg.h"

#include <fmt/format.h>

#include "toy/base/utf8.h"

namespace toy::svg {
namespace {

// `<`, `>`, `&` and quotes as XML wants them, which wants UTF-8 without control characters too.
std::string escaped(std::string_view text) {
  std::string s;
  for (const char c : one_line(text)) {
    if (c == '<')
      s += "&lt;";
    else if (c == '>')
      s += "&gt;";
    else if (c == '&')
      s += "&amp;";
    else if (c == '"')
      s += "&quot;";
    else
      s += c;
  }
  return s;
}

}  // namespace

void Drawing::rect(double x, double y, double w, double h, std::string_view css, double radius) {
  body_ +=
      fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:g}\"/>\n",
                  css, x, y, w, h, radius);
}

void Drawing::line(double x1, double y1, double x2, double y2, std::string_view css) {
  body_ += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", css, x1, y1,
                       x2, y2);
}

void Drawing::path(std::string_view commands, std::string_view css, bool arrow) {
  body_ += fmt::format("<path class=\"{}\" d=\"{}\"{}/>\n", css, commands, arrow ? " marker-end=\"url(#arrow)\"" : "");
}

void Drawing::text(double x, double y, std::string_view text, std::string_view css) {
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y,
                       css.empty() ? "" : fmt::format(" class=\"{}\"", css), escaped(text));
}

std::string Drawing::finish(double width, double height) const {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
             "{1:.0f}\">\n",
             width, height) +
         R"(<style>
text { font: 11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #222 }
.title { font-weight: bold; font-size: 13px } .name { font-weight: bold }
.small { font-size: 9.75px; fill: #666 } .right { text-anchor: end } .middle { text-anchor: middle }
rect.paper { fill: #fff } rect.layer { fill: #f6f6f2; stroke: #8a8a80 }
rect.op { fill: #fff; stroke: #c4c4bc }
rect.forward, path.forward { fill: #cfe3f5 } rect.backward, path.backward { fill: #f9dcc4 }
rect.update, path.update { fill: #d8ecd0 }
path.flow, line.flow { fill: none; stroke: #777 } path.residual { fill: none; stroke: #c2410c; stroke-width: 1.6 }
line.grid { stroke: #ddd } line.limit { stroke: #c2410c; stroke-dasharray: 4 3 }
</style>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>
<rect class="paper" width="100%" height="100%"/>
)" + body_ +
         "</svg>\n";
}

}  // namespace toy::svg
