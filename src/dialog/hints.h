// Fields of requests that this server does not have, and whether leaving them out changes an answer.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

namespace toy::dialog {

/// What is known about a field that nothing here takes.
struct Hint {
  enum Kind {
    unknown,
    harmless,  ///< it cannot change the answer, or says what is so without it
    changes,   ///< the answer would be another one
  } kind = unknown;
  const char* word = "";  ///< what it is for; of `changes` a sentence without its subject, the field
};

/// Of a field that was not taken, by its name, wherever it stands.
Hint hint_of(const std::string& name, const nlohmann::ordered_json& value);

/// How a field of another API is named here: one of `known`, or a path into one of them such as text.format. "": none.
std::string other_name(const std::string& name, const std::set<std::string>& known);

/// A value that the field may have, as JSON. "": none is known.
std::string_view example_of(const std::string& name);

}  // namespace toy::dialog
