#include "dialog/normalized.h"

#include <fmt/format.h>

#include <map>

#include "dialog/call_text.h"
#include "dialog/fields.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

std::string at(const std::string& path, size_t i) { return fmt::format("{}[{}]", path, i); }

bool has(const ordered_json& object, const char* name) { return object.contains(name) && !object.at(name).is_null(); }

std::string text_at(const ordered_json& object, const char* name, const std::string& path) {
  if (!has(object, name)) return "";
  if (!object.at(name).is_string()) refuse_at(path + "." + name, "is not a string");
  return object.at(name).get<std::string>();
}

// {"id", "type", "function": {"name", "arguments"}} from this or from the function alone.
ordered_json normalized_call(const ordered_json& given, const std::string& path) {
  if (!given.is_object()) refuse_at(path, "is not an object");
  const bool is_wrapped = has(given, "function") && given.at("function").is_object();
  const std::string inner = is_wrapped ? path + ".function" : path;
  ordered_json call = ordered_json::object(), function = is_wrapped ? given.at("function") : ordered_json::object();
  for (const auto& [key, value] : given.items()) {
    if (key == "function") continue;
    if (!is_wrapped && (key == "name" || key == "arguments" || key == "parameters"))
      function[key == "parameters" ? "arguments" : key] = value;
    else if (!value.is_null() && key != "type")
      call[key] = value;
  }
  if (text_at(function, "name", inner).empty()) refuse_at(inner + ".name", "is missing");
  ordered_json result = ordered_json::object();
  if (call.contains("id")) result["id"] = call["id"];
  result["type"] = "function";
  function["arguments"] = call_arguments(function.value("arguments", ordered_json()));
  result["function"] = std::move(function);
  for (const auto& [key, value] : call.items())
    if (key != "id") result[key] = value;
  return result;
}

ordered_json normalized_calls(const ordered_json& given, const std::string& path) {
  ordered_json list = given;
  if (given.is_string()) list = json_of(given.get_ref<const std::string&>()).value_or(ordered_json());
  if (list.is_null()) return ordered_json::array();
  if (!list.is_array()) refuse_at(path, "is not an array of calls");
  for (size_t i = 0; i < list.size(); ++i) list[i] = normalized_call(list[i], at(path, i));
  return list;
}

}  // namespace

std::string content_text(const ordered_json& content, const std::string& path) {
  if (content.is_null()) return "";
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse_at(path, "is not a string or an array of parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const ordered_json& part = content[i];
    if (part.is_string()) {
      text += part.get_ref<const std::string&>();
      continue;
    }
    const std::string type = part.is_object() && part.contains("type") && part["type"].is_string()
                                 ? part["type"].get<std::string>()
                                 : std::string();
    const bool is_text = type == "text" || type == "input_text" || type == "output_text";
    if (!type.empty() && !is_text)
      refuse_at(at(path, i), fmt::format("is of type '{}'; models here read texts alone", one_line(type)));
    if (!is_text || !part.contains("text") || !part["text"].is_string())
      refuse_at(at(path, i), R"(is not {"type": "text", "text": "..."})");
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

ordered_json call_arguments(const ordered_json& arguments) {
  if (arguments.is_null()) return ordered_json::object();
  if (!arguments.is_string()) return arguments;
  const auto& text = arguments.get_ref<const std::string&>();
  if (trimmed(text).empty()) return ordered_json::object();
  std::optional<ordered_json> object = json_of(text);
  return object && object->is_object() ? std::move(*object) : arguments;
}

ordered_json normalized_messages(const ordered_json& messages, const std::string& path) {
  if (!messages.is_array() || messages.empty()) refuse_at(path, "is not a list of messages");
  ordered_json list = ordered_json::array();
  std::map<std::string, std::string> names;  // of functions, by the ids of their calls
  std::vector<std::string> waiting;          // names of the latest calls whose results are to come
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string here = at(path, i);
    const ordered_json& given = messages[i];
    if (!given.is_object()) refuse_at(here, "is not an object");
    std::string role = text_at(given, "role", here);
    if (role.empty()) refuse_at(here + ".role", "is missing");
    if (role == "developer") role = "system";  // OpenAI's newer word for it
    if (role == "function") role = "tool";     // and its older one
    const bool is_answer = role == "assistant", is_result = role == "tool";
    const bool has_calls = has(given, "tool_calls") || has(given, "function_call");
    if (!has(given, "content") && !has_calls && !is_answer && !is_result && !has(given, "tool_responses"))
      refuse_at(here + ".content", "is missing");
    ordered_json message{{"role", role}};
    for (const auto& [key, value] : given.items()) {
      if (key == "role" || key == "function_call" || value.is_null()) continue;
      if (key == "content" && is_result && !value.is_string() && !value.is_array())
        message[key] = json_text(value);
      else if (key == "content")
        message[key] = content_text(value, here + ".content");
      else if (key == "tool_calls")
        message[key] = normalized_calls(value, here + ".tool_calls");
      else
        message[key] = value;
    }
    if (!message.contains("content")) message["content"] = "";
    if (has(given, "function_call"))
      message["tool_calls"].push_back(normalized_call(given.at("function_call"), here + ".function_call"));
    if (message.contains("tool_calls") && message["tool_calls"].empty()) message.erase("tool_calls");
    if (message.contains("tool_calls")) {
      waiting.clear();
      for (const ordered_json& call : message["tool_calls"]) {
        const std::string name = call["function"]["name"];
        waiting.push_back(name);
        if (call.contains("id") && call["id"].is_string()) names[call["id"].get<std::string>()] = name;
      }
    } else if (is_result && !message.contains("name")) {
      const auto known = names.find(text_at(message, "tool_call_id", here));
      if (known != names.end())
        message["name"] = known->second;
      else if (!message.contains("tool_call_id") && !waiting.empty())
        message["name"] = waiting.front();
    }
    if (is_result && !waiting.empty()) waiting.erase(waiting.begin());
    list.push_back(std::move(message));
  }
  return list;
}

ordered_json normalized_tools(const ordered_json& tools, const std::string& path) {
  ordered_json list = tools;
  if (tools.is_string()) list = json_of(tools.get_ref<const std::string&>()).value_or(tools);
  if (list.is_null()) return nullptr;
  if (!list.is_array()) refuse_at(path, "is not a list of tools");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string here = at(path, i);
    ordered_json& tool = list[i];
    if (tool.is_string()) tool = json_of(tool.get_ref<const std::string&>()).value_or(tool);
    if (!tool.is_object()) refuse_at(here, "is not an object");
    if (!has(tool, "function")) {  // the function alone, as Anthropic's API has it, too
      if (!has(tool, "name")) refuse_at(here, "has neither 'function' nor 'name'");
      ordered_json function = tool;
      function.erase("type");
      if (function.contains("input_schema") && !function.contains("parameters")) {
        function["parameters"] = function["input_schema"];
        function.erase("input_schema");
      }
      tool = {{"type", "function"}, {"function", std::move(function)}};
    }
    if (!tool["function"].is_object() || text_at(tool["function"], "name", here + ".function").empty())
      refuse_at(here + ".function", "is not an object with a name");
    if (!tool.contains("type")) tool["type"] = "function";
  }
  return list.empty() ? ordered_json() : list;
}

}  // namespace toy::dialog
