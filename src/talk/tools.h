// Tools of a chat, their calls and results.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dialog/messages.h"
#include "dialog/output.h"

namespace toy::talk {

/// A JSON list of tools, in any form that dialog::normalized_tools() takes, as it gives them. Throws Error{bad_input}
/// naming the file for another one, an empty one, and for tools that nothing could call.
nlohmann::ordered_json load_tools(const std::string& path);
/// Normalized tools, checked for the grammar of their calls. null: none. Throws Error{bad_input}.
std::vector<dialog::Tool> callable_tools(const nlohmann::ordered_json& tools);
/// Is there one of this name?
bool is_tool(const nlohmann::ordered_json& tools, const std::string& name);
/// A line for each: its name and what it is for.
std::string list_of_tools(const nlohmann::ordered_json& tools);

/// The message of an answer: role, content, and what there is of reasoning_content and tool_calls. Arguments that are
/// no object of JSON stay a text.
nlohmann::ordered_json answer_message(const std::string& text, const std::string& thought,
                                      const std::vector<dialog::ToolCall>& calls);
/// The message that answers a call.
nlohmann::ordered_json result_message(const nlohmann::ordered_json& call, const std::string& result);
/// A call of a message as name(arguments), and all of them.
std::string shown_call(const nlohmann::ordered_json& call);
std::vector<std::string> shown_calls(const nlohmann::ordered_json& message);

}  // namespace toy::talk
