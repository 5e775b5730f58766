// From what a request says to the tokens that a text continues.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/api/api.h"
#include "toy/dialog/dialog.h"
#include "toy/text/tokenizer.h"

namespace toy::serve {

/// What else a conversation is rendered with.
struct ChatContext {
  const char* field = "messages";                                       ///< of the request, for messages
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< more ones of the template
  bool answered = false;   ///< the last message is an answer: no other one begins
  bool continues = false;  ///< the last message is the beginning of an answer, which goes on
};

/// The model's side of prompts: tokenizer, chat template and limits. What does not fit it is an ApiError with status
/// 400.
class Prompts {
 public:
  /// `dialog`: nullptr where the model has no chat template. `context`: positions of one text. `vocab`: token ids are
  /// below. Tokenizer and dialog must outlive it.
  Prompts(const Tokenizer& tokenizer, const Dialog* dialog, int64_t context, int64_t vocab)
      : tokenizer_(tokenizer), dialog_(dialog), context_(context), vocab_(vocab) {}

  /// The prompts of a request; none is empty.
  std::vector<std::vector<int32_t>> of(const CompletionRequest& r) const;
  /// Texts of the field `input`, which nothing continues.
  std::vector<std::vector<int32_t>> complete(const std::vector<PromptSource>& sources) const;
  /// Throws for more tokens than the context holds.
  void require_fits(int64_t tokens, const char* name) const;
  /// Messages, tools, and the beginning of the answer. Throws for a model without a chat template, and what the
  /// template says.
  DialogText chat(const nlohmann::ordered_json& messages, const std::vector<Tool>& tools = {},
                  const ChatContext& context = {}) const;
  /// How many tokens follow a prompt of this many, at most: what is asked for, or what fits. Throws for a prompt that
  /// leaves no room.
  int64_t length(const CompletionRequest& r, int64_t prompt) const;
  void require_ids(const std::vector<int32_t>& ids, const char* param) const;

 private:
  std::vector<std::vector<int32_t>> filled(const CompletionRequest& r) const;
  using Encode = std::vector<int32_t> (*)(const Tokenizer&, std::string_view, EncodeOptions);
  std::vector<std::vector<int32_t>> of(const std::vector<PromptSource>& sources, const char* name, Encode encode,
                                       EncodeOptions options) const;
  const Tokenizer& tokenizer_;
  const Dialog* dialog_;
  int64_t context_, vocab_;
};

}  // namespace toy::serve
