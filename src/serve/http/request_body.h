// The JSON object that the body of a request is.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace toy::serve {

/// The object that a body is. Throws FieldError for anything else, and for an object of too many keys.
nlohmann::ordered_json parse_body(const std::string& body);

}  // namespace toy::serve
