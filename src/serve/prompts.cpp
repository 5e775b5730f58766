#include "serve/prompts.h"

#include <fmt/format.h>

#include <algorithm>

#include "dialog/constraints.h"
#include "dialog/fields.h"
#include "serve/api/fill.h"
#include "toy/base/error.h"
#include "toy/chat/builtin.h"
#include "toy/dialog/dialog_input.h"

namespace toy::serve {

using nlohmann::ordered_json;

DialogText Prompts::chat(const ordered_json& messages, const std::vector<Tool>& tools,
                         const ChatContext& context) const {
  if (dialog_ == nullptr)
    throw ApiError(400,
                   fmt::format("the model has no chat template; use /v1/completions, or start the server with {}",
                               chat_template_option(tokenizer_)),
                   context.field);
  DialogInput input{.messages = messages,
                    .variables = context.variables,
                    .answered = context.answered,
                    .continues = context.continues};
  for (const Tool& tool : tools) input.tools.push_back(tool.json);
  try {
    return dialog_->render(input);
  } catch (const FieldError&) {
    throw;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) throw;
    throw ApiError(400, e.what(), context.field);
  }
}

std::vector<std::vector<int32_t>> Prompts::of(const CompletionRequest& r) const {
  if (r.chat)
    return {chat(r.messages, calls_tools(r) ? r.tools : std::vector<Tool>(),
                 {.field = r.source, .variables = r.variables, .continues = r.continues})
                .ids};
  return r.hole ? filled(r) : of(r.prompts, "prompt", encode_prompt, {.parse_special = r.parse_special});
}

std::vector<std::vector<int32_t>> Prompts::filled(const CompletionRequest& r) const {
  std::vector<std::vector<int32_t>> result;
  for (const PromptSource& p : r.prompts) {
    const auto* text = std::get_if<std::string>(&p);
    if (text == nullptr)
      throw ApiError(400, "'suffix' goes with a prompt that is a text, not with token ids", "suffix");
    result.push_back(fill_prompt(tokenizer_, *text, r.suffix, "suffix", r.files));
  }
  return result;
}

std::vector<std::vector<int32_t>> Prompts::complete(const std::vector<PromptSource>& sources) const {
  return of(sources, "input", encode_complete, {.parse_special = true});
}

std::vector<std::vector<int32_t>> Prompts::of(const std::vector<PromptSource>& sources, const char* name, Encode encode,
                                              EncodeOptions options) const {
  std::vector<std::vector<int32_t>> result;
  for (const PromptSource& p : sources) {
    const auto* ids = std::get_if<std::vector<int32_t>>(&p);
    if (ids) require_ids(*ids, name);
    result.push_back(ids ? *ids : encode(tokenizer_, std::get<std::string>(p), options));
    if (result.back().empty())
      throw ApiError(400, fmt::format("the {} is empty; send a text (this model begins texts with no token)", name),
                     name);
  }
  return result;
}

void Prompts::require_fits(int64_t tokens, const char* name) const {
  if (tokens > context_)
    throw ApiError(400,
                   fmt::format("This model's maximum context length is {} tokens. However, the {} has {} tokens. "
                               "Please reduce its length.",
                               context_, name, tokens),
                   name, "context_length_exceeded");
}

// How many tokens follow a prompt.
int64_t Prompts::length(const CompletionRequest& r, int64_t prompt) const {
  constexpr int64_t kUnsaid = 16;  // as OpenAI's
  const int64_t room = context_ - prompt, wanted = r.max_tokens ? *r.max_tokens : r.chat ? kMostTokens : kUnsaid;
  if (room < std::min<int64_t>(wanted, 1))
    throw ApiError(400,
                   fmt::format("This model's maximum context length is {} tokens. However, there are {} in the {}, and "
                               "no room for an answer. Please reduce the length of the {}.",
                               context_, prompt, r.source, r.source),
                   r.source, "context_length_exceeded");
  return std::min(wanted, room);
}

void Prompts::require_ids(const std::vector<int32_t>& ids, const char* param) const {
  for (const int32_t id : ids)
    if (id >= vocab_)
      throw ApiError(
          400, fmt::format("'{}': token id {} is outside the vocabulary; use 0 to {}", param, id, vocab_ - 1), param);
}

}  // namespace toy::serve
