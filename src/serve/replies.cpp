#include "serve/replies.h"

#include <algorithm>

#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

ordered_json bytes_json(const std::string& bytes) {
  ordered_json list = ordered_json::array();
  for (const char c : bytes) list.push_back(int(static_cast<unsigned char>(c)));
  return list;
}

// Code points; bytes that are no UTF-8 count as one each.
int64_t characters(const std::string& text) {
  const std::string valid = valid_utf8(text);
  return std::ranges::count_if(valid, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

ordered_json head_json(const ReplyHead& head, const char* chat_object, const char* completion_object) {
  return {{"id", head.id},
          {"object", head.chat ? chat_object : completion_object},
          {"created", head.created},
          {"model", head.model}};
}

std::string event(const ordered_json& j) { return "data: " + json_text(j) + "\n\n"; }

}  // namespace

std::string finish_reason(FinishReason reason) { return reason == FinishReason::length ? "length" : "stop"; }

ordered_json usage(int64_t prompt_tokens, int64_t tokens) {
  return {{"prompt_tokens", prompt_tokens}, {"completion_tokens", tokens}, {"total_tokens", prompt_tokens + tokens}};
}

ordered_json chat_logprobs(const Tokenizer& tokenizer, const std::vector<GeneratedToken>& tokens, bool ids) {
  const std::vector<int32_t> ends = tokenizer.end_of_generation();
  const auto item = [&](const TokenLogprob& t) {
    const std::string bytes = tokenizer.written(t.id);
    ordered_json j{{"token", token_text(bytes)}, {"logprob", t.logprob}, {"bytes", bytes_json(bytes)}};
    if (ids) j["id"] = t.id, j["special"] = tokenizer.token_bytes(t.id).empty();
    return j;
  };
  ordered_json content = ordered_json::array();
  for (const GeneratedToken& t : tokens) {
    if (std::ranges::find(ends, t.chosen.id) != ends.end()) continue;
    ordered_json j = item(t.chosen);
    j["top_logprobs"] = ordered_json::array();
    for (const TokenLogprob& b : t.best) j["top_logprobs"].push_back(item(b));
    content.push_back(std::move(j));
  }
  return {{"content", std::move(content)}};
}

ordered_json completion_logprobs(const Tokenizer& tokenizer, const std::vector<GeneratedToken>& tokens, int64_t& offset,
                                 std::optional<int32_t> first) {
  ordered_json names = ordered_json::array(), logprobs = names, best = names, offsets = names;
  const auto add = [&](int32_t id, ordered_json logprob, ordered_json top) {
    names.push_back(token_text(tokenizer.written(id)));
    logprobs.push_back(std::move(logprob));
    best.push_back(std::move(top));
    offsets.push_back(offset);
    // What begins a text may lose its space.
    offset += characters(first && offset == 0 ? tokenizer.decode(std::span(&id, 1)) : tokenizer.token_bytes(id));
  };
  if (first) add(*first, nullptr, nullptr);
  for (const GeneratedToken& t : tokens) {
    ordered_json top = ordered_json::object();
    for (const TokenLogprob& b : t.best) top[token_text(tokenizer.written(b.id))] = b.logprob;
    add(t.chosen.id, t.chosen.logprob, std::move(top));
  }
  return {{"tokens", names}, {"token_logprobs", logprobs}, {"top_logprobs", best}, {"text_offset", offsets}};
}

std::string reply_body(const ReplyHead& head, const CompletionRequest& request, const Tokenizer& tokenizer,
                       const std::vector<Choice>& choices, int64_t prompt_tokens) {
  ordered_json j = head_json(head, "chat.completion", "text_completion"), list = ordered_json::array();
  int64_t tokens = 0;
  for (const Choice& c : choices) {
    const Generated& g = c.end.generated;
    tokens += int64_t(g.tokens.size());
    ordered_json choice{{"index", c.index}};
    if (head.chat)
      choice["message"] = {{"role", "assistant"}, {"content", c.text}};
    else
      choice["text"] = c.echoed + c.text;
    choice["logprobs"] = nullptr;
    if (request.logprobs && head.chat) choice["logprobs"] = chat_logprobs(tokenizer, g.tokens, request.token_ids);
    if (request.logprobs && !head.chat) {
      std::vector<GeneratedToken> all = g.prompt;
      all.insert(all.end(), g.tokens.begin(), g.tokens.end());
      int64_t offset = 0;
      choice["logprobs"] =
          completion_logprobs(tokenizer, all, offset, request.echo ? std::optional(c.prompt.front()) : std::nullopt);
      if (request.token_ids) choice["logprobs"].update(chat_logprobs(tokenizer, g.tokens, true));
    }
    choice["finish_reason"] = finish_reason(g.reason);
    list.push_back(std::move(choice));
  }
  j["choices"] = std::move(list);
  j["usage"] = usage(prompt_tokens, tokens);
  return json_text(j);
}

std::string stream_event(const ReplyHead& head, int64_t index, const std::string& text, const std::string& reason,
                         const ordered_json& logprobs, bool with_role, bool null_usage) {
  ordered_json j = head_json(head, "chat.completion.chunk", "text_completion"), choice{{"index", index}};
  if (head.chat) {
    ordered_json delta = ordered_json::object();
    if (with_role) delta["role"] = "assistant";
    if (with_role || !text.empty()) delta["content"] = text;
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = logprobs;
  choice["finish_reason"] = reason.empty() ? ordered_json() : ordered_json(reason);
  j["choices"] = ordered_json::array({std::move(choice)});
  if (null_usage) j["usage"] = nullptr;
  return event(j);
}

std::string usage_event(const ReplyHead& head, int64_t prompt_tokens, int64_t tokens) {
  ordered_json j = head_json(head, "chat.completion.chunk", "text_completion");
  j["choices"] = ordered_json::array();
  j["usage"] = usage(prompt_tokens, tokens);
  return event(j);
}

}  // namespace toy::serve
