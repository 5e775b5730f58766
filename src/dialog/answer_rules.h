// What an answer has to be.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dialog/messages.h"

namespace toy::dialog {

/// What a text has to be.
struct TextForm {
  enum Kind { any, json_object, json_schema, gbnf } kind = any;
  nlohmann::ordered_json schema;  ///< of json_schema
  std::string grammar;            ///< of gbnf
  std::string field;              ///< path in the request, for messages
};

/// What an answer may and must have.
struct AnswerRules {
  bool chat = false;        ///< an answer to messages; else a text that continues another
  std::vector<Tool> tools;  ///< of chat
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;  ///< more than one call in a text
  TextForm form;
};

/// May the model call the tools?
bool calls_tools(const AnswerRules& r);

}  // namespace toy::dialog
