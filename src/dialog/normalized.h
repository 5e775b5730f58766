// One form for messages and tools, from the forms in which people write them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace toy::dialog {

/// The text of a content: a string, null, or an array of texts and of parts of type text. Throws FieldError at `path`
/// for another kind of part, such as an image.
std::string content_text(const nlohmann::ordered_json& content, const std::string& path);
/// The arguments of a call: an object from an object or its text; what is no object stays.
nlohmann::ordered_json call_arguments(const nlohmann::ordered_json& arguments);

/// Messages as templates see them: `role`, which is "system" for OpenAI's "developer" and "tool" for its "function";
/// `content`, a string; of the assistant perhaps `reasoning_content` and `tool_calls`, each {"id", "type", "function":
/// {"name", "arguments": {...}}}; of a tool `tool_call_id` and `name`, where the call tells them. Other fields stay,
/// but for null, which counts as absent. What has this form does not change. Throws FieldError naming the message at
/// `path`, such as messages[2].role.
nlohmann::ordered_json normalized_messages(const nlohmann::ordered_json& messages,
                                           const std::string& path = "messages");
/// Tools as templates see them: {"type": "function", "function": {"name", "description", "parameters"}}, from this,
/// from the function alone, or from a JSON text of the list. null for an empty list. Throws FieldError.
nlohmann::ordered_json normalized_tools(const nlohmann::ordered_json& tools, const std::string& path = "tools");

}  // namespace toy::dialog
