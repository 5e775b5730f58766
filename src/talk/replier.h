// Who answers: a model of this machine, or a server.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dialog/answer_rules.h"
#include "toy/decode/scheduler.h"

namespace toy::talk {

/// How answers are generated.
struct ReplySettings {
  GenerateOptions generate;        ///< max_tokens: at most; -1: as many as fit
  std::vector<std::string> stops;  ///< an answer ends before any of them
  nlohmann::ordered_json tools;    ///< that may be called, as dialog::normalized_tools() has them; null: none
  dialog::TextForm form;           ///< what an answer has to be; a server has it in `fields`
  nlohmann::ordered_json fields =
      nlohmann::ordered_json::object();  ///< those that were given, as OpenAI's API has them
};

/// A part of an answer as it comes, but for calls.
struct ReplyPart {
  std::string_view text;
  bool thought = false;  ///< of the model's thinking
};

/// Why an answer ended.
enum class ReplyEnd { done, length, stopped };

/// An answer.
struct Reply {
  nlohmann::ordered_json message;  ///< role, content, perhaps reasoning_content and tool_calls
  ReplyEnd end = ReplyEnd::done;
  int64_t tokens = 0;         ///< generated
  int64_t prompt_tokens = 0;  ///< of the conversation
  int64_t computed = 0;       ///< of these, those that were not taken over from earlier turns; -1: unknown
  double seconds = 0;         ///< from the first token of the answer to the last
};

/// A conversation that does not fit: what drop_oldest() would have to remove.
class DoesNotFit : public Error {
 public:
  DoesNotFit(const std::string& text, size_t oldest) : Error(ErrorCode::bad_input, text), oldest_turns(oldest) {}
  size_t oldest_turns;  ///< 0: removing turns does not help
};

class Replier {
 public:
  virtual ~Replier() = default;
  /// Throws Error{bad_input} for tools that the model cannot call.
  virtual void require_tools(const nlohmann::ordered_json& tools) const = 0;
  /// Answers the latest message, or goes on after the results of its calls. `on_part` sees the answer as it comes;
  /// `stop` is asked often, and ends it. `again` is added to the seed. Throws Error{bad_input} for a conversation that
  /// the template or the server refuses, and DoesNotFit.
  virtual Reply reply(const nlohmann::ordered_json& messages, const ReplySettings& settings, uint64_t again,
                      const std::function<void(const ReplyPart&)>& on_part, const std::function<bool()>& stop) = 0;
};

}  // namespace toy::talk
