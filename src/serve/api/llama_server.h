// /completion and /infill: llama-server's own form of a request for texts.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "serve/api/reply_format.h"
#include "toy/text/tokenizer.h"

namespace toy::serve {

/// From the body of a request, with llama-server's values where it says nothing. Throws FieldError as
/// parse_completion().
CompletionRequest parse_llama_completion(const std::string& body, const UsualSampling& usual = {});
/// The same for a text with a hole: `input_prefix`, `input_suffix`, `input_extra`, and `prompt`, which follows the
/// prefix.
CompletionRequest parse_infill(const std::string& body, const UsualSampling& usual = {});

/// What both reply: one object, or events with a part of the text each, of which the last one has "stop": true.
class LlamaFormat : public ReplyFormat {
 public:
  /// `tokenizer` must outlive it.
  LlamaFormat(ReplyHead head, const CompletionRequest& request, const Tokenizer& tokenizer);
  std::string body(const Reply& reply) override;
  std::string begin(const Reply&) override { return ""; }
  std::string piece(const Choice& choice, const Piece& piece) override;
  std::string choice_end(const Choice& choice, const Piece& rest) override;
  std::string end(const Reply& reply) override;

 private:
  nlohmann::ordered_json complete(const Choice& choice, const Reply& reply) const;
  nlohmann::ordered_json part(const Choice& choice, const std::string& text) const;
  nlohmann::ordered_json probabilities(const std::vector<GeneratedToken>& tokens) const;

  const ReplyHead head_;
  const bool ids_, logprobs_;
  nlohmann::ordered_json settings_;  // of the generation, as the reply says them
  const Tokenizer& tokenizer_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::map<int64_t, int64_t> of_;  // tokens of each choice
};

}  // namespace toy::serve
