// What a request names: percent-encoding of URLs (RFC 3986, 2.1), and the other ways to write the same path.
#pragma once

#include <string>
#include <string_view>

namespace toy::serve {

/// The bytes that a path stands for: %2F is '/'. A percent sign without two hexadecimal digits stays.
std::string percent_decoded(std::string_view path);

/// The path of a request's target, decoded: without the server's name in front (RFC 9112, 3.2.2), without the query,
/// and with single slashes, of which none is at the end.
std::string plain_target(std::string_view target);

/// The host, and its port, of a target that is a complete URL; "": it is none. It counts in place of the field Host.
std::string target_host(std::string_view target);

}  // namespace toy::serve
