// What a model writes, as thought, text and calls.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "dialog/call_parser.h"
#include "dialog/output.h"
#include "dialog/thoughts.h"

namespace toy::dialog {

/// Splits one text as it comes. Calls are looked for after the thought only.
class OutputParser {
 public:
  /// Without `thoughts` and `calls` everything is text.
  explicit OutputParser(std::optional<ThoughtSplitter> thoughts = {}, std::unique_ptr<CallParser> calls = nullptr)
      : thoughts_(std::move(thoughts)), calls_(std::move(calls)) {}
  /// What these bytes add.
  Piece push(std::string_view bytes);
  /// The remainder at the end of the text.
  Piece finish();
  bool in_thought() const { return (thoughts_ && thoughts_->in_thought()) || (calls_ && calls_->in_thought()); }

 private:
  void add(Piece& to, const std::vector<ThoughtPart>& parts);
  std::optional<ThoughtSplitter> thoughts_;
  std::unique_ptr<CallParser> calls_;
};

/// How a text after this prompt begins, by the marks of its chat template.
ThoughtState thought_state_after(std::span<const int32_t> prompt, const Tokenizer& tokenizer,
                                 const std::string& chat_template);

}  // namespace toy::dialog
