// Questions with one exact answer each, of kinds and levels: to train on, to evaluate with, and to learn from rewards.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/base/options.h"

namespace toy {

/// How rows of questions are written.
enum class QuestionForm {
  completions,     ///< {"prompt": "Q: ...\nA:", "completion": " ...\n"}
  chats,           ///< {"messages": [question, answer]}
  questions,       ///< {"prompt": "Q: ...\nA:", "answer": "...", "kind": "..."}
  chat_questions,  ///< {"messages": [question], "answer": "...", "kind": "..."}
  preferences,     ///< {"prompt": [question], "chosen": [answer], "rejected": [another form or a wrong answer]}
  text,            ///< not JSON: "Q: ...\nA: ...\n\n", a document for --corpus
};
/// Their names.
template <>
struct NamesOf<QuestionForm> {
  static constexpr std::array list = {
      std::pair("completions", QuestionForm::completions), std::pair("chats", QuestionForm::chats),
      std::pair("questions", QuestionForm::questions),     std::pair("chat-questions", QuestionForm::chat_questions),
      std::pair("preferences", QuestionForm::preferences), std::pair("text", QuestionForm::text)};
};

/// Which questions, and as what.
struct QuestionOptions {
  std::vector<std::string> kinds = {};  ///< "add", or with a level of its own "add:3"; none: all
  int64_t level = 2;                    ///< of kinds without one, 1 to 3
  QuestionForm form = QuestionForm::completions;
  /// Of chats: answers as several people would write them, see answer_as_written(); else the answer alone.
  bool mixed = false;
  bool held_out = false;  ///< only questions that are held out; else never one of them
  uint64_t seed = 0;
};

/// A question, its answer, and its kind, "add:2".
struct QaPair {
  std::string kind, question, answer;
};

/// Names of the kinds, and what they ask.
std::vector<std::pair<std::string_view, std::string_view>> question_kinds();
/// Is a question one of the eighth that is held out? This depends on its text alone, so rows of any two seeds, one held
/// out and one not, never share a question.
bool is_held_out(std::string_view question);
/// Question i: kinds take turns. It depends on (options, i) alone. Throws Error{bad_input} naming an unknown kind or
/// level.
QaPair question(const QuestionOptions& options, int64_t i);
/// An answer to question i in one of the forms that mixed conversations have: 35% the answer alone, 35% a sentence, 20%
/// with a tail, 10% the answer of another question of its kind, which is wrong. `writer` chooses among them.
std::string answer_as_written(const QuestionOptions& options, int64_t i, int64_t writer = 0);
/// Questions 0 to rows - 1 as JSON Lines, or as text. Throws Error{bad_input} for `mixed` with another form than chats.
std::string write_questions(const QuestionOptions& options, int64_t rows);

}  // namespace toy
