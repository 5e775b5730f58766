// The thoughts of a model, which it writes between marks in front of its answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toy::dialog {

/// What stands around a thought, and in few families around the answer after it.
struct ThoughtMarks {
  std::string_view open = "<think>", close = "</think>";
  std::string_view call = {};                            ///< begins a call, which ends a thought, too
  std::string_view answer_open = {}, answer_close = {};  ///< both may be missing
  std::vector<std::string_view> tokens = {open, close};  ///< those of their texts that may be control tokens
};

/// The marks that the text of a chat template has; <think> and </think> where it has none.
ThoughtMarks thought_marks(std::string_view chat_template);
/// Where a text begins.
enum class ThoughtState {
  possible,  ///< perhaps with a thought
  begun,     ///< inside of a thought, which the prompt has begun
  ended,     ///< with the answer: the prompt has a thought, often an empty one, or the template knows none
};
/// From the end of a prompt that this template has made.
ThoughtState thought_state(std::string_view prompt, std::string_view chat_template);

/// A part of a text.
struct ThoughtPart {
  std::string text;
  bool thought = false;
};

/// Takes a thought at the beginning of a text from the answer after it. The marks are dropped, as are the blanks at
/// both ends of the thought and in front of the answer. A mark that closes an answer is one after the mark that opens
/// it, or at the end of the text. The result does not depend on how the text is cut.
class ThoughtSplitter {
 public:
  /// `begun`: the text begins inside of a thought.
  explicit ThoughtSplitter(const ThoughtMarks& marks = {}, bool begun = false)
      : marks_(marks), at_(begun ? thinking : beginning) {}
  std::vector<ThoughtPart> push(std::string_view text);
  /// The remainder at the end of the text.
  std::vector<ThoughtPart> finish();
  bool in_thought() const { return at_ == thinking; }

 private:
  bool take_open();
  std::string take_answer();
  ThoughtMarks marks_;
  enum { beginning, thinking, before_answer, answering } at_;
  std::string held_;
  bool any_ = false;     // some of the thought was given
  bool opened_ = false;  // the mark in front of the answer has come
};

}  // namespace toy::dialog
