// Questions with a few given answers: which one does a model find likeliest?
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/decode/decoder.h"

namespace toy {

/// One answer: what is scored is `text` after `context`.
struct Choice {
  std::string context, text;
  int64_t characters = 0;  ///< what its log-likelihood is divided by to normalize it
};
/// A question; the right answer is choices[answer].
struct ChoiceQuestion {
  std::vector<Choice> choices;
  size_t answer = 0;
};

/// A row of a JSON Lines file: of HellaSwag, ARC or WinoGrande as they are published or as the Hugging Face Hub has
/// them, or {"prompt": TEXT, "choices": [TEXT, ...], "answer": INDEX or TEXT}, whose choices continue the prompt as
/// they are. Contexts, texts and lengths are those of lm-evaluation-harness. Throws Error{bad_input} naming `where`,
/// the key and what is wrong.
ChoiceQuestion parse_choice_question(const std::string& where, std::string_view row);

/// How questions are read.
struct ChoiceOptions {
  int64_t context = 0;        ///< tokens that the model sees; longer contexts lose their beginning. 0: the model's own
  bool bos = true;            ///< begin as the tokenizer says
  bool check_finite = false;  ///< Session::check_finite in every call of the decoder
  std::optional<DType> kv = {};  ///< DecoderOptions::kv
  bool exact = false;            ///< DecoderOptions::exact
  bool repack = false;           ///< DecoderOptions::repack
};

/// What a model makes of one question. Of equal choices the first is the best.
struct ChoiceResult {
  std::vector<double> logprobs;            ///< of each choice, summed over its tokens
  size_t best = 0, best_by_character = 0;  ///< the likeliest, as it is and divided by Choice::characters
};

/// Sums over questions.
struct ChoiceScore {
  int64_t questions = 0, right = 0, right_by_character = 0;
  double chance = 0;      ///< accuracy of guessing
  int64_t truncated = 0;  ///< questions that lost the beginning of a context
  int64_t tokens = 0;     ///< that were computed
  int64_t shared = 0;     ///< that were not, because another choice or question begins alike
  double accuracy() const { return double(right) / double(questions); }
  double accuracy_by_character() const { return double(right_by_character) / double(questions); }
  /// Standard error of an accuracy over questions; NaN for fewer than two.
  double error(double accuracy) const;
};

/// Scores every choice. `on_question` sees results in the order of the questions. They do not depend on other questions
/// or on the number of threads. Throws Error{bad_input} for a choice that does not fit into the context, one without a
/// token before it, and a token outside the vocabulary.
ChoiceScore score_choices(Device& device, const Model& model, std::span<const ChoiceQuestion> questions,
                          const ChoiceOptions& options,
                          const std::function<void(size_t, const ChoiceResult&)>& on_question = {});

}  // namespace toy
