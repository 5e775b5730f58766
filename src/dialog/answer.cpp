#include "dialog/answer.h"

#include "dialog/messages.h"

namespace toy::dialog {

using nlohmann::ordered_json;

std::vector<Tool> callable_tools(const ordered_json& tools) {
  if (tools.is_null()) return {};
  ordered_json known = ordered_json::array();  // what decides the form of calls; the rest is for the template
  for (const ordered_json& tool : tools) {
    ordered_json function = ordered_json::object();
    for (const char* field : {"name", "description", "parameters", "strict"})
      if (tool.at("function").contains(field)) function[field] = tool.at("function").at(field);
    known.push_back({{"type", tool.at("type")}, {"function", std::move(function)}});
  }
  return tools_of(&known);
}

ordered_json answer_message(const std::string& text, const std::string& thought, const std::vector<ToolCall>& calls) {
  MessageList list;
  list.add("assistant", text, thought);
  for (const ToolCall& call : calls) list.add_call(call.id, call.name, call.arguments);
  return list.messages().back();
}

PreparedAnswer prepare_answer(const Dialog& dialog, const ThoughtMarks& thoughts, Constraints& constraints,
                              const std::vector<int32_t>& prompt, const ordered_json& tools, const TextForm& form,
                              int64_t again) {
  const ThoughtState state = thought_state_after(prompt, dialog.tokenizer(), dialog.chat().source());
  const AnswerRules rules{.chat = true, .tools = callable_tools(tools), .form = form};
  const Bound bound = constraints.of(rules, state);
  return {bound.constraint, answer_reader({.form = dialog.form(),
                                           .thoughts = thoughts,
                                           .state = state,
                                           .is_formed = form.kind != TextForm::any,
                                           .tools = bound.tools},
                                          constraints, call_salt(prompt, again))};
}

}  // namespace toy::dialog
