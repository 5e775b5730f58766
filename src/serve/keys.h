// Who may ask: API keys.
#pragma once

#include <span>
#include <string>

#include "serve/http_server.h"

namespace toy::serve {

/// Are two texts the same? Takes as long whatever the first difference.
bool same_secret(const std::string& given, const std::string& expected);
/// Does a request have one of these keys, in `X-Api-Key` or as `Authorization: Bearer KEY`?
bool has_key(const HttpRequest& request, std::span<const std::string> keys);

}  // namespace toy::serve
