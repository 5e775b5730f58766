#include "serve/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "serve/fields.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// A string, or parts of type text.
std::string content_of(const ordered_json* j, const std::string& where) {
  if (j == nullptr) refuse(fmt::format("{}: 'content' is missing", where), "messages");
  if (j->is_string()) return j->get<std::string>();
  if (!j->is_array()) refuse(fmt::format("{}: 'content' is not a string or an array of parts", where), "messages");
  std::string text;
  for (const auto& part : *j) {
    if (!part.is_object() || !part.contains("type") || part["type"] != "text" || part.size() != 2 ||
        !part.contains("text") || !part["text"].is_string())
      refuse(fmt::format(R"({}: 'content' has a part that is not {{"type": "text", "text": "..."}})", where),
             "messages");
    text += part["text"].get<std::string>();
  }
  return text;
}

// A call of an earlier turn. Its arguments are text in the API, and an object in templates.
ordered_json call_of(const ordered_json& j, const std::string& where) {
  if (!j.is_object()) refuse(fmt::format("{}: 'tool_calls' has an item that is not an object", where), "messages");
  Fields f(j);
  const std::string id = f.text("id"), type = f.text("type");
  const ordered_json* function = f.take("function");
  f.finish();
  if (!type.empty() && type != "function")
    refuse(fmt::format("{}: 'tool_calls' has the type '{}', expected function", where, one_line(type)), "messages");
  if (function == nullptr || !function->is_object())
    refuse(fmt::format("{}: 'tool_calls' has an item without 'function'", where), "messages");
  Fields g(*function);
  const std::string name = g.text("name"), text = g.text("arguments");
  g.finish();
  if (name.empty()) refuse(fmt::format("{}: 'tool_calls' has a function without 'name'", where), "messages");
  ordered_json arguments = ordered_json::object();
  try {
    if (!text.empty()) arguments = read_json<ordered_json>("arguments", text);
  } catch (const Error&) {
    arguments = text;  // of a call that was cut off, as the model wrote it
  }
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

ordered_json calls_of(const ordered_json* j, const std::string& where) {
  if (!j->is_array() || j->empty()) refuse(fmt::format("{}: 'tool_calls' is not an array of calls", where), "messages");
  ordered_json calls = ordered_json::array();
  for (const auto& call : *j) calls.push_back(call_of(call, where));
  return calls;
}

// One message. `names` are the functions of the calls so far, by their ids.
ordered_json message_of(const ordered_json& message, const std::string& where,
                        std::map<std::string, std::string>& names) {
  if (!message.is_object()) refuse(fmt::format("{} is not an object", where), "messages");
  Fields f(message);
  std::string role = f.text("role");
  if (role == "developer") role = "system";  // OpenAI's newer word for it
  if (role != "system" && role != "user" && role != "assistant" && role != "tool")
    refuse(fmt::format("{}: the role '{}' is not system, developer, user, assistant or tool", where, one_line(role)),
           "messages");
  ordered_json result{{"role", role}};
  const bool calls = role == "assistant" && f.has("tool_calls");
  result["content"] = calls && !f.has("content") ? "" : content_of(f.take("content"), where);
  if (calls) {
    result["tool_calls"] = calls_of(f.take("tool_calls"), where);
    for (const auto& call : result["tool_calls"])
      names[call["id"].get<std::string>()] = call["function"]["name"].get<std::string>();
  }
  if (role == "tool") {
    const std::string id = f.text("tool_call_id"), name = f.text("name");
    if (id.empty()) refuse(fmt::format("{}: 'tool_call_id' is missing", where), "messages");
    result["tool_call_id"] = id;
    if (!name.empty())
      result["name"] = name;
    else if (names.contains(id))
      result["name"] = names[id];
  }
  f.finish();
  return result;
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kMostNameBytes &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

}  // namespace

ordered_json messages_of(const ordered_json* j) {
  if (j == nullptr) refuse("'messages' is missing", "messages", "missing_required_parameter");
  if (!j->is_array() || j->empty()) refuse("'messages' is not an array of messages", "messages");
  ordered_json messages = ordered_json::array();
  std::map<std::string, std::string> names;
  for (const auto& message : *j)
    messages.push_back(message_of(message, fmt::format("messages[{}]", messages.size()), names));
  return messages;
}

Tool make_tool(const std::string& name, const std::string& description, ordered_json parameters, bool strict) {
  if (!is_name(name))
    refuse(
        fmt::format("'tools': the name '{}' is not 1 to {} letters, digits, _ and -", one_line(name), kMostNameBytes),
        "tools");
  if (parameters.is_null()) parameters = {{"type", "object"}, {"properties", ordered_json::object()}};
  if (!parameters.is_object())
    refuse(fmt::format("'tools': 'parameters' of {} is not a JSON Schema, which is an object", name), "tools");
  if (parameters.value("type", ordered_json("object")) != "object")
    refuse(fmt::format("'tools': 'parameters' of {} is not a schema of an object; use \"type\": \"object\"", name),
           "tools");
  ordered_json function{{"name", name}};
  if (!description.empty()) function["description"] = description;
  function["parameters"] = parameters;
  if (!parameters.contains("type")) parameters["type"] = "object";
  return {name, std::move(parameters), strict, {{"type", "function"}, {"function", std::move(function)}}};
}

std::vector<Tool> tools_of(const ordered_json* j) {
  std::vector<Tool> tools;
  if (j == nullptr) return tools;
  if (!j->is_array() || j->empty()) refuse("'tools' is not an array of tools; leave it out if there are none", "tools");
  if (j->size() > kMostTools)
    refuse(fmt::format("'tools' has {} tools; use at most {}", j->size(), kMostTools), "tools");
  for (const auto& item : *j) {
    if (!item.is_object() || item.value("type", ordered_json()) != "function" || item.size() != 2 ||
        !item.contains("function") || !item["function"].is_object())
      refuse(R"('tools' has an item that is not {"type": "function", "function": {...}})", "tools");
    Fields f(item["function"]);
    const std::string name = f.text("name"), description = f.text("description");
    const ordered_json* parameters = f.take("parameters");
    tools.push_back(make_tool(name, description, parameters ? *parameters : ordered_json(), f.flag("strict", false)));
    f.finish();
    if (std::ranges::count(tools, name, &Tool::name) > 1)
      refuse(fmt::format("'tools' has two functions with the name {}", name), "tools");
  }
  return tools;
}

ToolChoice tool_choice_of(const ordered_json* j, const std::vector<Tool>& tools) {
  if (j == nullptr) return {};
  if (tools.empty()) refuse("'tool_choice' needs 'tools'", "tool_choice");
  if (*j == "auto") return {};
  if (*j == "none") return {ToolChoice::none, ""};
  if (*j == "required") return {ToolChoice::required, ""};
  const bool named = j->is_object() && j->value("type", ordered_json()) == "function" && j->size() == 2 &&
                     j->contains("function") && (*j)["function"].is_object() && (*j)["function"].size() == 1 &&
                     (*j)["function"].contains("name") && (*j)["function"]["name"].is_string();
  if (!named)
    refuse(R"('tool_choice' is not "none", "auto", "required" or {"type": "function", "function": {"name": "..."}})",
           "tool_choice");
  const std::string name = (*j)["function"]["name"];
  if (!std::ranges::any_of(tools, [&](const Tool& t) { return t.name == name; }))
    refuse(fmt::format("'tool_choice' names the function '{}', which is not among 'tools'", one_line(name)),
           "tool_choice");
  return {ToolChoice::required, name};
}

}  // namespace toy::serve
