// What every request has to be, whatever it asks for.
#pragma once

#include <span>
#include <string>

#include "serve/api/reply_format.h"
#include "serve/http/http_server.h"
#include "serve/http/origin.h"

namespace toy::serve {

/// Notes which of the keys a request has, and refuses those that may not ask: other origins, and no key where some are
/// needed.
Admission admit_with_key(HttpRequest& header, const OriginRules& origins, std::span<const std::string> keys,
                         ErrorBody errors);
/// Throws ApiError for a body that is compressed.
void require_plain_body(const HttpRequest& request);

}  // namespace toy::serve
