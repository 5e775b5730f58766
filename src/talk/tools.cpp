#include "talk/tools.h"

#include <fmt/format.h>

#include <algorithm>

#include "dialog/normalized.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/formats/mapped_file.h"

namespace toy::talk {

using nlohmann::ordered_json;

ordered_json load_tools(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  ordered_json tools = read_json<ordered_json>(path, text);
  try {
    tools = dialog::normalized_tools(tools);
    check(!tools.is_null(), "it has no tools");
    callable_tools(tools);
  } catch (const Error& e) {
    fail("{}: {}", path, e.what());
  }
  return tools;
}

bool is_tool(const ordered_json& tools, const std::string& name) {
  return std::any_of(tools.begin(), tools.end(),
                     [&](const ordered_json& tool) { return tool.at("function").at("name") == name; });
}

std::string list_of_tools(const ordered_json& tools) {
  if (tools.is_null()) return "no tools; /tools FILE reads some\n";
  std::string list;
  for (const ordered_json& tool : tools) {
    const ordered_json& function = tool.at("function");
    const ordered_json about = function.contains("description") ? function.at("description") : ordered_json();
    list += fmt::format("{:<21} {}\n", one_line(function.at("name").get<std::string>()),
                        about.is_string() ? one_line(about.get<std::string>()) : "");
  }
  return list;
}

ordered_json result_message(const ordered_json& call, const std::string& result) {
  ordered_json message{{"role", "tool"}, {"content", result}};
  if (call.contains("id")) message["tool_call_id"] = call.at("id");
  message["name"] = call.at("function").at("name");
  return message;
}

std::string shown_call(const ordered_json& call) {
  const ordered_json& function = call.at("function");
  const ordered_json& arguments = function.at("arguments");
  return fmt::format("{}({})", function.at("name").get<std::string>(),
                     arguments.is_string() ? arguments.get<std::string>() : json_text(arguments));
}

std::vector<std::string> shown_calls(const ordered_json& message) {
  std::vector<std::string> shown;
  if (message.contains("tool_calls"))
    for (const ordered_json& call : message.at("tool_calls")) shown.push_back(shown_call(call));
  return shown;
}

}  // namespace toy::talk
