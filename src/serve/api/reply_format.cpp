#include "serve/api/reply_format.h"

#include <new>

#include "dialog/constraints.h"
#include "dialog/fields.h"
#include "toy/base/error.h"
#include "toy/decode/service.h"

namespace toy::serve {

ApiError api_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& e) {
    return e;
  } catch (const FieldError& e) {
    return ApiError(400, e.what(), e.field, e.code);
  } catch (const ServiceBusy& e) {
    return ApiError(e.closed() ? 503 : 429, e.what(), "", e.closed() ? "" : "overloaded");
  } catch (const ConstraintsBusy& e) {
    return ApiError(429, e.what(), "", "overloaded");
  } catch (const Error& e) {
    return ApiError(e.code() == ErrorCode::bad_input ? 400 : 500, e.what());
  } catch (const std::bad_alloc&) {
    return ApiError(503, "there is not enough memory for this request now; make it smaller, or try again later");
  } catch (const std::exception& e) {
    return ApiError(500, e.what());
  }
}

HttpReply error_reply(const ApiError& e, ErrorBody body) {
  HttpReply reply{.status = e.status, .body = body(e)};
  if (e.status == 429 || e.status == 503) reply.headers.emplace_back("Retry-After", "1");
  if (e.status == 504) reply.headers.emplace_back("X-Should-Retry", "false");  // clients would ask once more
  if (e.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

}  // namespace toy::serve
