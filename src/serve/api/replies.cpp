#include "serve/api/replies.h"

#include <algorithm>

#include "dialog/call_text.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// Code points; bytes that are no UTF-8 count as one each.
int64_t characters(const std::string& text) {
  const std::string valid = valid_utf8(text);
  return std::ranges::count_if(valid, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string event(const ordered_json& j) { return "data: " + json_text(j) + "\n\n"; }

ordered_json finish_reason(const Choice& choice) {
  const FinishReason reason = choice.end.generated.reason;
  if (reason == FinishReason::length || reason == FinishReason::deadline) return "length";
  if (choice.calls.empty()) return "stop";
  // A stop string may have cut the last one off.
  const bool whole = choice.end.stop.empty() || json_of(choice.calls.back().arguments);
  return whole ? "tool_calls" : "stop";
}

ordered_json call_json(const ToolCall& call) {
  return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

}  // namespace

ordered_json bytes_json(const std::string& bytes) {
  ordered_json list = ordered_json::array();
  for (const char c : bytes) list.push_back(int(static_cast<unsigned char>(c)));
  return list;
}

ordered_json usage(const Reply& reply) {
  const int64_t prompt = reply.prompt_tokens, tokens = reply.tokens();
  ordered_json j{{"prompt_tokens", prompt},
                 {"completion_tokens", tokens},
                 {"total_tokens", prompt + tokens},
                 {"prompt_tokens_details", {{"cached_tokens", reply.cached_tokens()}}}};
  if (const int64_t thoughts = reply.thought_tokens(); thoughts > 0)
    j["completion_tokens_details"] = {{"reasoning_tokens", thoughts}};
  return j;
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
    if (!t.best.empty()) top[token_text(tokenizer.written(t.chosen.id))] = t.chosen.logprob;
    add(t.chosen.id, t.chosen.logprob, std::move(top));
  }
  return {{"tokens", names}, {"token_logprobs", logprobs}, {"top_logprobs", best}, {"text_offset", offsets}};
}

ordered_json OpenAiFormat::head(bool streamed) const {
  return {{"id", head_.id}, {"object", object(streamed)}, {"created", head_.created}, {"model", head_.model}};
}

std::string OpenAiFormat::body(const Reply& reply) {
  ordered_json j = head(false), list = ordered_json::array();
  for (const Choice& c : reply.choices) {
    ordered_json choice{{"index", c.index}};
    fill(choice, c);
    choice["logprobs"] = logprobs_ ? logprobs(c) : ordered_json();
    choice["finish_reason"] = finish_reason(c);
    list.push_back(std::move(choice));
  }
  j["choices"] = std::move(list);
  j["usage"] = usage(reply);
  return json_text(j);
}

std::string OpenAiFormat::choice_event(const ordered_json& choice) const {
  ordered_json j = head(true);
  j["choices"] = ordered_json::array({choice});
  if (include_usage_) j["usage"] = nullptr;
  return event(j);
}

std::string OpenAiFormat::part_event(int64_t index, const Piece& piece, ordered_json logprobs,
                                     ordered_json reason) const {
  ordered_json choice{{"index", index}};
  fill_part(choice, piece);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(reason);
  return choice_event(choice);
}

std::string OpenAiFormat::piece(const Choice& choice, const Piece& piece) {
  if (piece.text.empty() && piece.thought.empty() && piece.calls.empty() && !logprobs_) return "";
  return part_event(choice.index, piece, logprobs_ ? part_logprobs(choice, *piece.token) : ordered_json(), nullptr);
}

std::string OpenAiFormat::choice_end(const Choice& choice, const Piece& rest) {
  return part_event(choice.index, rest, nullptr, finish_reason(choice));
}

std::string OpenAiFormat::end(const Reply& reply) {
  std::string events;
  if (include_usage_) {
    ordered_json j = head(true);
    j["choices"] = ordered_json::array();
    j["usage"] = usage(reply);
    events = event(j);
  }
  return events + "data: [DONE]\n\n";
}

const char* CompletionFormat::object(bool) const { return "text_completion"; }

void CompletionFormat::fill(ordered_json& j, const Choice& choice) const { j["text"] = choice.echoed + choice.text; }

void CompletionFormat::fill_part(ordered_json& j, const Piece& piece) const { j["text"] = piece.text; }

ordered_json CompletionFormat::logprobs(const Choice& choice) const {
  const Generated& g = choice.end.generated;
  std::vector<GeneratedToken> all = g.prompt;
  all.insert(all.end(), g.tokens.begin(), g.tokens.end());
  int64_t offset = 0;
  ordered_json j =
      completion_logprobs(tokenizer_, all, offset, echo_ ? std::optional(choice.prompt.front()) : std::nullopt);
  if (ids_) j.update(chat_logprobs(tokenizer_, g.tokens, true));
  return j;
}

ordered_json CompletionFormat::part_logprobs(const Choice& choice, const GeneratedToken& token) {
  ordered_json j = completion_logprobs(tokenizer_, {token}, offsets_[choice.index]);
  if (ids_) j.update(chat_logprobs(tokenizer_, {token}, true));
  return j;
}

const char* ChatFormat::object(bool streamed) const { return streamed ? "chat.completion.chunk" : "chat.completion"; }

std::string ChatFormat::begin(const Reply& reply) {
  std::string events;
  for (const Choice& c : reply.choices)
    events += choice_event({{"index", c.index},
                            {"delta", {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}},
                            {"logprobs", nullptr},
                            {"finish_reason", nullptr}});
  return events;
}

void ChatFormat::fill(ordered_json& j, const Choice& choice) const {
  ordered_json message{{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
  if (!choice.thought.empty()) message["reasoning_content"] = choice.thought;
  if (!choice.calls.empty()) {
    if (choice.text.empty()) message["content"] = nullptr;
    for (const ToolCall& call : choice.calls) message["tool_calls"].push_back(call_json(call));
  }
  j["message"] = std::move(message);
}

void ChatFormat::fill_part(ordered_json& j, const Piece& piece) const {
  ordered_json delta = ordered_json::object();
  if (!piece.thought.empty()) delta["reasoning_content"] = piece.thought;
  if (!piece.text.empty()) delta["content"] = piece.text;
  for (const auto& [index, call] : piece.calls) {
    ordered_json part{{"index", index}};
    part.update(call.id.empty() ? ordered_json{{"function", {{"arguments", call.arguments}}}} : call_json(call));
    delta["tool_calls"].push_back(std::move(part));
  }
  j["delta"] = std::move(delta);
}

ordered_json ChatFormat::logprobs(const Choice& choice) const {
  return chat_logprobs(tokenizer_, choice.end.generated.tokens, ids_);
}

ordered_json ChatFormat::part_logprobs(const Choice&, const GeneratedToken& token) {
  return chat_logprobs(tokenizer_, {token}, ids_);
}

}  // namespace toy::serve
