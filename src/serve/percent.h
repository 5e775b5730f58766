// Percent-encoding of URLs (RFC 3986, 2.1).
#pragma once

#include <string>
#include <string_view>

namespace toy::serve {

/// The bytes that a path stands for: %2F is '/'. A percent sign without two hexadecimal digits stays.
std::string percent_decoded(std::string_view path);

}  // namespace toy::serve
