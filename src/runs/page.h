// The page that reports are: its styles, its script, and what it is made of.
#pragma once

#include <string>

#include "toy/runs/plot.h"

namespace toy::runs {

/// One HTML file with everything in it. `title` is text, `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);
/// "" where there is no content. Both are HTML.
std::string html_card(const std::string& title, const std::string& content);
/// A chart, drawn for several widths of the page; `hero`: across all of it.
std::string html_figure(const Chart& chart, bool hero = false);

}  // namespace toy::runs
