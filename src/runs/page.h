// The frame of the report: styles, and the script that reads values off the charts.
#pragma once

#include <string>

namespace toy::runs {

/// A page of HTML with this content of <main>.
std::string page(const std::string& title, const std::string& content);

}  // namespace toy::runs
