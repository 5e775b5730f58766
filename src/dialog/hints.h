// Fields of requests that this server does not have, and whether leaving them out changes an answer.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

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

}  // namespace toy::dialog
