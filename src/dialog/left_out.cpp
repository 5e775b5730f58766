#include "dialog/left_out.h"

#include <fmt/format.h>

#include <algorithm>

#include "toy/base/json_text.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

// Words that no template has.
constexpr const char *kTool = "toyprobetool", *kCall = "toyprobecall", *kKey = "toyprobekey", *kValue = "toyprobevalue",
                     *kResult = "toyproberesult", *kName = "toyprobename", *kSystem = "toyprobesystem",
                     *kContent = "toyprobecontent";

ordered_json said(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

ordered_json probe_tools() {
  const ordered_json function = {
      {"name", kTool},
      {"description", "a probe"},
      {"parameters", {{"type", "object"}, {"properties", {{kKey, {{"type", "string"}, {"description", "a key"}}}}}}}};
  return ordered_json::array({{{"type", "function"}, {"function", function}}});
}

ordered_json probe_messages(const char* content = "") {
  ordered_json call = said("assistant", content);
  call["tool_calls"] = ordered_json::array(
      {{{"id", "probe0001"}, {"type", "function"}, {"function", {{"name", kCall}, {"arguments", {{kKey, kValue}}}}}}});
  ordered_json result = said("tool", kResult);
  result["tool_call_id"] = "probe0001";
  result["name"] = kCall;
  return ordered_json::array({said("user", "a question"), call, result});
}

// `all`: else only those beside a content.
ordered_json with_calls_as_text(const CallForm& given, ordered_json messages, bool all) {
  // Templates of the other forms show their calls; if one does not, it is not of the family.
  const bool is_written = given.kind == CallForm::json || given.kind == CallForm::python;
  const CallForm& form = is_written ? given : general_form();
  for (ordered_json& message : messages) {
    if (!has_calls(message)) continue;
    const std::string content =
        message.contains("content") && message["content"].is_string() ? message["content"].get<std::string>() : "";
    if (content.empty() && !all) continue;
    message["content"] = content + (content.empty() ? "" : "\n") + form.written(message["tool_calls"]);
    message.erase("tool_calls");
  }
  return messages;
}

// Those that follow each other are one message.
ordered_json with_results_as_text(const ordered_json& messages) {
  ordered_json out = ordered_json::array();
  bool after_result = false;
  for (const ordered_json& message : messages) {
    if (!is_result(message)) {
      out.push_back(message);
    } else {
      const std::string text = "<tool_response>\n" + message.value("content", "") + "\n</tool_response>";
      if (after_result)
        out.back()["content"] = out.back()["content"].get<std::string>() + "\n" + text;
      else
        out.push_back(said("user", text));
    }
    after_result = is_result(message);
  }
  return out;
}

std::string tools_text(const ordered_json& tools) {
  std::string list;
  for (const ordered_json& tool : tools) list += python_text(tool.value("function", tool), true) + "\n";
  return fmt::format(
      "# Tools\n\nYou can call these functions. Each line is a JSON object with the name, the description and the "
      "parameters of one:\n<tools>\n{}</tools>\n\nTo call a function, write a JSON object with its name and arguments "
      "between tags:\n<tool_call>\n{{\"name\": \"NAME\", \"arguments\": {{\"KEY\": VALUE}}}}\n</tool_call>\nWrite "
      "nothing "
      "after your calls. Their results come between <tool_response> and </tool_response>.",
      list);
}

void describe_tools(const Shown& shown, TemplateInput& input) {
  const std::string text = tools_text(input.tools);
  input.tools = nullptr;
  const char* role = shown.system ? "system" : "user";
  for (ordered_json& message : input.messages) {
    if (message.value("role", "") != role) continue;
    const std::string content = message.value("content", "");
    message["content"] = shown.system ? content + "\n\n" + text : text + "\n\n" + content;
    return;
  }
  input.messages.insert(input.messages.begin(), said(role, text));
}

bool shows(const std::optional<std::string>& text, const char* word) {
  return text && text->find(word) != std::string::npos;
}

// Whose content is shown as parts, and not as a string.
std::vector<std::string> roles_with_parts(const TryRender& render) {
  std::vector<std::string> roles;
  const ordered_json ask = said("user", "a question");
  const auto find = [&](const std::string& role, const ordered_json& messages) {
    if (shows(render({messages, nullptr, roles}), kContent)) return;
    std::vector<std::string> more = roles;
    more.push_back(role);
    const auto text = render({messages, nullptr, more});
    if (shows(text, kContent) && !shows(text, "'type'") && !shows(text, "\"type\""))
      roles = more;  // not the list itself
  };
  find("user", ordered_json::array({said("user", kContent)}));
  find("system", ordered_json::array({said("system", kContent), ask}));
  find("assistant", ordered_json::array({ask, said("assistant", kContent), ask}));
  return roles;
}

}  // namespace

ordered_json with_parts(ordered_json messages, const std::vector<std::string>& roles) {
  for (ordered_json& message : messages)
    if (std::ranges::find(roles, message.value("role", "")) != roles.end() && message.contains("content") &&
        message["content"].is_string()) {
      const std::string text = message["content"];
      message["content"] = ordered_json::array({{{"type", "text"}, {"text", text}}});
    }
  return messages;
}

Shown shown_by(const TryRender& given, bool with_tools) {
  Shown shown;
  shown.roles_with_parts = roles_with_parts(given);
  const auto render = [&](TemplateInput in) {
    in.roles_with_parts = shown.roles_with_parts;
    return given(std::move(in));
  };
  const ordered_json tools = with_tools ? probe_tools() : ordered_json();
  const ordered_json ask = said("user", "hi");
  const auto asked = render({ordered_json::array({said("user", kContent)}), nullptr}),
             told = render({ordered_json::array({said("system", kSystem), said("user", kContent)}), nullptr});
  shown.user = (!asked && !told) || shows(asked, kContent) || shows(told, kContent);
  shown.system = shows(render({ordered_json::array({said("system", kSystem), ask}), nullptr}), kSystem);
  ordered_json fields = ordered_json::array({ask, said("assistant", "hi"), ask});
  for (ordered_json& message : fields) message["name"] = kName, message[kKey] = kValue;
  const auto with_fields = render({fields, nullptr});
  shown.names = shows(with_fields, kName), shown.any_field = shows(with_fields, kValue);
  if (with_tools)
    if (const auto text = render({ordered_json::array({said("user", "hi")}), tools})) shown.tools = shows(text, kTool);
  // As it is; with results as text; with both as text.
  const ordered_json all = probe_messages();
  for (const Shown& way : {Shown{}, Shown{.results = false}, Shown{.calls = false, .results = false}}) {
    const auto text = render(with_left_out(general_form(), way, {all, tools}));
    if (!text) continue;
    shown.calls = way.calls && (shows(text, kCall) || shows(text, kValue));
    shown.results = way.results && shown.tools && shows(text, kResult);  // as tools_text() says
    break;
  }
  if (!shown.calls) return shown;
  if (const auto text = render(with_left_out(general_form(), shown, {probe_messages(kContent), tools}))) {
    shown.calls_with_content = shows(text, kCall) || shows(text, kValue);
    shown.content_with_calls = shows(text, kContent);
  }
  return shown;
}

TemplateInput with_left_out(const CallForm& form, const Shown& shown, TemplateInput input) {
  if (!shown.calls || !shown.calls_with_content)
    input.messages = with_calls_as_text(form, std::move(input.messages), !shown.calls);
  if (!shown.results) input.messages = with_results_as_text(input.messages);
  input.roles_with_parts = shown.roles_with_parts;
  if (!shown.tools && input.tools.is_array() && !input.tools.empty()) describe_tools(shown, input);
  return input;
}

}  // namespace toy::dialog
