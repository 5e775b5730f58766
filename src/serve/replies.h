// The texts of a request, as OpenAI's objects.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "serve/api.h"
#include "toy/decode/service.h"
#include "toy/text/tokenizer.h"

namespace toy::serve {

/// What all parts of a reply have in common.
struct ReplyHead {
  std::string id, model;
  int64_t created = 0;
  bool chat = false;
};

/// One text of a request.
struct Choice {
  int64_t index = 0;
  std::vector<int32_t> prompt;
  std::string echoed;  ///< the prompt's text, with `echo`
  std::string text;
  TextEnd end;
  int64_t offset = 0;  ///< characters that were streamed, of their tokens
};

/// "stop" or "length".
std::string finish_reason(FinishReason reason);
/// {"prompt_tokens": ..., "completion_tokens": ..., "total_tokens": ...}
nlohmann::ordered_json usage(int64_t prompt_tokens, int64_t tokens);
/// The "logprobs" of chat: an item for each token but those that end a text. With `ids` each says its id, and whether
/// it is `special`: no part of the text.
nlohmann::ordered_json chat_logprobs(const Tokenizer& tokenizer, const std::vector<GeneratedToken>& tokens,
                                     bool ids = false);
/// The "logprobs" of completions. `offset`: characters of the text before. The first token of an echoed prompt has
/// none: `first` is its id.
nlohmann::ordered_json completion_logprobs(const Tokenizer& tokenizer, const std::vector<GeneratedToken>& tokens,
                                           int64_t& offset, std::optional<int32_t> first = {});
/// The complete reply.
std::string reply_body(const ReplyHead& head, const CompletionRequest& request, const Tokenizer& tokenizer,
                       const std::vector<Choice>& choices, int64_t prompt_tokens);
/// One event of a stream: "data: {...}\n\n". `reason` is "" before the end.
std::string stream_event(const ReplyHead& head, int64_t index, const std::string& text, const std::string& reason,
                         const nlohmann::ordered_json& logprobs, bool with_role, bool null_usage);
/// The event that has the usage.
std::string usage_event(const ReplyHead& head, int64_t prompt_tokens, int64_t tokens);

}  // namespace toy::serve
