#include "serve/requests.h"

#include <fmt/format.h>

#include "serve/keys.h"
#include "toy/base/utf8.h"

namespace toy::serve {

Admission admit_with_key(HttpRequest& header, const OriginRules& origins, std::span<const std::string> keys,
                         ErrorBody errors) {
  Admission a = admit(header, origins);
  header.key = key_of(header, keys);
  if (!a.reply && !keys.empty() && header.key == 0 && header.target != "/health" && header.target != "/")
    a.reply = error_reply(ApiError(401,
                                   "the API key is missing or wrong; send 'Authorization: Bearer KEY' or "
                                   "'X-Api-Key: KEY'",
                                   "", "invalid_api_key"),
                          errors);
  return a;
}

void require_plain_body(const HttpRequest& request) {
  const std::string& encoding = request.content_encoding;
  if (!encoding.empty() && encoding != "identity")
    throw ApiError(415, fmt::format("the request's body has the encoding '{}', which is not supported; send it as it "
                                    "is, without Content-Encoding",
                                    one_line(encoding)));
}

}  // namespace toy::serve
