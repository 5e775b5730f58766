// The frame of the report: styles and script.
#pragma once

#include <string>

namespace toy::runs {

/// From the doctype to the beginning of <main>.
std::string page_head(const std::string& title);
/// The rest, with the script that reads values off the charts.
std::string page_foot();

}  // namespace toy::runs
