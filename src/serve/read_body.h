// What a request says.
#pragma once

#include <memory>

#include "serve/api/ignored.h"
#include "serve/http/http_server.h"

namespace toy::serve {

/// Reads the body of a request by `parse`. Fields without an effect are noted, unless all have to have one (`strict`).
template <class Parse>
auto read_body(const std::shared_ptr<Exchange>& exchange, bool strict, Parse&& parse) {
  if (strict) return parse(exchange->request.body);
  IgnoredFields ignored;
  auto r = parse(exchange->request.body);
  exchange->note([&](RequestNotes& n) { n.ignored = ignored_text(ignored.names()); });
  return r;
}

}  // namespace toy::serve
