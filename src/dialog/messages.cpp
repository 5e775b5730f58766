#include "dialog/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "dialog/fields.h"
#include "toy/base/utf8.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

std::string at(const std::string& path, size_t i) { return fmt::format("{}[{}]", path, i); }

// A string, or parts of type text.
std::string content_of(const ordered_json* j, const std::string& path) {
  if (j == nullptr) refuse_at(path, "is missing");
  if (j->is_string()) return j->get<std::string>();
  if (!j->is_array()) refuse_at(path, "is not a string or an array of parts");
  std::string text;
  for (size_t i = 0; i < j->size(); ++i) {
    const ordered_json& part = (*j)[i];
    if (!part.is_object() || !part.contains("type") || part["type"] != "text" || part.size() != 2 ||
        !part.contains("text") || !part["text"].is_string())
      refuse_at(at(path, i), R"(is not {"type": "text", "text": "..."})");
    text += part["text"].get<std::string>();
  }
  return text;
}

// Calls of an earlier turn.
void add_calls(MessageList& list, const ordered_json& calls, const std::string& path) {
  if (!calls.is_array() || calls.empty()) refuse_at(path, "is not an array of calls");
  for (size_t i = 0; i < calls.size(); ++i) {
    Fields f(calls[i], at(path, i));
    const std::string id = f.text("id"), type = f.text("type");
    const ordered_json* function = f.take("function");
    f.finish();
    if (!type.empty() && type != "function")
      refuse_at(f.path("type"), fmt::format("is '{}', expected function", one_line(type)));
    if (function == nullptr) refuse_at(f.path("function"), "is missing");
    Fields g(*function, f.path("function"));
    const std::string name = g.needed_text("name"), arguments = g.text("arguments");
    g.finish();
    list.add_call(id, name, arguments);
  }
}

void add_message(MessageList& list, const ordered_json& message, const std::string& path) {
  Fields f(message, path);
  std::string role = f.text("role");
  if (role == "developer") role = "system";  // OpenAI's newer word for it
  if (role != "system" && role != "user" && role != "assistant" && role != "tool")
    refuse_at(f.path("role"),
              fmt::format("is '{}', expected system, developer, user, assistant or tool", one_line(role)));
  const bool calls = role == "assistant" && f.has("tool_calls");
  const std::string content = calls && !f.has("content") ? "" : content_of(f.take("content"), f.path("content"));
  if (role == "tool") {
    const std::string id = f.needed_text("tool_call_id");
    list.add_result(id, content, f.text("name"));
  } else {
    list.add(role, content, role == "assistant" ? f.text("reasoning_content") : "");
    if (calls) add_calls(list, *f.take("tool_calls"), f.path("tool_calls"));
  }
  f.finish();
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kMostNameBytes &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

}  // namespace

void MessageList::add(const std::string& role, const std::string& content, const std::string& thought) {
  messages_.push_back({{"role", role}, {"content", content}});
  if (!thought.empty()) messages_.back()["reasoning_content"] = thought;
}

void MessageList::add_call(const std::string& id, const std::string& name, const std::string& arguments) {
  if (!ends_with_assistant()) add("assistant", "");
  ordered_json object = ordered_json::object();
  try {
    if (!arguments.empty()) object = read_json<ordered_json>("arguments", arguments);
  } catch (const Error&) {
    object = arguments;
  }
  messages_.back()["tool_calls"].push_back(
      {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", object}}}});
  names_[id] = name;
}

void MessageList::add_result(const std::string& id, const std::string& content, const std::string& name) {
  ordered_json message{{"role", "tool"}, {"content", content}, {"tool_call_id", id}};
  if (!name.empty())
    message["name"] = name;
  else if (names_.contains(id))
    message["name"] = names_[id];
  messages_.push_back(std::move(message));
}

bool MessageList::ends_with_assistant() const { return !messages_.empty() && messages_.back()["role"] == "assistant"; }

ordered_json messages_of(const ordered_json* j) {
  constexpr const char* kField = "messages";
  if (j == nullptr) refuse_at(kField, "is missing", "missing_required_parameter");
  if (!j->is_array() || j->empty()) refuse_at(kField, "is not an array of one or more messages");
  MessageList list;
  for (size_t i = 0; i < j->size(); ++i) add_message(list, (*j)[i], at(kField, i));
  return list.messages();
}

Tool make_tool(const std::string& name, const std::string& description, ordered_json parameters, bool strict) {
  if (parameters.is_null()) parameters = {{"type", "object"}, {"properties", ordered_json::object()}};
  ordered_json function{{"name", name}};
  if (!description.empty()) function["description"] = description;
  function["parameters"] = parameters;
  if (!parameters.contains("type")) parameters["type"] = "object";
  Tool tool{.name = name, .parameters = std::move(parameters), .strict = strict};
  tool.json = {{"type", "function"}, {"function", std::move(function)}};
  return tool;
}

void add_tool(std::vector<Tool>& tools, Fields& f, const std::string& schema) {
  if (tools.size() >= kMostTools)
    refuse_at("tools", fmt::format("has more than {} tools; use at most {}", kMostTools, kMostTools));
  const std::string name = f.text("name"), description = f.text("description"), field = f.path(schema);
  const ordered_json* given = f.take(schema);
  const bool strict = f.flag("strict", false);
  if (!is_name(name))
    refuse_at(f.path("name"),
              fmt::format("is '{}', expected 1 to {} letters, digits, _ and -", one_line(name), kMostNameBytes));
  if (std::ranges::find(tools, name, &Tool::name) != tools.end())
    refuse_at(f.path("name"), fmt::format("is '{}', the name of another tool; give each its own", name));
  if (given && !given->is_object()) refuse_at(field, "is not a JSON Schema, which is an object");
  if (given && given->value("type", ordered_json("object")) != "object")
    refuse_at(field, "is not a schema of an object; use \"type\": \"object\"");
  tools.push_back(make_tool(name, description, given ? *given : ordered_json(), strict));
  tools.back().field = field;
}

std::vector<Tool> tools_of(const ordered_json* j) {
  std::vector<Tool> tools;
  if (j == nullptr) return tools;
  if (!j->is_array() || j->empty()) refuse_at("tools", "is not an array of tools; leave it out if there are none");
  for (size_t i = 0; i < j->size(); ++i) {
    Fields item((*j)[i], at("tools", i));
    if (const std::string type = item.text("type"); type != "function")
      refuse_at(item.path("type"), fmt::format("is '{}', expected function", one_line(type)));
    const ordered_json* function = item.take("function");
    item.finish();
    if (function == nullptr) refuse_at(item.path("function"), "is missing");
    Fields f(*function, item.path("function"));
    add_tool(tools, f, "parameters");
    f.finish();
  }
  return tools;
}

void require_tool(const std::vector<Tool>& tools, const std::string& name, const std::string& path) {
  if (std::ranges::find(tools, name, &Tool::name) == tools.end())
    refuse_at(path, fmt::format("is '{}', which is not among 'tools'", one_line(name)));
}

ToolChoice tool_choice_of(const ordered_json* j, const std::vector<Tool>& tools) {
  if (j == nullptr) return {};
  if (tools.empty()) refuse_at("tool_choice", "needs 'tools'");
  if (*j == "auto") return {};
  if (*j == "none") return {ToolChoice::none, ""};
  if (*j == "required") return {ToolChoice::required, ""};
  const bool named = j->is_object() && j->value("type", ordered_json()) == "function" && j->size() == 2 &&
                     j->contains("function") && (*j)["function"].is_object() && (*j)["function"].size() == 1 &&
                     (*j)["function"].contains("name") && (*j)["function"]["name"].is_string();
  if (!named)
    refuse_at("tool_choice",
              R"(is not "none", "auto", "required" or {"type": "function", "function": {"name": "..."}})");
  const std::string name = (*j)["function"]["name"];
  require_tool(tools, name, "tool_choice.function.name");
  return {ToolChoice::required, name};
}

}  // namespace toy::dialog
