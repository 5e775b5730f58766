// The page at `/`, which is page.html.
#pragma once

#include <string_view>

namespace toy::serve {

extern const std::string_view kPage;

}  // namespace toy::serve
