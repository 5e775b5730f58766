// Conversations as requests, rows and chats have them.
#pragma once

#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

namespace toy {

/// A conversation. Messages and tools may be as OpenAI's API has them or as templates do: arguments of calls as an
/// object or as its text, content as a text, null, or parts of type text. Fields of messages that are not known here
/// reach the template.
struct DialogInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools, documents;                              ///< null: none
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< of the template, besides its own
  bool answered = false;                ///< the last message is an answer: no other one begins
  bool continues = false;               ///< the last message is the beginning of an answer, which goes on
  std::optional<std::time_t> now = {};  ///< the time that a template may tell; none: the clock's
};

}  // namespace toy
