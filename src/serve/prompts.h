// From what a request says to the tokens that a text continues.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dialog/call_forms.h"
#include "serve/api.h"
#include "toy/chat/chat_template.h"
#include "toy/text/tokenizer.h"

namespace toy::serve {

/// A conversation as the model reads it.
struct ChatPrompt {
  std::string text;
  std::vector<int32_t> ids;
};

/// What else a conversation is rendered with.
struct ChatContext {
  const char* field = "messages";                                       ///< of the request, for messages
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< more ones of the template
  bool answered = false;  ///< the last message is an answer: no other one begins
};

/// The model's side of prompts: tokenizer, chat template and limits. What does not fit it is an ApiError with status
/// 400.
class Prompts {
 public:
  /// `form`: of calls; nullptr: none is known. `context`: positions of one text. `vocab`: token ids are below.
  /// Tokenizer and template must outlive it.
  Prompts(const Tokenizer& tokenizer, const std::optional<ChatTemplate>& chat, const CallForm* form, int64_t context,
          int64_t vocab)
      : tokenizer_(tokenizer), chat_(chat), form_(form), context_(context), vocab_(vocab) {}

  /// The prompts of a request; none is empty.
  std::vector<std::vector<int32_t>> of(const CompletionRequest& r) const;
  /// Texts of the field `input`, which nothing continues.
  std::vector<std::vector<int32_t>> complete(const std::vector<PromptSource>& sources) const;
  /// Throws for more tokens than the context holds.
  void require_fits(int64_t tokens, const char* name) const;
  /// Messages, tools, and the beginning of the answer. Throws for a model without a chat template, and what the
  /// template says.
  ChatPrompt chat(const nlohmann::ordered_json& messages, const std::vector<Tool>& tools = {},
                  const ChatContext& context = {}) const;
  /// How many tokens follow a prompt of this many, at most.
  int64_t length(const CompletionRequest& r, int64_t prompt) const;
  void require_ids(const std::vector<int32_t>& ids, const char* param) const;

 private:
  using Encode = std::vector<int32_t> (*)(const Tokenizer&, std::string_view, EncodeOptions);
  std::vector<std::vector<int32_t>> of(const std::vector<PromptSource>& sources, const char* name, Encode encode,
                                       EncodeOptions options) const;
  std::string rendered(const nlohmann::ordered_json& messages, const std::vector<Tool>& tools,
                       const ChatContext& context) const;
  const Tokenizer& tokenizer_;
  const std::optional<ChatTemplate>& chat_;
  const CallForm* form_;
  int64_t context_, vocab_;
};

}  // namespace toy::serve
