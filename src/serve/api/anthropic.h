// /v1/messages: Anthropic's form of a conversation.
#pragma once

#include <string>

#include "serve/api/reply_format.h"

namespace toy::serve {

/// From the body of a request: a chat. Throws ApiError as parse_completion(). `counts`: of /v1/messages/count_tokens,
/// which has no max_tokens.
CompletionRequest parse_messages(const std::string& body, bool counts = false, const UsualSampling& usual = {});
/// Throws ApiError for a version of the API (the header anthropic-version) that is not ours; "" is.
void require_anthropic_version(const std::string& version);
/// {"type": "error", "error": {"type": ..., "message": ...}}
std::string anthropic_error(const ApiError& e);

/// A message, and the events of a stream: message_start, for each block of content content_block_start, _delta and
/// _stop, then message_delta and message_stop.
class MessagesFormat : public PartsFormat {
 public:
  explicit MessagesFormat(ReplyHead head) : head_(std::move(head)) {}
  std::string body(const Reply& reply) override;
  std::string begin(const Reply& reply) override;
  std::string end(const Reply& reply) override;
  std::string error(const ApiError& e) override;
  ErrorBody error_body() const override { return anthropic_error; }

 private:
  std::string begin_part(const ToolCall& call) override;
  std::string add(const std::string& added) override;
  std::string end_part(bool complete) override;
  std::string delta(const char* type, const char* name, const std::string& added) const;
  const ReplyHead head_;
};

}  // namespace toy::serve
