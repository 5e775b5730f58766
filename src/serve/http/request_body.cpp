#include "serve/http/request_body.h"

#include <fmt/format.h>

#include <algorithm>

#include "dialog/fields.h"
#include "serve/api/api.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// Objects of ordered_json are searched from their beginning for every key.
bool has_many_keys(const nlohmann::json& j) {
  return (j.is_object() && j.size() > kMostKeys) ||
         (j.is_structured() && std::any_of(j.begin(), j.end(), has_many_keys));
}

}  // namespace

ordered_json parse_body(const std::string& body) {
  const size_t begin = std::min(body.find_first_not_of(" \t\r\n"), body.size());
  if (begin == body.size()) refuse("the request's body is empty; send JSON", "");
  if (body.compare(begin, 2, "--") == 0 || (body[begin] != '{' && body.find('=') < body.find('\"')))
    refuse("the request's body is a form; send JSON, with Content-Type: application/json", "");
  if (!is_utf8(body)) refuse("the request's body is not valid UTF-8", "");
  ordered_json j;
  try {
    if (has_many_keys(read_json<nlohmann::json>("the request's body", body)))
      refuse(fmt::format("an object of the request's body has more than {} keys", kMostKeys), "");
    j = read_json<ordered_json>("the request's body", body);
  } catch (const Error& e) {
    refuse(e.what(), "");
  }
  if (!j.is_object()) refuse("the request's body is not a JSON object", "");
  return j;
}

}  // namespace toy::serve
