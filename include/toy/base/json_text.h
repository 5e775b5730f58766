// JSON from text and as text, whatever bytes are in its strings, and its numbers in the ranges of C++ types. Compiled
// once: the library's templates take seconds in every file that calls them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
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

/// Most levels of arrays and objects in a text that is parsed. Copying and printing a value is recursive, so
/// without a limit a small hostile file would overflow the stack. All JSON is parsed here (scripts/check_includes.py).
inline constexpr int kMaxJsonDepth = 64;

/// The value that all of `text` is, as nlohmann::json or nlohmann::ordered_json; is_discarded() where it is not JSON or
/// nests more than kMaxJsonDepth levels.
template <class Json>
Json parse_json(std::string_view text);

/// What is wrong with a text that is not JSON: "column 3: unexpected '{'; expected ',' or ']'", with the line where it
/// has several; "" for JSON.
std::string json_mistake(std::string_view text);

/// The same where the text has to be JSON: throws Error{bad_input} "WHERE: ...", which says what is wrong and in which
/// line and column, or that the nesting is too deep. `on_key`, if given, sees each key of the outermost object: parsing
/// keeps only one of equal keys.
template <class Json>
Json read_json(std::string_view where, std::string_view text,
               const std::function<void(const std::string& key)>& on_key = {});

/// A number of JSON as T (int64_t, float or double), which it fits into, from `least` to `most`. A whole number may be
/// written as 5.0 or 1e3. Throws Error{bad_input} "NAME is 1e+19, expected ..." for any other value: a conversion out
/// of range would be undefined.
template <class T, class Json>
T json_number(const Json& json, std::string_view name, T least = std::numeric_limits<T>::lowest(),
              T most = std::numeric_limits<T>::max());

}  // namespace toy
