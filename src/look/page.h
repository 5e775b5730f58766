// The pages of a look and of a comparison, without their numbers; CMake makes them of page.html and compare.html.
#pragma once

#include <string_view>

namespace toy::looking {

/// "@title@" and "@data@" stand where those come.
extern const std::string_view kPage, kComparePage;

}  // namespace toy::looking
