// What a reply is made of, and the interface of the forms that APIs give it. A form sees the texts of one request as
// they come: begin(), a piece() for each token, choice_end() for each choice, end(). A reply that is not streamed is
// one body().
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dialog/output.h"
#include "serve/api/api.h"
#include "serve/http/http_server.h"
#include "toy/decode/service.h"

namespace toy::serve {

/// One text of a request. After the end of the text everything is set.
struct Choice {
  int64_t index = 0;
  std::vector<int32_t> prompt;
  std::string echoed;  ///< the prompt's text, with `echo`
  std::string text;    ///< for the reader, so far
  std::string thought;
  int64_t thought_tokens = 0;
  std::vector<ToolCall> calls;
  TextEnd end;  ///< its `text` is a part of `text`
};

/// All texts of a request.
struct Reply {
  std::vector<Choice> choices;
  int64_t prompt_tokens = 0;                                        ///< of each prompt once
  int64_t prompts = 0;                                              ///< the choices of a prompt follow each other
  std::optional<std::chrono::steady_clock::time_point> first = {};  ///< when the first token came
  int64_t thought_tokens() const {
    int64_t n = 0;
    for (const Choice& c : choices) n += c.thought_tokens;
    return n;
  }
  int64_t cached_tokens() const {  ///< of the prompts, that were not computed again; known at the end
    int64_t n = 0;
    for (int64_t i = 0; i < prompts; ++i)
      n += choices[size_t(i) * choices.size() / size_t(prompts)].end.generated.shared;
    return n;
  }
  int64_t tokens() const {  ///< generated, of the choices that have ended
    int64_t n = 0;
    for (const Choice& c : choices) n += int64_t(c.end.generated.tokens.size());
    return n;
  }
};

/// What all parts of a reply have in common.
struct ReplyHead {
  std::string id, model;
  int64_t created = 0;  ///< seconds since 1970
};

/// The form of an error.
using ErrorBody = std::string (*)(const ApiError& e);
/// What a client is told about an exception: status 503 or 429 for ServiceBusy, 400 for Error{bad_input}, else 500.
ApiError api_error(const std::exception_ptr& error);
/// A complete reply for an error, with the headers that its status needs.
HttpReply error_reply(const ApiError& e, ErrorBody body = error_body);

/// The form of one reply. It is made for its request and may keep what it has to know between the parts. The parts of a
/// stream are complete events, or lines, any number of them; "" sends nothing.
class ReplyFormat {
 public:
  virtual ~ReplyFormat() = default;
  /// Of a stream.
  virtual const char* type() const { return "text/event-stream"; }
  /// What clients of a stream skip; "": there is no such thing.
  virtual std::string comment() const { return ": keep-alive\n\n"; }
  /// The reply where it is not streamed.
  virtual std::string body(const Reply& reply) = 0;

  /// Before the first piece. The choices have their prompts only.
  virtual std::string begin(const Reply& reply) = 0;
  /// A token of a choice came, whose text and calls have what it added. Called for tokens that add nothing, too.
  virtual std::string piece(const Choice& choice, const Piece& piece) = 0;
  /// A choice is complete; `rest` was held back until now and is in no piece().
  virtual std::string choice_end(const Choice& choice, const Piece& rest) = 0;
  /// All choices are complete.
  virtual std::string end(const Reply& reply) = 0;
  /// Instead of everything that would follow: the texts could not be computed.
  virtual std::string error(const ApiError& e) { return "data: " + error_body()(e) + "\n\n"; }
  /// The body where nothing was sent yet.
  virtual ErrorBody error_body() const { return serve::error_body; }
};

/// A form whose stream has parts that follow each other: thoughts, texts, and calls.
class PartsFormat : public ReplyFormat {
 public:
  std::string piece(const Choice& choice, const Piece& piece) final;
  std::string choice_end(const Choice& choice, const Piece& rest) final;

 protected:
  enum class Part { none, thought, text, call };
  /// open_ begins; of a call its id and name are known.
  virtual std::string begin_part(const ToolCall& call) = 0;
  virtual std::string add(const std::string& added) = 0;
  /// open_ is complete, or as far as it goes: the text is cut off.
  virtual std::string end_part(bool complete) = 0;
  Part open_ = Part::none;
  int64_t parts_ = 0;  ///< that were begun

 private:
  std::string close(bool complete);
  std::string open(Part part, const ToolCall& call = {});
};

}  // namespace toy::serve
