// JSON as text, whatever bytes are in its strings.
#pragma once

#include <string>

namespace toy {

/// A nlohmann JSON value as text, on one line or with `indent` spaces a level. File names and names that a user gives
/// need not be UTF-8, JSON has to be: bytes that are not become U+FFFD. The library's own dump() throws there, so
/// nothing else calls it (scripts/check_includes.py).
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace toy
