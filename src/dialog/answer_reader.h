// How the answer to a prompt of a chat is read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dialog/constraints.h"
#include "dialog/output_parser.h"

namespace toy::dialog {

/// What decides it.
struct AnswerKind {
  const CallForm* form = nullptr;                    ///< how the model writes calls; nullptr: in no known way
  ThoughtMarks thoughts = {};                        ///< around its thoughts
  ThoughtState state = ThoughtState::possible;       ///< where the answer begins
  bool is_formed = false;                            ///< it has a form, such as a schema
  std::shared_ptr<const std::vector<Tool>> tools{};  ///< that may be called; nullptr: none
};

/// The control tokens whose names have to be in the text (TextRequest::named), and what splits it then.
struct AnswerReader {
  std::vector<int32_t> named;
  OutputParser parser;
};

/// `constraints`: of the model. `salt`: as CallParser's.
AnswerReader answer_reader(const AnswerKind& kind, const Constraints& constraints, const std::string& salt);
/// A salt that follows from the prompt and the number of the answer, so that an answer does not depend on others.
std::string call_salt(const std::vector<int32_t>& prompt, int64_t choice);

/// Adds a part to the calls of its text.
inline void add_part(std::vector<ToolCall>& calls, const ToolCallPart& part) {
  if (part.index >= calls.size()) calls.resize(part.index + 1);
  ToolCall& call = calls[part.index];
  call.id += part.added.id, call.name += part.added.name, call.arguments += part.added.arguments;
}

}  // namespace toy::dialog
