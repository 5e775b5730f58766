// How calls and results of earlier turns are given to a chat template.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dialog/call_forms.h"

namespace toy::dialog {

/// What a template gets.
struct TemplateInput {
  nlohmann::ordered_json messages;  ///< as normalized_messages() makes them
  nlohmann::ordered_json tools;     ///< null: none
  /// Roles whose content the template wants as a list of parts: it gets the messages as with_parts() makes them.
  std::vector<std::string> roles_with_parts = {};
};

/// Fields of messages of which something is not learned, until the template gets them: the turn; the answer that
/// `tool_responses` made a part of it; the end of the turn.
inline constexpr const char *kUnlearned = "toy:unlearned", *kAnswerUnlearned = "toy:answer_unlearned",
                            *kEndUnlearned = "toy:end_unlearned";

/// Changes what the templates of a form take in another way than others do:
/// - gpt-oss: the thought in front of a call is `thinking`.
/// - gpt-oss, Llama, GigaChat: one call a message.
/// - Kimi: ids are functions.NAME:NUMBER.
/// - Mistral: ids are nine letters and digits.
/// - Gemma 4, old templates: results are `tool_responses` of the message with the calls.
/// - LFM2, templates that leave out calls: they are a part of the content.
/// - DeepSeek, templates that leave out tools: the system message has them. Calls have no content.
TemplateInput input_for(const CallForm& form, const std::string& chat_template, TemplateInput input);

/// Has the message calls; is it the result of one?
inline bool has_calls(const nlohmann::ordered_json& message) {
  return message.contains("tool_calls") && message["tool_calls"].is_array() && !message["tool_calls"].empty();
}
inline bool is_result(const nlohmann::ordered_json& message) { return message.value("role", "") == "tool"; }

/// Gives an empty description to tools that have none; false: all have one.
bool describe(nlohmann::ordered_json& tools);

/// A value as Python prints it, or as its json.dumps() does.
std::string python_text(const nlohmann::ordered_json& v, bool is_json = false);

}  // namespace toy::dialog
