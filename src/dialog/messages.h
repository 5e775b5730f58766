// Messages and tools of a conversation, checked, as chat templates see them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace toy::dialog {

class Fields;

inline constexpr size_t kMostTools = 128, kMostNameBytes = 128;  ///< tools of a request; bytes of a name

/// A function that the model may call.
struct Tool {
  std::string name;
  nlohmann::ordered_json parameters;  ///< JSON Schema of its arguments
  bool strict = false;                ///< arguments follow the schema, or the request is refused
  nlohmann::ordered_json json;        ///< {"type": "function", "function": {...}}, as chat templates see it
  std::string field = "tools";        ///< path of the schema in the request, for messages
};

/// Whether the model may or must call.
struct ToolChoice {
  enum Kind { automatic, none, required } kind = automatic;
  std::string name;  ///< required: this one; "": any
};

/// Collects the messages of an API of another form than OpenAI's. Its parser fills one, and names the API's own fields
/// in what it refuses.
class MessageList {
 public:
  /// `role`: system, user or assistant. `thought`: of the assistant.
  /// `name`: of who speaks, for templates that show it.
  void add(const std::string& role, const std::string& content, const std::string& thought = "",
           const std::string& name = "");
  /// Adds a call to the assistant's message, which is the latest one or begins here. `arguments`: JSON; of a call that
  /// was cut off, the text as the model wrote it.
  void add_call(const std::string& id, const std::string& name, const std::string& arguments);
  /// The result of a call. `name`: of the function; "": that of the call.
  void add_result(const std::string& id, const std::string& content, const std::string& name = "");
  bool ends_with_assistant() const;
  bool empty() const { return messages_.empty(); }
  /// As normalized_messages() gives them.
  nlohmann::ordered_json messages() const;

 private:
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

/// Tools in OpenAI's format: [{"type": "function", "function": {"name", "description", "parameters", "strict"}}]. Those
/// of other types are noted as ignored, or refused.
std::vector<Tool> tools_of(const nlohmann::ordered_json* j);
/// The same for a list of another format, of which `add` reads a tool.
std::vector<Tool> tools_of(const nlohmann::ordered_json* j, void (*add)(std::vector<Tool>& tools, Fields& tool));
/// Does so with a tool of another type.
void ignore_tool(const Fields& tool, const std::string& type);
/// A tool. Its schema is an object, or null for a function without arguments.
Tool make_tool(const std::string& name, const std::string& description, const nlohmann::ordered_json& parameters,
               bool strict);
/// Adds the tool with these fields: name, description, strict, and its schema, which is called `schema`. Throws
/// FieldError for a name that is none or that another tool has.
void add_tool(std::vector<Tool>& tools, Fields& f, const std::string& schema);
/// "none", "auto", "required" (or "any"), {"type": "function", "function": {"name": ...}}, or {"type": "allowed_tools",
/// "allowed_tools": {"mode", "tools"}}, which removes the other tools; the inner fields may stand in the object itself.
/// Throws FieldError for a function that is no tool, and for a choice that has to call one without tools.
ToolChoice tool_choice_of(const nlohmann::ordered_json* j, std::vector<Tool>& tools);
/// Throws FieldError for a name, at `path`, that no tool has.
void require_tool(const std::vector<Tool>& tools, const std::string& name, const std::string& path);

}  // namespace toy::dialog
