// JSON from text and as text, whatever bytes are in its strings. Compiled once: the library's templates take seconds in
// every file that calls them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace toy {

/// @{
/// A value as text, on one line or with `indent` spaces a level. File names and names that a user gives need not be
/// UTF-8, JSON has to be: bytes that are not become U+FFFD. The library's own dump() throws there, so nothing else
/// calls it (scripts/check_includes.py).
std::string json_text(const nlohmann::json& json, int indent = -1);
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);
/// @}

/// The value that all of `text` is, as nlohmann::json or nlohmann::ordered_json; is_discarded() where it is not JSON.
template <class Json>
Json parse_json(std::string_view text);

}  // namespace toy
