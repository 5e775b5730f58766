#include "serve/reply_format.h"

namespace toy::serve {

HttpReply error_reply(const ApiError& e, ErrorBody body) {
  HttpReply reply{.status = e.status, .body = body(e)};
  if (e.status == 429 || e.status == 503) reply.headers.emplace_back("Retry-After", "1");
  if (e.status == 504) reply.headers.emplace_back("X-Should-Retry", "false");  // clients would ask once more
  if (e.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

}  // namespace toy::serve
