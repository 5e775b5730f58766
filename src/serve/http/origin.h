// Whether a request comes from where it may: what web pages of others make a browser send is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/http_server.h"

namespace toy::serve {

/// Where a server is, and who may use it.
struct OriginRules {
  std::string host;  ///< that it listens on, as the user wrote it
  uint16_t port = 0;
  bool tls = false;
  bool loopback = true;           ///< no other machine can connect
  bool keyless = true;            ///< whoever connects may ask
  std::vector<std::string> cors;  ///< origins of pages that may: as origin_of() returns them
};

/// The form in which a browser sends an origin: "https://chat.example" for "HTTPS://Chat.Example:443". "*" is any.
/// Throws Error{bad_input} for what is none.
std::string origin_of(const std::string& text);

/// Looks at Host, Origin, Sec-Fetch-Site and Content-Type. Programs send none of the last three in the way of a
/// browser, and are not held up. The reply is 403 for other pages and names, 415 for a body that a browser sends for
/// any page, and for OPTIONS what browsers ask in advance.
Admission admit(const HttpRequest& header, const OriginRules& rules);

}  // namespace toy::serve
