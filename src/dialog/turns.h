// Which parts of a rendered conversation the assistant has to write.
#pragma once

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "toy/chat/chat_template.h"
#include "toy/text/tokenizer.h"

namespace toy::dialog {

/// What of a message may be learned: its turn; of one that goes on behind what tools answered, what it says there by
/// itself; the end of its turn.
struct Learned {
  bool turn = true, answer = true, end = true;
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
  /// So many turns are found by rendering all messages again for each, and more by rendering a few messages.
  static constexpr size_t kFew = 16;
  TurnFinder(const Tokenizer& tokenizer, const RenderedTurns& rendered, Render render, size_t few = kFew);

  /// The learned parts of the text, sorted. Throws Error{bad_input} where a turn cannot be found, or there is none.
  std::vector<TextSpan> turns();
  /// The same where the template marks what is generated: those of these spans that belong to learned messages.
  std::vector<TextSpan> generated(const std::vector<TextSpan>& spans);
  /// What turns() found that may be wrong.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  using json = nlohmann::ordered_json;
  /// Rendered messages, and how far behind a place in their text it is in the whole one.
  struct Part {
    const json& messages;
    const std::string& text;
    size_t shift = 0;
  };
  /// Adds the spans of a turn, whose message has one number in the part and one in the whole. Gives where it begins and
  /// where all its spans end; nullopt: it is not found.
  using Each =
      std::function<std::optional<TextSpan>(const Part& part, size_t at, size_t i, std::vector<TextSpan>& spans)>;

  std::vector<size_t> answers(bool learned) const;
  std::vector<TextSpan> spans_of(const std::vector<size_t>& turns, const Each& each);
  bool in_windows(const std::vector<size_t>& turns, const Each& each, std::vector<TextSpan>& spans);
  std::vector<size_t> window(size_t first, size_t last) const;
  std::optional<TextSpan> find(const Part& part, size_t i, Learned learned, std::vector<TextSpan>& out);
  std::optional<TextSpan> change(const Part& part, const json& other) const;
  std::optional<TextSpan> turn(const Part& part, size_t i) const;
  std::optional<TextSpan> results(const Part& part, size_t i) const;
  std::optional<size_t> rounds(const Part& part, size_t i) const;
  std::optional<TextSpan> said_beside(const Part& part, size_t i, const TextSpan& its, const TextSpan& results) const;
  size_t begin(const Part& part, size_t i, size_t differs);
  size_t end(size_t last);
  size_t call_end(size_t from, size_t answers);
  size_t place(const Part& part, size_t at) const { return std::min(at + part.shift, r_.text.size()); }
  size_t token_at(size_t place) const;
  const std::string& head();
  const std::string& tail();
  bool is_mark(int32_t id) const;
  void note(const std::string& text);

  const Tokenizer& tokenizer_;
  const RenderedTurns r_;
  const Render render_;
  const size_t few_;
  const std::vector<int32_t> ends_;
  std::string roles_;  // [messages]: (u)ser, (a)ssistant, (t)ool or -
  std::vector<std::string> notes_;
  std::optional<std::string> head_;  // what an answer begins with behind its prompt
  std::optional<std::string> tail_;  // what a conversation ends with behind an answer
};

}  // namespace toy::dialog
