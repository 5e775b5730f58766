// Which parts of a rendered conversation the assistant has to write.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "toy/chat/chat_template.h"
#include "toy/text/tokenizer.h"

namespace toy::dialog {

/// What of a message may be learned: its turn; of one that goes on behind what tools answered (`tool_responses`), that
/// answer by itself.
struct Learned {
  bool turn = true, answer = true;
  bool any() const { return turn || answer; }
};

/// A rendered conversation.
struct RenderedTurns {
  const nlohmann::ordered_json& messages;
  const std::vector<Learned>& learned;  ///< [messages]: may its turn be learned?
  const std::string& text;              ///< without a prompt for another answer
  const std::vector<int32_t>& ids;      ///< of the text
  const std::vector<size_t>& begins;    ///< [ids + 1]: where they begin in the text
};

/// Finds the turns of the assistant by rendering the conversation with other messages. All that it is given must
/// outlive it.
class TurnFinder {
 public:
  /// Renders messages, perhaps with a prompt that asks for an answer; nullopt: the template refuses them.
  using Render = std::function<std::optional<std::string>(const nlohmann::ordered_json& messages, bool asks)>;
  TurnFinder(const Tokenizer& tokenizer, const RenderedTurns& rendered, Render render);

  /// The learned parts of the text, sorted. Throws Error{bad_input} where a turn cannot be found, or there is none.
  std::vector<TextSpan> turns();
  /// The same where the template marks what is generated: those of these spans that belong to learned messages.
  std::vector<TextSpan> generated(const std::vector<TextSpan>& spans);
  /// What turns() found that may be wrong.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  using json = nlohmann::ordered_json;
  struct Change {
    size_t begin = 0, end = 0;  // of the text
  };
  bool is_answer(size_t i) const;
  std::vector<size_t> wanted() const;
  std::vector<TextSpan> one_by_one(const std::vector<size_t>& turns);
  std::optional<std::vector<TextSpan>> together(const std::vector<size_t>& turns);
  void find(size_t i, std::vector<TextSpan>& out);
  std::optional<Change> change(const json& other) const;
  std::optional<Change> turn(size_t i) const;
  std::optional<Change> results(size_t i) const;
  std::optional<Change> rounds(size_t i) const;
  size_t begin(size_t i, size_t differs);
  size_t end(size_t i, size_t last);
  size_t call_end(size_t i, size_t from, size_t answers);
  size_t token_at(size_t place) const;
  const std::string& head();
  const std::string& tail(size_t i);
  bool is_mark(int32_t id) const;
  void note(const std::string& text);

  const Tokenizer& tokenizer_;
  const RenderedTurns r_;
  const Render render_;
  const std::vector<int32_t> ends_;
  std::vector<std::string> notes_;
  std::optional<std::string> head_;  // what an answer begins with behind its prompt
  std::optional<std::string> tail_;  // what a conversation ends with behind an answer
};

}  // namespace toy::dialog
