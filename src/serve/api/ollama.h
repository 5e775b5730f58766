// /api/chat, /api/generate, /api/embed and /api/embeddings: Ollama's form of requests and replies.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "serve/api/embeddings.h"
#include "serve/api/reply_format.h"

namespace toy::serve {

/// A request for a text.
struct OllamaRequest {
  CompletionRequest completion;
  bool generates = false;   ///< /api/generate, whose reply has `response` instead of a message
  bool loads_only = false;  ///< it has no message and no prompt: clients ask so for the model to be loaded
};
/// From the bodies of requests, with Ollama's values where they say nothing. `has_template`: the model has a chat
/// template; without one a prompt is continued as it is. Throw FieldError as parse_completion().
OllamaRequest parse_ollama_chat(const std::string& body, const UsualSampling& usual = {});
OllamaRequest parse_ollama_generate(const std::string& body, bool has_template, const UsualSampling& usual = {});
/// Several texts; or with `one` a single `prompt`.
EmbeddingsRequest parse_ollama_embeddings(const std::string& body, bool one);
/// The model that is asked about: /api/show.
std::string parse_ollama_show(const std::string& body);

/// {"error": MESSAGE}
std::string ollama_error(const ApiError& e);
/// {"model", "embeddings": [[...]]}, or {"embedding": [...]} for EmbeddingsRequest::ollama_one.
std::string ollama_embeddings_body(const std::vector<std::vector<float>>& embeddings, const std::string& model,
                                   EmbeddingsRequest::Form form, int64_t prompt_tokens);
/// Seconds since 1970 as 2026-01-31T12:00:00Z.
std::string ollama_time(int64_t seconds);

/// One object; or a line for each part, of which the last one has "done": true.
class OllamaFormat : public ReplyFormat {
 public:
  OllamaFormat(ReplyHead head, bool generates) : head_(std::move(head)), generates_(generates) {}
  const char* type() const override { return "application/x-ndjson"; }
  std::string comment() const override { return ""; }
  std::string body(const Reply& reply) override;
  std::string begin(const Reply&) override { return ""; }
  std::string piece(const Choice& choice, const Piece& piece) override;
  std::string choice_end(const Choice& choice, const Piece& rest) override;
  std::string end(const Reply& reply) override;
  std::string error(const ApiError& e) override { return ollama_error(e) + "\n"; }
  ErrorBody error_body() const override { return ollama_error; }
  /// The reply to a request that has nothing to continue.
  std::string loaded() const;

 private:
  nlohmann::ordered_json part(const std::string& text, const std::string& thought) const;
  nlohmann::ordered_json complete(nlohmann::ordered_json j, const Reply& reply) const;

  const ReplyHead head_;
  const bool generates_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace toy::serve
