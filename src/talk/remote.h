// Answers of a server with OpenAI's API: toy serve, llama-server, Ollama, and others.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "talk/replier.h"

namespace toy::talk {

/// The data of server-sent events, from bytes that come in any parts.
class EventReader {
 public:
  /// `on_data` sees the data of each event: what follows "data:", with line feeds between several lines.
  explicit EventReader(std::function<void(std::string_view)> on_data) : on_data_(std::move(on_data)) {}
  void push(std::string_view bytes);
  /// The stream has ended. Servers forget the empty line after the last event, so that it counts as well.
  void finish();

 private:
  void take_line();
  std::function<void(std::string_view)> on_data_;
  std::string line_, data_;
  bool first_ = true, after_return_ = false, has_data_ = false;
};

/// What is wrong, in one line, from the body of an answer with this status.
std::string error_text(long status, std::string_view body);

/// The body of a request: /v1/chat/completions, streamed. Thoughts are left out, but for those that have led to the
/// calls of the present answer.
nlohmann::ordered_json request_body(const std::string& model, const nlohmann::ordered_json& messages,
                                    const ReplySettings& settings, uint64_t again);

class RemoteModel : public Replier {
 public:
  /// `url`: "http://host:port", perhaps with "/v1". `model`: "" takes the first of /v1/models. Throws Error{bad_input}
  /// where there is no such server.
  RemoteModel(const std::string& url, std::string model, const std::string& api_key);
  ~RemoteModel() override;
  /// The names that a server lists. Throws as the constructor.
  static std::vector<std::string> models(const std::string& url, const std::string& api_key);
  const std::string& model() const;
  void require_tools(const nlohmann::ordered_json&) const override {}
  Reply reply(const nlohmann::ordered_json& messages, const ReplySettings& settings, uint64_t again,
              const std::function<void(const ReplyPart&)>& on_part, const std::function<bool()>& stop) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace toy::talk
