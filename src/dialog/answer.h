// What comes before an answer and after it: what it may be and how it is read, and the message that it becomes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dialog/answer_reader.h"
#include "dialog/constraints.h"
#include "toy/dialog/dialog.h"

namespace toy::dialog {

/// Normalized tools, checked for the grammar of their calls. null: none. Throws Error{bad_input}.
std::vector<Tool> callable_tools(const nlohmann::ordered_json& tools);

/// The message of an answer: role, content, and what there is of reasoning_content and tool_calls. Arguments that are
/// no object of JSON stay a text.
nlohmann::ordered_json answer_message(const std::string& text, const std::string& thought,
                                      const std::vector<ToolCall>& calls);

/// What decides the tokens of an answer, and what reads them.
struct PreparedAnswer {
  std::shared_ptr<const TokenConstraint> constraint;  ///< nullptr: none
  AnswerReader reader;
};
/// For the answer to a prompt of `dialog`. `constraints`: of the same model. `tools` are normalized ones. `again`: the
/// number of the answer, if there were others. Throws Error{bad_input} for a form or tools that the model cannot have.
PreparedAnswer prepare_answer(const Dialog& dialog, const ThoughtMarks& thoughts, Constraints& constraints,
                              const std::vector<int32_t>& prompt, const nlohmann::ordered_json& tools,
                              const TextForm& form, int64_t again);

/// An answer in parts.
struct AnswerParts {
  std::string text, thought;
  std::vector<ToolCall> calls;
  void add(const Piece& piece) {
    thought += piece.thought, text += piece.text;
    for (const ToolCallPart& part : piece.calls) add_part(calls, part);
  }
  nlohmann::ordered_json message() const { return answer_message(text, thought, calls); }
};

}  // namespace toy::dialog
