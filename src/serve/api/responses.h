// /v1/responses: OpenAI's newer form of a conversation. Nothing is stored.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/api/reply_format.h"

namespace toy::serve {

/// A request: a chat, and what the reply repeats of it.
struct ResponsesRequest {
  CompletionRequest completion;
  nlohmann::ordered_json settings;
};
/// From the body of a request. Throws ApiError as parse_completion(), and for what needs a store.
ResponsesRequest parse_responses(const std::string& body, const UsualSampling& usual = {});

/// A response, and the events of a stream, which are numbered.
class ResponsesFormat : public PartsFormat {
 public:
  /// `settings`: of a ResponsesRequest.
  ResponsesFormat(ReplyHead head, const nlohmann::ordered_json& settings);
  std::string body(const Reply& reply) override;
  std::string begin(const Reply& reply) override;
  std::string end(const Reply& reply) override;
  std::string error(const ApiError& e) override;

 private:
  std::string event(const std::string& type, const nlohmann::ordered_json& rest);
  std::string item_event(const std::string& type, const nlohmann::ordered_json& rest);
  std::string begin_part(const ToolCall& call) override;
  std::string add(const std::string& added) override;
  std::string end_part(bool complete) override;
  nlohmann::ordered_json response(const Reply& reply, const char* status) const;
  const char* status(const Reply& reply) const;

  const ReplyHead head_;
  const std::string settings_;                 // JSON: as a tree, large tools would take many times as much
  std::vector<nlohmann::ordered_json> items_;  // of the output; the last one may be open
  int64_t events_ = 0;
};

}  // namespace toy::serve
