// Conversations: from messages and tools to the tokens that a model reads, and to those that it learns.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "toy/chat/chat_template.h"
#include "toy/text/tokenizer.h"

namespace toy {

namespace dialog {
struct CallForm;
struct Shown;
struct TemplateInput;
}  // namespace dialog
struct DialogInput;

/// A conversation as the model reads it.
struct DialogText {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<std::string> notes;  ///< what may be wrong: fields without an effect
};

/// Which of the assistant's tokens are learned.
struct LearnOptions {
  bool everything = false;  ///< all tokens, whoever wrote them
  size_t from = 0;          ///< the first message that is learned
};

/// A conversation to learn from.
struct LearnedDialog {
  std::vector<int32_t> ids;
  std::vector<uint8_t> trained;    ///< [ids]; the first is never
  std::vector<std::string> notes;  ///< as DialogText's, and turns that nothing ends
};

/// The one way from messages to tokens: requests, chats, training rows and evaluations take it. Names of control tokens
/// in what people and tools wrote stay letters. Immutable; any thread may use it.
class Dialog {
 public:
  /// The tokenizer must outlive it.
  Dialog(const Tokenizer& tokenizer, ChatTemplate chat);
  ~Dialog();
  Dialog(const Dialog&) = delete;
  Dialog& operator=(const Dialog&) = delete;

  /// The prompt that asks for an answer; with `answered` the complete conversation. Throws Error{bad_input} for
  /// messages that are none, naming the message, and for what the template refuses.
  DialogText render(const DialogInput& input) const;
  /// The complete conversation, and which of its tokens count: what the assistant has to write after the prompt that
  /// render() gives for the messages before a turn, up to the token that ends it. What tools answered does not count.
  /// A message with `weight` 0, `train` false or `loss_mask` 0 is not learned. Throws as render(), where a turn cannot
  /// be found, and where nothing is the assistant's.
  LearnedDialog learned(const DialogInput& input, const LearnOptions& options = {}) const;

  const ChatTemplate& chat() const { return chat_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// How the model writes calls; nullptr: in no known way.
  const dialog::CallForm* form() const { return form_; }

 private:
  struct Prepared;
  struct Rendering;
  Prepared prepare(const DialogInput& input) const;
  dialog::TemplateInput input_for(dialog::TemplateInput in) const;
  Rendering rendering(const Prepared& p, bool asks) const;

  const Tokenizer& tokenizer_;
  ChatTemplate chat_;
  const dialog::CallForm* form_;
  std::unique_ptr<dialog::Shown[]> shown_;  // by the template, of conversations without tools and with them
};

}  // namespace toy
