// Who may ask: API keys.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "serve/http/http_server.h"

namespace toy::serve {

/// Are two texts the same? Takes as long whatever the first difference.
bool same_secret(const std::string& given, const std::string& expected);
/// Which of these keys a request has, from 1, in `X-Api-Key` or as `Authorization: Bearer KEY`; 0: none.
int64_t key_of(const HttpRequest& request, std::span<const std::string> keys);

}  // namespace toy::serve
