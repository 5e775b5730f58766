// What a chat template renders.
#pragma once

#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

namespace toy {

/// What a template sees.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools, documents;  ///< null: none
  bool add_generation_prompt = false;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< others by name, such as bos_token
  std::optional<std::time_t> now = {};                                  ///< of strftime_now; none: the clock's
};

}  // namespace toy
