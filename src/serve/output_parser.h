// What a model writes, as thought, text and calls.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "chat/thoughts.h"
#include "serve/call_parser.h"
#include "serve/reply_format.h"

namespace toy::serve {

/// Splits one text as it comes. Calls are looked for after the thought only.
class OutputParser {
 public:
  /// Without `thoughts` and `calls` everything is text.
  explicit OutputParser(std::optional<chat::ThoughtSplitter> thoughts = {}, std::unique_ptr<CallParser> calls = nullptr)
      : thoughts_(std::move(thoughts)), calls_(std::move(calls)) {}
  /// What these bytes add.
  Piece push(std::string_view bytes);
  /// The remainder at the end of the text.
  Piece finish();
  bool in_thought() const { return (thoughts_ && thoughts_->in_thought()) || (calls_ && calls_->in_thought()); }

 private:
  void add(Piece& to, const std::vector<chat::ThoughtPart>& parts);
  std::optional<chat::ThoughtSplitter> thoughts_;
  std::unique_ptr<CallParser> calls_;
};

/// How a text after this prompt begins, by the marks of its chat template.
chat::ThoughtState thought_state_after(std::span<const int32_t> prompt, const Tokenizer& tokenizer,
                                       const std::string& chat_template);

}  // namespace toy::serve
