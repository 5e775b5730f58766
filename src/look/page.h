// The page of a look, without its numbers; CMake makes it of page.html.
#pragma once

#include <string_view>

namespace toy::looking {

/// "@title@" and "@data@" stand where those come.
extern const std::string_view kPage;

}  // namespace toy::looking
