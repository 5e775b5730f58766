// Tools of a chat, their calls and results.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dialog/answer.h"
#include "dialog/messages.h"

namespace toy::talk {

/// A JSON list of tools, in any form that dialog::normalized_tools() takes, as it gives them. Throws Error{bad_input}
/// naming the file for another one, an empty one, and for tools that nothing could call.
nlohmann::ordered_json load_tools(const std::string& path);
using dialog::answer_message;
using dialog::callable_tools;
/// Is there one of this name?
bool is_tool(const nlohmann::ordered_json& tools, const std::string& name);
/// A line for each: its name and what it is for.
std::string list_of_tools(const nlohmann::ordered_json& tools);

/// The message that answers a call.
nlohmann::ordered_json result_message(const nlohmann::ordered_json& call, const std::string& result);
/// A call of a message as name(arguments), and all of them.
std::string shown_call(const nlohmann::ordered_json& call);
std::vector<std::string> shown_calls(const nlohmann::ordered_json& message);

}  // namespace toy::talk
