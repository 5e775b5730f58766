#include "dialog/normalized.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "dialog/call_text.h"
#include "dialog/fields.h"
#include "dialog/hints.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/utf8.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

std::string at(const std::string& path, size_t i) { return fmt::format("{}[{}]", path, i); }

// A string, or parts that are texts.
std::string content_text(const ordered_json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse_at(path, "is not a string or an array of parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i)
    text += content[i].is_string() ? content[i].get<std::string>() : text_part(content[i], at(path, i));
  return text;
}

// A list that some files have as a text.
ordered_json parsed(const ordered_json& given) {
  return given.is_string() ? json_of(given.get_ref<const std::string&>()).value_or(given) : given;
}

ordered_json arguments_of(Fields& f) {
  const char* name = f.has("parameters") && !f.has("arguments") ? "parameters" : "arguments";
  const ordered_json* given = f.take(name);
  if (given == nullptr) return ordered_json::object();
  if (given->is_object()) return *given;
  if (!given->is_string()) refuse_at(f.path(name), "is not a string or an object");
  const auto& text = given->get_ref<const std::string&>();
  if (trimmed(text).empty()) return ordered_json::object();
  std::optional<ordered_json> object = json_of(text);
  return object && object->is_object() ? std::move(*object) : *given;
}

class MessageReader {
 public:
  explicit MessageReader(OtherFields others) : others_(others) {}
  ordered_json message(const ordered_json& given, const std::string& path);

 private:
  void add_others(Fields& f, ordered_json& to) const {
    if (others_ == OtherFields::noted) return f.finish();
    for (const auto& [name, value] : f.rest()) to[name] = *value;
  }
  std::string role_of(Fields& f) const;
  ordered_json call(const ordered_json& given, const std::string& path);
  void add_calls(Fields& f, ordered_json& message);
  void add_call_of_result(Fields& f, ordered_json& message);
  void require_call(Fields& f, const std::string& id) const;

  const OtherFields others_;
  std::map<std::string, std::string> names_;  // of functions, by the ids of their calls
  std::vector<std::string> open_;             // ids of calls without a result
  size_t calls_ = 0;
  bool has_own_ids_ = true;  // have all calls an id of their own?
  std::string before_;       // the role of the message before
};

std::string MessageReader::role_of(Fields& f) const {
  const std::string role = f.needed_text("role");
  if (role == "developer") return "system";  // OpenAI's newer word for it
  if (role == "function") return "tool";     // and its older one
  const std::vector<std::string> known{"system", "user", "assistant", "tool", "developer", "function"};
  if (std::ranges::find(known, role) != known.end()) return role;
  if (const std::string near = misspelt(role, known); !near.empty())
    refuse_at(f.path("role"), fmt::format("is '{}'; did you mean '{}'?", one_line(role), near));
  const bool is_assistant = role == "bot" || role == "gpt" || role == "model" || role == "ai";  // as others call it
  if (others_ == OtherFields::noted)
    refuse_at(f.path("role"), fmt::format("is '{}', {}", one_line(role),
                                          is_assistant      ? "which is 'assistant' here"
                                          : role == "human" ? "which is 'user' here"
                                                            : "expected system, developer, user, assistant or tool"));
  return role;
}

// From {"id", "type", "function": {"name", "arguments"}}, or from the function alone.
ordered_json MessageReader::call(const ordered_json& given, const std::string& path) {
  Fields f(given, path);
  const std::string id = f.text("id"), type = f.text("type");
  if (!type.empty() && type != "function")
    refuse_at(f.path("type"), fmt::format("is '{}', expected function", one_line(type)));
  const bool is_bare = !f.has("function") && f.has("name");
  ordered_json result, function;
  has_own_ids_ = has_own_ids_ && !id.empty();
  result["id"] = id.empty() ? fmt::format("call{:05}", calls_) : id;
  result["type"] = "function";
  const auto read_function = [&](Fields& g) {
    function["name"] = g.needed_text("name");
    function["arguments"] = arguments_of(g);
  };
  if (is_bare) {
    read_function(f);
    result["function"] = function;
    add_others(f, result);
  } else {
    Fields g(f.needed("function"), f.path("function"));
    read_function(g);
    add_others(g, function);
    result["function"] = function;
    add_others(f, result);
  }
  ++calls_;
  names_[result["id"]] = function["name"];
  open_.push_back(result["id"]);
  return result;
}

void MessageReader::add_calls(Fields& f, ordered_json& message) {
  ordered_json calls = ordered_json::array();
  if (const ordered_json* given = f.take("tool_calls")) {
    const ordered_json list = parsed(*given);
    if (!list.is_array()) refuse_at(f.path("tool_calls"), "is not an array of calls");
    for (size_t i = 0; i < list.size(); ++i) calls.push_back(call(list[i], at(f.path("tool_calls"), i)));
  }
  if (const ordered_json* given = f.take("function_call")) calls.push_back(call(*given, f.path("function_call")));
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
}

// A result follows the assistant's message, whose calls may be a part of its text, or belongs to a call that has none.
void MessageReader::require_call(Fields& f, const std::string& id) const {
  if (open_.empty() && (before_.empty() || before_ == "user" || before_ == "system"))
    refuse_at(f.path("role"),
              "is a tool's, and the message before it is not the assistant's: put the message with its tool_calls "
              "before it, or write the result as a message of the user");
  if (id.empty() || !has_own_ids_ || names_.empty() || names_.contains(id)) return;
  std::vector<std::string> known;
  for (const auto& [call, name] : names_) known.push_back(fmt::format("'{}'", one_line(call)));
  constexpr size_t kShown = 4;
  if (known.size() > kShown) known.erase(known.begin(), known.end() - kShown);
  refuse_at(f.path("tool_call_id"), fmt::format("is '{}', and no call before it has this id; expected {}", one_line(id),
                                                fmt::join(known, ", ")));
}

void MessageReader::add_call_of_result(Fields& f, ordered_json& message) {
  std::string id = f.text("tool_call_id");
  require_call(f, id);
  if ((id.empty() || (!has_own_ids_ && !names_.contains(id))) && !open_.empty()) id = open_.front();
  std::erase(open_, id);
  if (!message.contains("name") && names_.contains(id)) message["name"] = names_[id];
  message["tool_call_id"] = id;
}

ordered_json MessageReader::message(const ordered_json& given, const std::string& path) {
  Fields f(given, path);
  const std::string role = role_of(f);
  const bool is_answer = role == "assistant", is_result = role == "tool";
  ordered_json message{{"role", role}};
  if (is_answer || is_result || f.has("content")) {
    const ordered_json* content = f.take("content");
    const bool is_object = is_result && content && !content->is_string() && !content->is_array();
    message["content"] = !content ? "" : is_object ? json_text(*content) : content_text(*content, f.path("content"));
  } else {
    f.needed("content");
  }
  if (const std::string name = f.text("name"); !name.empty()) message["name"] = name;
  if (is_answer) {
    // A thought, under the names that servers and templates have for it.
    std::string thought = f.text("reasoning_content");
    for (const char* other : {"reasoning", "thinking"})
      if (const ordered_json* j = f.take(other); j && j->is_string() && thought.empty()) thought = *j;
    if (!thought.empty()) message["reasoning_content"] = thought;
    add_calls(f, message);
  }
  if (is_result) add_call_of_result(f, message);
  add_others(f, message);
  before_ = role;
  return message;
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

void require_messages(const ordered_json& messages) {
  constexpr const char* kField = "messages";
  const std::string form = fmt::format("expected messages such as {}", example_of(kField));
  if (!messages.is_array()) refuse_at(kField, fmt::format("is not an array of messages; {}", form));
  if (messages.empty()) refuse_at(kField, fmt::format("is an empty array; {}", form));
  for (size_t i = 0; i < messages.size(); ++i)
    if (!messages[i].is_object()) refuse_at(at(kField, i), fmt::format("is not an object; {}", form));
}

ordered_json normalized_messages(const ordered_json& messages, OtherFields others) {
  constexpr const char* kField = "messages";
  require_messages(messages);
  MessageReader reader(others);
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < messages.size(); ++i) list.push_back(reader.message(messages[i], at(kField, i)));
  return list;
}

ordered_json tool_json(const std::string& name, const std::string& description, const ordered_json& parameters) {
  ordered_json function{{"name", name}};
  if (!description.empty()) function["description"] = description;
  function["parameters"] =
      parameters.is_null() ? ordered_json{{"type", "object"}, {"properties", ordered_json::object()}} : parameters;
  return {{"type", "function"}, {"function", std::move(function)}};
}

ordered_json normalized_tools(const ordered_json& tools) {
  const ordered_json list = parsed(tools);
  if (list.is_null()) return nullptr;
  if (list.is_object()) refuse_at("tools", "is one object; put it into a list: [{...}]");
  if (!list.is_array()) refuse_at("tools", "is not a list of tools");
  ordered_json result = ordered_json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    const ordered_json tool = parsed(list[i]);
    Fields item(tool, at("tools", i));
    if (!item.has("function") && !item.has("name")) refuse_at(at("tools", i), "has neither 'function' nor 'name'");
    const ordered_json* inner = item.take("function");
    Fields f(inner ? *inner : tool, inner ? item.path("function") : at("tools", i));
    const std::string name = f.needed_text("name"), description = f.text("description");
    const ordered_json* parameters = f.take("parameters");
    if (parameters == nullptr) parameters = f.take("input_schema");
    f.take("strict");  // of requests
    if (!inner) f.take("type");
    result.push_back(tool_json(name, description, parameters ? *parameters : ordered_json()));
    for (const auto& [key, value] : f.rest()) result.back()["function"][key] = *value;
  }
  return result.empty() ? ordered_json() : result;
}

ordered_json template_variables(const ordered_json& given) {
  const ordered_json variables = parsed(given);
  if (!variables.is_object()) refuse_at("chat_template_kwargs", "is not an object of variables");
  for (const char* own : {"messages", "tools", "documents", "add_generation_prompt"})
    if (variables.contains(own))
      refuse_at(fmt::format("chat_template_kwargs.{}", own), "is no variable of its own: remove it from there");
  return variables;
}

}  // namespace toy::dialog
