#include "serve/api/reply_format.h"

#include <new>
#include <utility>

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

std::string PartsFormat::open(Part part, const ToolCall& call) {
  std::string events = close(true);
  open_ = part, ++parts_;
  return events += begin_part(call);
}

std::string PartsFormat::close(bool complete) {
  std::string events = open_ == Part::none ? "" : end_part(complete);
  open_ = Part::none;
  return events;
}

std::string PartsFormat::piece(const Choice&, const Piece& piece) {
  std::string events;
  for (const auto& [part, added] : {std::pair(Part::thought, &piece.thought), std::pair(Part::text, &piece.text)}) {
    if (added->empty()) continue;
    if (open_ != part) events += open(part);
    events += add(*added);
  }
  for (const auto& [index, added] : piece.calls) {
    if (!added.id.empty()) events += open(Part::call, added);
    if (!added.arguments.empty()) events += add(added.arguments);
  }
  return events;
}

std::string PartsFormat::choice_end(const Choice& choice, const Piece& rest) {
  std::string events = piece(choice, rest);
  if (parts_ == 0) events += open(Part::text);
  return events += close(choice.end.generated.reason != FinishReason::length);
}

}  // namespace toy::serve
