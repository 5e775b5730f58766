#include "toy/graph/svg.h"

#include <fmt/format.h>

#include "toy/base/utf8.h"

namespace toy::svg {

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
                       css.empty() ? "" : fmt::format(" class=\"{}\"", css), markup(one_line(text)));
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
marker path { fill: #777 }
@media (prefers-color-scheme: dark) {
text { fill: #e6e6e2 } .small { fill: #a5a8ad } rect.paper { fill: #16181b } rect.op { fill: #1e2125; stroke: #4a4f57 }
rect.layer { fill: #1e2125; stroke: #666c75 } rect.forward, path.forward { fill: #1f3e5c }
rect.backward, path.backward { fill: #5a3720 } rect.update, path.update { fill: #2b4a22 }
path.flow, line.flow { stroke: #8f959d } marker path { fill: #8f959d } path.residual { stroke: #f0793a }
line.grid { stroke: #33373d } line.limit { stroke: #f0793a }
}
</style>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">
<path d="M0 0L8 4L0 8z"/></marker></defs>
<rect class="paper" width="100%" height="100%"/>
)" + body_ +
         "</svg>\n";
}

}  // namespace toy::svg
