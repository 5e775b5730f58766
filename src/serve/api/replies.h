// OpenAI's forms of a reply: completions and chats.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/reply_format.h"
#include "toy/text/tokenizer.h"

namespace toy::serve {

/// Bytes as numbers.
nlohmann::ordered_json bytes_json(const std::string& bytes);
/// {"prompt_tokens": ..., "completion_tokens": ..., "total_tokens": ...}
nlohmann::ordered_json usage(const Reply& reply);
/// The "logprobs" of chat: an item for each token but those that end a text. With `ids` each says its id, and whether
/// it is `special`: no part of the text.
nlohmann::ordered_json chat_logprobs(const Tokenizer& tokenizer, const std::vector<GeneratedToken>& tokens,
                                     bool ids = false);
/// The "logprobs" of completions. `offset`: characters of the text before. The first token of an echoed prompt has
/// none: `first` is its id.
nlohmann::ordered_json completion_logprobs(const Tokenizer& tokenizer, const std::vector<GeneratedToken>& tokens,
                                           int64_t& offset, std::optional<int32_t> first = {});

/// What both forms share. Each choice of theirs is an object with index, logprobs and finish_reason.
class OpenAiFormat : public ReplyFormat {
 public:
  /// `tokenizer` must outlive it.
  OpenAiFormat(ReplyHead head, const CompletionRequest& request, const Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        head_(std::move(head)),
        logprobs_(request.logprobs),
        ids_(request.token_ids),
        include_usage_(request.include_usage) {}
  std::string body(const Reply& reply) override;
  std::string piece(const Choice& choice, const Piece& piece) override;
  std::string choice_end(const Choice& choice, const Piece& rest) override;
  std::string end(const Reply& reply) override;

 protected:
  /// The object's name.
  virtual const char* object(bool streamed) const = 0;
  /// Text and calls of a complete choice, or of a part.
  virtual void fill(nlohmann::ordered_json& j, const Choice& choice) const = 0;
  virtual void fill_part(nlohmann::ordered_json& j, const Piece& piece) const = 0;
  /// Only for requests with logprobs.
  virtual nlohmann::ordered_json logprobs(const Choice& choice) const = 0;
  virtual nlohmann::ordered_json part_logprobs(const Choice& choice, const GeneratedToken& token) = 0;

  nlohmann::ordered_json head(bool streamed) const;
  std::string choice_event(const nlohmann::ordered_json& choice) const;
  std::string part_event(int64_t index, const Piece& piece, nlohmann::ordered_json logprobs,
                         nlohmann::ordered_json reason) const;

  const Tokenizer& tokenizer_;
  const ReplyHead head_;
  const std::optional<int> logprobs_;
  const bool ids_, include_usage_;
};

/// /v1/completions
class CompletionFormat : public OpenAiFormat {
 public:
  CompletionFormat(ReplyHead head, const CompletionRequest& request, const Tokenizer& tokenizer)
      : OpenAiFormat(std::move(head), request, tokenizer), echo_(request.echo) {}
  std::string begin(const Reply&) override { return ""; }

 private:
  const char* object(bool streamed) const override;
  void fill(nlohmann::ordered_json& j, const Choice& choice) const override;
  void fill_part(nlohmann::ordered_json& j, const Piece& piece) const override;
  nlohmann::ordered_json logprobs(const Choice& choice) const override;
  nlohmann::ordered_json part_logprobs(const Choice& choice, const GeneratedToken& token) override;
  const bool echo_;
  std::map<int64_t, int64_t> offsets_;  // characters that were streamed, by choice
};

/// /v1/chat/completions
class ChatFormat : public OpenAiFormat {
 public:
  using OpenAiFormat::OpenAiFormat;
  std::string begin(const Reply& reply) override;

 private:
  const char* object(bool streamed) const override;
  void fill(nlohmann::ordered_json& j, const Choice& choice) const override;
  void fill_part(nlohmann::ordered_json& j, const Piece& piece) const override;
  nlohmann::ordered_json logprobs(const Choice& choice) const override;
  nlohmann::ordered_json part_logprobs(const Choice& choice, const GeneratedToken& token) override;
};

}  // namespace toy::serve
