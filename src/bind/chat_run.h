// An answer to messages, token by token.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "bind/text_run.h"
#include "dialog/answer.h"
#include "toy/chat/chat_template.h"

namespace toy {

/// The chat template of this name or file, else ("") that of the model's adapters, else that of its file at `path`;
/// nullopt: none has one. Throws Error{bad_input} for a name or a file that is none, or does not fit the vocabulary.
std::optional<ChatTemplate> chat_template_of(const Model& model, const std::string& path, const std::string& name);

namespace bind {

/// One answer, as `toy chat` gives it. Threads take turns.
class ChatRun {
 public:
  /// `messages`: a JSON list, as OpenAI's API has them. Throws Error{bad_input} for a model without a chat template,
  /// for messages that the template refuses, and as TextRun.
  ChatRun(const std::shared_ptr<BoundModel>& model, const std::string& messages, TextOptions options);

  /// What the next token adds; nullopt: the answer has ended.
  std::optional<dialog::Piece> next();
  /// The answer so far: role, content, and what there is of reasoning_content and tool_calls.
  std::string message() const;
  /// As TextRun's.
  std::string reason() const { return run_->reason(); }

 private:
  dialog::Piece read(const std::optional<TextPart>& part);

  std::shared_ptr<BoundModel> model_;
  mutable std::mutex mutex_;  // of what follows
  Dialog dialog_;
  dialog::ThoughtMarks thoughts_;
  dialog::Constraints constraints_;
  std::optional<dialog::OutputParser> parser_;
  dialog::AnswerParts parts_;
  std::unique_ptr<TextRun> run_;
  bool ended_ = false;
};

}  // namespace bind
}  // namespace toy
