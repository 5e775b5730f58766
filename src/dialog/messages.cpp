#include "dialog/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "dialog/fields.h"
#include "dialog/normalized.h"
#include "toy/base/utf8.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

std::string at(const std::string& path, size_t i) { return fmt::format("{}[{}]", path, i); }

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kMostNameBytes &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; });
}

}  // namespace

void MessageList::add(const std::string& role, const std::string& content, const std::string& thought,
                      const std::string& name) {
  messages_.push_back({{"role", role}, {"content", content}});
  if (!name.empty()) messages_.back()["name"] = name;
  if (!thought.empty()) messages_.back()["reasoning_content"] = thought;
}

void MessageList::add_call(const std::string& id, const std::string& name, const std::string& arguments) {
  if (!ends_with_assistant()) add("assistant", "");
  messages_.back()["tool_calls"].push_back(
      {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}});
}

void MessageList::add_result(const std::string& id, const std::string& content, const std::string& name) {
  messages_.push_back({{"role", "tool"}, {"content", content}, {"tool_call_id", id}});
  if (!name.empty()) messages_.back()["name"] = name;
}

bool MessageList::ends_with_assistant() const { return !messages_.empty() && messages_.back()["role"] == "assistant"; }

ordered_json MessageList::messages() const { return messages_.empty() ? messages_ : normalized_messages(messages_); }

Tool make_tool(const std::string& name, const std::string& description, const ordered_json& parameters, bool strict) {
  Tool tool{.name = name, .strict = strict, .json = tool_json(name, description, parameters)};
  tool.parameters = tool.json["function"]["parameters"];
  if (!tool.parameters.contains("type")) tool.parameters["type"] = "object";
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

std::vector<Tool> tools_of(const ordered_json* j, void (*add)(std::vector<Tool>& tools, Fields& tool)) {
  std::vector<Tool> tools;
  if (j == nullptr) return tools;
  if (j->is_object()) refuse_at("tools", "is one object; put it into a list: [{...}]");
  if (!j->is_array()) refuse_at("tools", "is not an array of tools");
  for (size_t i = 0; i < j->size(); ++i) {
    Fields tool((*j)[i], at("tools", i));
    add(tools, tool);
  }
  return tools;
}

std::vector<Tool> tools_of(const ordered_json* j) {
  return tools_of(j, [](std::vector<Tool>& tools, Fields& item) {
    if (!item.has("type"))
      refuse_at(item.path("type"), R"(is missing; a tool is {"type": "function", "function": {"name": ...}})",
                "missing_required_parameter");
    if (const std::string type = item.needed_text("type"); type != "function") return ignore_tool(item, type);
    if (!item.has("function") && item.has("name"))
      refuse_at(item.path("function"),
                "is missing; here 'name', 'description' and 'parameters' stand in 'function', next to 'type'");
    Fields function(item.needed("function"), item.path("function"));
    item.finish();
    add_tool(tools, function, "parameters");
    function.finish();
  });
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
  if (std::ranges::any_of(tools, [&](const Tool& t) { return *j == t.name; }))
    refuse_at("tool_choice",
              fmt::format(R"(names a tool; write {{"type": "function", "function": {{"name": {}}}}})", json_text(*j)));
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
