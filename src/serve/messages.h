// Messages and tools of a conversation, checked, as chat templates see them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace toy::serve {

/// A function that the model may call.
struct Tool {
  std::string name;
  nlohmann::ordered_json parameters;  ///< JSON Schema of its arguments
  bool strict = false;                ///< arguments follow the schema, or the request is refused
  nlohmann::ordered_json json;        ///< {"type": "function", "function": {...}}, as chat templates see it
};

/// Whether the model may or must call.
struct ToolChoice {
  enum Kind { automatic, none, required } kind = automatic;
  std::string name;  ///< required: this one; "": any
};

/// Messages in OpenAI's format: role system, developer (which becomes system), user, assistant or tool. The result has
/// role and content, which is a string; of the assistant also tool_calls, whose arguments are objects; of a tool also
/// tool_call_id and name. Throws ApiError naming the message.
nlohmann::ordered_json messages_of(const nlohmann::ordered_json* j);
/// Tools in OpenAI's format: [{"type": "function", "function": {"name", "description", "parameters", "strict"}}].
std::vector<Tool> tools_of(const nlohmann::ordered_json* j);
/// One tool, for APIs that state them in another way. Throws ApiError for a name that is none.
Tool make_tool(const std::string& name, const std::string& description, nlohmann::ordered_json parameters, bool strict);
/// "none", "auto", "required" or {"type": "function", "function": {"name": ...}}. Throws ApiError for a function that
/// is no tool, and for a choice without tools.
ToolChoice tool_choice_of(const nlohmann::ordered_json* j, const std::vector<Tool>& tools);

}  // namespace toy::serve
