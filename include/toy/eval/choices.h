// Questions with several answers: which one a model finds most likely.
#pragma once

#include <string>
#include <vector>

#include "toy/data/text_files.h"
#include "toy/decode/decoder.h"
#include "toy/eval/compare.h"

namespace toy {

/// One way to complete a question.
struct Choice {
  std::string prompt, answer;  ///< the model reads both and is judged by the answer
  int64_t characters = 0;      ///< code points that the normalized score divides by: of the answer as the file has it
};
/// A question, and which choice is right.
struct Question {
  std::vector<Choice> choices;
  size_t right = 0;
};

/// A row of JSON: HellaSwag's (`ctx_a` and `ctx_b`, or `ctx`; `activity_label`, `endings`, `label`), ARC's (`question`,
/// `choices`, `answerKey`), PIQA's (`goal`, `sol1`, `sol2`, `label`), WinoGrande's (`sentence`, `option1`, `option2`,
/// `answer`), in the files that their authors publish and in those of the Hugging Face hub, or {"prompt", "choices",
/// "answer"}, whose texts follow each other as they are and whose answer is a number from 0 or the text of a choice.
/// Texts are put together as lm-evaluation-harness does.
/// Throws Error{bad_input} with the reason.
Question parse_question(std::string_view line);
/// The questions of a file of JSON Lines, a JSON list or a table (.csv, .tsv). Throws Error{bad_input} with file, line
/// and reason.
std::vector<Question> read_questions(const TextFile& file);

/// How a question was answered.
struct AnsweredQuestion {
  std::vector<double> logprobs;  ///< of each choice's answer, in nats
  size_t best = 0;               ///< the largest,
  size_t best_normalized = 0;    ///< and the largest after division by Choice::characters
  int64_t cut = 0;               ///< tokens at the beginning that did not fit into the context
};
/// Parts of the questions that are answered right, with standard errors sqrt(p (1 - p) / (n - 1)).
struct ChoicesScore {
  int64_t questions = 0;
  MeanError accuracy, accuracy_normalized;
  int64_t cut = 0;  ///< questions that did not fit
};

/// How they are read.
struct ChoicesOptions {
  int64_t context = 0;           ///< 0: the model's
  std::optional<DType> kv = {};  ///< DecoderOptions::kv
  bool exact = false;            ///< DecoderOptions::exact
  bool repack = false;           ///< DecoderOptions::repack
  bool parse_special = true;     ///< EncodeOptions' of prompts and answers
};

/// Scores every choice by the sum of log p of its answer's tokens. What the choices of a question have in common is
/// computed once. `on_question` sees each question in its order. The result does not depend on the number of threads.
/// Throws Error{bad_input} naming the number of a question that has no tokens to score.
ChoicesScore score_choices(Device& device, const Model& model, const std::vector<Question>& questions,
                           const ChoicesOptions& options,
                           const std::function<void(const Question&, const AnsweredQuestion&)>& on_question = {});

}  // namespace toy
