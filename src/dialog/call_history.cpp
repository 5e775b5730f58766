#include "dialog/call_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <set>

#include "dialog/call_text.h"
#include "toy/base/philox.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

// Each call is a message of its own, with its result after it: the template shows the first call of a message only, or
// refuses more.
ordered_json one_call_each(const ordered_json& messages) {
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < messages.size();) {
    const ordered_json& message = messages[i++];
    if (!has_calls(message) || message["tool_calls"].size() == 1) {
      list.push_back(message);
      continue;
    }
    std::vector<const ordered_json*> results;
    for (; i < messages.size() && is_result(messages[i]); ++i) results.push_back(&messages[i]);
    ordered_json one = message;
    for (const ordered_json& call : message["tool_calls"]) {
      one["tool_calls"] = ordered_json::array({call});
      list.push_back(one);
      one["content"] = "";
      one.erase("reasoning_content");
      const auto result = std::ranges::find_if(
          results, [&](const ordered_json* r) { return r && r->value("tool_call_id", "") == call.value("id", ""); });
      if (result != results.end()) list.push_back(*std::exchange(*result, nullptr));
    }
    for (const ordered_json* r : results)
      if (r) list.push_back(*r);
  }
  return list;
}

// The template writes a content in front of a call as thought, too, and refuses both.
void name_thoughts(ordered_json& messages) {
  for (ordered_json& message : messages) {
    if (!message.contains("reasoning_content")) continue;
    const std::string thought = message["reasoning_content"], content = message.value("content", "");
    message.erase("reasoning_content");
    message["thinking"] = thought;
    if (!has_calls(message) || content.empty()) continue;
    message["thinking"] = thought + "\n\n" + content;
    message["content"] = "";
  }
}

TemplateInput for_harmony(TemplateInput input) {
  name_thoughts(input.messages);
  describe(input.tools);
  return input;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Other ids are numbered through the conversation.
ordered_json with_numbered_ids(ordered_json messages) {
  std::map<std::string, std::string> ids;
  size_t number = 0;
  for (ordered_json& message : messages) {
    if (has_calls(message))
      for (ordered_json& call : message["tool_calls"]) {
        const std::string id = call.value("id", ""),
                          prefix = "functions." + call["function"]["name"].get<std::string>() + ":";
        if (!id.starts_with(prefix) || !is_number(std::string_view(id).substr(prefix.size())))
          call["id"] = ids[id] = fmt::format("{}{}", prefix, number);
        else
          ids.erase(id);
        ++number;
      }
    if (!is_result(message)) continue;
    const auto known = ids.find(message.value("tool_call_id", ""));
    if (known != ids.end()) message["tool_call_id"] = known->second;
  }
  return messages;
}

// Other ids become nine letters and digits, which depend on nothing else in most conversations.
ordered_json with_short_ids(ordered_json messages) {
  const auto fits = [](const std::string& id) {
    return id.size() == 9 && std::ranges::all_of(id, [](unsigned char c) { return std::isalnum(c) != 0; });
  };
  std::set<std::string> taken;
  const auto each = [&](const auto& f) {
    for (ordered_json& message : messages) {
      if (has_calls(message))
        for (ordered_json& call : message["tool_calls"])
          if (call.contains("id") && call["id"].is_string()) f(call["id"]);
      if (is_result(message) && message.contains("tool_call_id")) f(message["tool_call_id"]);
    }
  };
  each([&](const ordered_json& id) {
    if (fits(id)) taken.insert(id);
  });
  std::map<std::string, std::string> ids;
  each([&](ordered_json& id) {
    const std::string given = id;
    if (fits(given)) return;
    std::string& known = ids[given];
    const Philox random(0, given);
    for (uint64_t n = 0; known.empty(); ++n) {
      for (uint64_t i = 0; i < 9; ++i) known += "abcdefghijklmnopqrstuvwxyz0123456789"[random.below(9 * n + i, 36)];
      if (!taken.insert(known).second) known.clear();
    }
    id = known;
  });
  return messages;
}

// Results belong to the message with the calls, and so does the answer after them.
ordered_json with_tool_responses(const ordered_json& messages) {
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    list.push_back(messages[i]);
    if (!has_calls(messages[i])) continue;
    if (!messages[i].value("content", "").empty()) {
      // It would come after the results. As a message of its own it has an end, which the model must not learn there.
      list.back().erase("tool_calls");
      list.back()[kEndUnlearned] = true;
      list.push_back(messages[i]);
      list.back()["content"] = "";
      list.back().erase("reasoning_content");
    }
    ordered_json responses = ordered_json::array();
    for (; i + 1 < messages.size() && is_result(messages[i + 1]); ++i) {
      const std::string text = messages[i + 1].value("content", "");
      std::optional<ordered_json> object = json_of(text);
      if (object && !object->is_object()) object.reset();
      responses.push_back({{"name", messages[i + 1].value("name", "unknown")},
                           {"response", object ? std::move(*object) : ordered_json(text)}});
    }
    if (responses.empty()) continue;
    list.back()["tool_responses"] = std::move(responses);
    const ordered_json* answer = i + 1 < messages.size() ? &messages[i + 1] : nullptr;
    const bool goes_on = answer && answer->value("role", "") == "assistant" && !has_calls(*answer) &&
                         !answer->contains("reasoning_content");
    if (!goes_on || answer->contains(kUnlearned)) list.back()[kAnswerUnlearned] = true;
    if (!goes_on) continue;
    list.back()["content"] = answer->value("content", "");
    ++i;
  }
  return list;
}

}  // namespace

bool describe(ordered_json& tools) {
  bool any = false;
  for (ordered_json& tool : tools)
    if (tool.contains("function") && !tool["function"].contains("description"))
      tool["function"]["description"] = "", any = true;
  return any;
}

std::string python_text(const ordered_json& v, bool is_json) {
  if (v.is_boolean() && !is_json) return v.get<bool>() ? "True" : "False";
  if (v.is_null() && !is_json) return "None";
  if (!v.is_structured()) return json_text(v);
  std::string text;
  for (const auto& [key, item] : v.items())
    text += (text.empty() ? "" : ", ") + (v.is_object() ? json_text(ordered_json(key)) + ": " : "") +
            python_text(item, is_json);
  return v.is_object() ? "{" + text + "}" : "[" + text + "]";
}

namespace {

// A text of a form as it is written; `of` is what a word stands for.
std::string text_of(std::string_view text, const std::function<std::string(FormPart::Kind)>& of = {}) {
  std::string all;
  for (const FormPart& part : parts_of(text))
    all += part.kind <= FormPart::optional ? std::string(part.text) : of(part.kind);
  return all;
}

// KEY=VALUE of Python.
std::string pairs_text(const CallForm& form, const ordered_json& arguments) {
  std::string all;
  if (arguments.is_object())
    for (auto it = arguments.begin(); it != arguments.end(); ++it)
      all += (all.empty() ? "" : text_of(form.next_pair)) + text_of(form.pair, [&](FormPart::Kind w) {
               return w == FormPart::key ? it.key() : python_text(it.value());
             });
  return all;
}

}  // namespace

std::string CallForm::written(const ordered_json& calls) const {
  const std::string front = (at_start ? "" : std::string(unit.open)) + text_of(unit.before),
                    back = text_of(unit.after) + std::string(unit.close);
  std::string all;
  for (const ordered_json& one : calls) {
    const ordered_json& function = one["function"];
    const ordered_json arguments = function.value("arguments", ordered_json::object());
    const std::string text = text_of(call, [&](FormPart::Kind w) -> std::string {
      if (w == FormPart::pairs) return pairs_text(*this, arguments);
      if (w == FormPart::number) return std::to_string(&one - &calls[0]);
      if (w != FormPart::object) return function["name"];
      return arguments.is_string() ? arguments.get<std::string>() : python_text(arguments, true);
    });
    const std::string separator = unit.next ? text_of(*unit.next) : std::string(unit.between);
    all += (all.empty() ? "" : separator) + (unit.next ? text : front + text + back);
  }
  return unit.next ? front + all + back : all;
}

namespace {

ordered_json with_calls_as_content(const CallForm& form, ordered_json messages) {
  for (ordered_json& message : messages) {
    if (!has_calls(message)) continue;
    message["content"] = message.value("content", "") + form.written(message["tool_calls"]);
    message.erase("tool_calls");
  }
  return messages;
}

// What DeepSeek's models are told: as the card of V3.1 says, with the marks of either form.
std::string tool_text(const CallForm& form, const ordered_json& tools) {
  std::string text = "## Tools\nYou have access to the following tools:\n";
  for (const ordered_json& tool : tools) {
    const ordered_json& f = tool["function"];
    text += fmt::format("\n### {}\nDescription: {}\n\nParameters: {}\n", f["name"].get<std::string>(),
                        f.value("description", ""), python_text(f["parameters"], true));
  }
  return text + fmt::format(
                    "\nIMPORTANT: ALWAYS adhere to this exact format for tool use:\n"
                    "{}{}tool_call_name{}tool_call_arguments{}{{{{additional_tool_calls}}}}{}\n\nWhere:\n"
                    "- `tool_call_name` must be an exact match to one of the available tools\n"
                    "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n"
                    "- For multiple tool calls, chain them directly without separators or spaces\n",
                    form.unit.open, form.before_name(), form.after_name(), form.after_arguments(), form.unit.close);
}

TemplateInput for_deepseek(const CallForm& form, const std::string& chat_template, TemplateInput input) {
  // Some templates write calls only where there is no content.
  if (chat_template.find("['content'] is none") != std::string::npos)
    for (ordered_json& message : input.messages)
      if (has_calls(message) && message.value("content", "").empty()) message["content"] = nullptr;
  if (knows_tools(chat_template) || input.tools.empty()) return input;
  const std::string text = tool_text(form, input.tools);
  if (!input.messages.empty() && input.messages[0].value("role", "") == "system")
    input.messages[0]["content"] = input.messages[0].value("content", "") + "\n\n" + text;
  else
    input.messages.insert(input.messages.begin(), ordered_json{{"role", "system"}, {"content", text}});
  input.tools = nullptr;
  return input;
}

}  // namespace

TemplateInput input_for(const CallForm& form, const std::string& chat_template, TemplateInput input) {
  const auto contains = [&](const char* text) { return chat_template.find(text) != std::string::npos; };
  if (form.one_call) input.messages = one_call_each(input.messages);
  if (form.kind == CallForm::channels) return for_harmony(std::move(input));
  if (form.tools_in_system) return for_deepseek(form, chat_template, std::move(input));
  if (form.is_numbered()) input.messages = with_numbered_ids(std::move(input.messages));
  if (form.short_ids) input.messages = with_short_ids(std::move(input.messages));
  if (form.kind == CallForm::bare && contains("tool_responses") && !contains("tool_call_id"))
    input.messages = with_tool_responses(input.messages);
  if (form.kind == CallForm::python && !contains("tool_calls"))
    input.messages = with_calls_as_content(form, std::move(input.messages));
  return input;
}

}  // namespace toy::dialog
