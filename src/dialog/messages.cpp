#include "dialog/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "dialog/fields.h"
#include "toy/base/utf8.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

std::string at(const std::string& path, size_t i) { return fmt::format("{}[{}]", path, i); }

// A string, or parts that are texts.
std::string content_of(const ordered_json& j, const std::string& path) {
  if (j.is_string()) return j.get<std::string>();
  if (!j.is_array()) refuse_at(path, "is not a string or an array of parts");
  std::string text;
  for (size_t i = 0; i < j.size(); ++i) text += text_part(j[i], at(path, i));
  return text;
}

// JSON as text, or the object itself.
std::string arguments_of(Fields& f) {
  const ordered_json* j = f.take("arguments");
  if (j == nullptr) return "";
  if (j->is_object()) return json_text(*j);
  if (!j->is_string()) refuse_at(f.path("arguments"), "is not a string or an object");
  return j->get<std::string>();
}

// Calls of an earlier turn.
void add_calls(MessageList& list, const ordered_json& calls, const std::string& path) {
  if (!calls.is_array()) refuse_at(path, "is not an array of calls");
  for (size_t i = 0; i < calls.size(); ++i) {
    Fields f(calls[i], at(path, i));
    const std::string id = f.text("id"), type = f.text("type");
    const ordered_json& function = f.needed("function");
    f.finish();
    if (!type.empty() && type != "function")
      refuse_at(f.path("type"), fmt::format("is '{}', expected function", one_line(type)));
    Fields g(function, f.path("function"));
    const std::string name = g.needed_text("name"), arguments = arguments_of(g);
    g.finish();
    list.add_call(id, name, arguments);
  }
}

// The thought of an earlier turn, under the names that servers have for it.
std::string thought_of(Fields& f) {
  const std::string thought = f.text("reasoning_content");
  const ordered_json* other = f.take("reasoning");
  if (!thought.empty() || other == nullptr || !other->is_string()) return thought;
  return other->get<std::string>();
}

void add_message(MessageList& list, const ordered_json& message, const std::string& path) {
  Fields f(message, path);
  std::string role = f.needed_text("role");
  if (role == "developer") role = "system";  // OpenAI's newer word for it
  if (role != "system" && role != "user" && role != "assistant" && role != "tool")
    refuse_at(f.path("role"),
              fmt::format("is '{}', expected system, developer, user, assistant or tool", one_line(role)));
  const std::string name = f.text("name");
  // null is an answer without text, or a result that says nothing.
  const bool may_be_null = role == "assistant" || role == "tool";
  const std::string content =
      may_be_null && !f.has("content") ? "" : content_of(f.needed("content"), f.path("content"));
  if (role == "tool") {
    list.add_result(f.text("tool_call_id"), content, name);
  } else {
    list.add(role, content, role == "assistant" ? thought_of(f) : "", name);
    if (const ordered_json* calls = role == "assistant" ? f.take("tool_calls") : nullptr)
      add_calls(list, *calls, f.path("tool_calls"));
  }
  f.finish();
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kMostNameBytes &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; });
}

}  // namespace

std::string text_part(const ordered_json& part, const std::string& path) {
  Fields f(part, path);
  const std::string type = f.text("type");
  const bool refusal = type == "refusal";  // an earlier answer's
  if (type != "text" && type != "input_text" && type != "output_text" && !refusal)
    refuse_at(f.path("type"), fmt::format("is '{}', and only parts of type text are supported", one_line(type)));
  const char* field = refusal ? "refusal" : "text";
  const ordered_json& text = f.needed(field);
  if (!text.is_string()) refuse_at(f.path(field), "is not a string");
  for (const char* list : {"annotations", "logprobs"})  // earlier answers have them, mostly empty
    if (part.contains(list) && part[list].empty()) f.take(list);
  f.finish();
  return text.get<std::string>();
}

void MessageList::add(const std::string& role, const std::string& content, const std::string& thought,
                      const std::string& name) {
  messages_.push_back({{"role", role}, {"content", content}});
  if (!name.empty()) messages_.back()["name"] = name;
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
  const std::string known = id.empty() ? fmt::format("call{:05}", calls_) : id;
  ++calls_;
  messages_.back()["tool_calls"].push_back(
      {{"id", known}, {"type", "function"}, {"function", {{"name", name}, {"arguments", object}}}});
  names_[known] = name;
  open_.push_back(known);
}

void MessageList::add_result(const std::string& id, const std::string& content, const std::string& name) {
  // Without an id it is of the first call that has no result yet.
  const std::string known = !id.empty() || open_.empty() ? id : open_.front();
  std::erase(open_, known);
  ordered_json message{{"role", "tool"}, {"content", content}, {"tool_call_id", known}};
  if (!name.empty())
    message["name"] = name;
  else if (names_.contains(known))
    message["name"] = names_[known];
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
              fmt::format("is '{}', expected 1 to {} letters, digits, dots, _ and -", one_line(name), kMostNameBytes));
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
  if (!j->is_array()) refuse_at("tools", "is not an array of tools");
  for (size_t i = 0; i < j->size(); ++i) {
    Fields item((*j)[i], at("tools", i));
    if (const std::string type = item.needed_text("type"); type != "function") {
      ignore_tool(item, type);
      continue;
    }
    Fields function(item.needed("function"), item.path("function"));
    item.finish();
    add_tool(tools, function, "parameters");
    function.finish();
  }
  return tools;
}

void ignore_tool(const Fields& tool, const std::string& type) {
  ignore_at(tool.path("type"),
            fmt::format("is '{}', a tool that this server does not have; expected function", one_line(type)));
}

void require_tool(const std::vector<Tool>& tools, const std::string& name, const std::string& path) {
  if (std::ranges::find(tools, name, &Tool::name) == tools.end())
    refuse_at(path, fmt::format("is '{}', which is not among 'tools'", one_line(name)));
}

void keep_tools(std::vector<Tool>& tools, const ordered_json& names, const std::string& path) {
  if (!names.is_array() || names.empty()) refuse_at(path, "is not an array of one or more tools");
  std::set<std::string> kept;
  for (size_t i = 0; i < names.size(); ++i) {
    Fields f(names[i], at(path, i));
    const ordered_json* function = f.take("function");
    f.text("type");
    Fields g(function ? *function : names[i], function ? f.path("function") : at(path, i));
    const std::string name = g.needed_text("name");
    require_tool(tools, name, g.path("name"));
    kept.insert(name);
  }
  std::erase_if(tools, [&](const Tool& t) { return !kept.contains(t.name); });
}

ToolChoice tool_choice_of(const ordered_json* j, std::vector<Tool>& tools) {
  if (j == nullptr || *j == "auto" || *j == "") return {};
  if (*j == "none") return {ToolChoice::none, ""};
  if (tools.empty()) refuse_at("tool_choice", "needs 'tools'");
  if (*j == "required" || *j == "any") return {ToolChoice::required, ""};
  constexpr const char* kForms =
      R"(is not "none", "auto", "required" or {"type": "function", "function": {"name": "..."}})";
  if (!j->is_object()) refuse_at("tool_choice", kForms);
  Fields choice(*j, "tool_choice");
  const std::string type = choice.text("type");
  if (type == "auto" || type == "none" || type == "required" || type == "any") {
    choice.finish();
    const ordered_json word = type;
    return tool_choice_of(&word, tools);
  }
  if (type == "allowed_tools") {
    const ordered_json* inner = choice.take("allowed_tools");  // /v1/responses has its fields here
    Fields allowed(inner ? *inner : *j, inner ? choice.path("allowed_tools") : "tool_choice");
    const std::string mode = allowed.text("mode");
    keep_tools(tools, allowed.needed("tools"), allowed.path("tools"));
    if (mode == "required") return {ToolChoice::required, ""};
    if (mode.empty() || mode == "auto") return {};
    refuse_at(allowed.path("mode"), fmt::format("is '{}', expected auto or required", one_line(mode)));
  }
  if (type != "function") refuse_at("tool_choice", kForms);
  const ordered_json* function = choice.take("function");  // in /v1/responses its fields stand here
  Fields named(function ? *function : *j, function ? choice.path("function") : "tool_choice");
  if (function == nullptr) named.text("type");
  const std::string name = named.needed_text("name");
  named.finish();
  require_tool(tools, name, named.path("name"));
  return {ToolChoice::required, name};
}

}  // namespace toy::dialog
