// Evaluation as bindings call it: `toy eval` with models that are in memory. Results are JSON, as `toy eval --json`
// prints them, without the names of files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bind/bound_model.h"
#include "bind/files.h"
#include "toy/eval/choices.h"
#include "toy/eval/compare.h"
#include "toy/eval/open_questions.h"

namespace toy::bind {

/// How questions are answered by the likeliest choice.
struct ChoicesCallOptions {
  ChoicesOptions choices;
  int64_t limit = 0;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f({"limit", "Read only the first questions; 0 reads all", at_least(0), "Data"}, o.limit);
    f({"parse_special", "Names of control tokens in the text are these tokens", {}, "Data"}, o.choices.parse_special);
    f({"context", "Tokens of a question at most; 0 takes the model's context", from_to(0, 1 << 24), "Batch"},
      o.choices.context);
    f(text_option("kv", "Type of keys and values; by default f32 for F32 models, else f16", "Machine", "f32|f16|q8_0"),
      o.choices.kv);
    f({"exact", "Multiply quantized weights with activations that are not rounded (slower)", {}, "Machine"},
      o.choices.exact);
  }
};

/// How questions are answered in writing.
struct AnswersCallOptions {
  OpenOptions open;
  int64_t limit = 0, max_tokens = 0;
  std::string chat_template;
  bool rows = false;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f({"limit", "Read only the first questions; 0 reads all", at_least(0), "Data"}, o.limit);
    f({"parse_special", "Names of control tokens in the text are these tokens", {}, "Data"}, o.open.parse_special);
    f(text_option("chat_template", "Name or file of a chat template, instead of the model's", "Data", "NAME|FILE"),
      o.chat_template);
    SamplerOptions::fields(o.open.generate.sampler, [&](const Option& option, auto& value) {
      if (option.name == "temperature" || option.name == "top_p" || option.name == "seed") f(option, value);
    });
    f({"max_tokens", "Tokens of an answer; 0 takes 256, or half of the context", at_least(0), "Output"}, o.max_tokens);
    f(text_option("stop", "Texts before which an answer ends", "Output", "TEXT"), o.open.stops);
    f({"ignore_case", "Compare answers without regard to case", {}, "Output"}, o.open.match.ignore_case);
    f({"ignore_punctuation", "Compare answers without ASCII punctuation", {}, "Output"},
      o.open.match.ignore_punctuation);
    f({"rows", "Also return every answer", {}, "Output"}, o.rows);
    f({"context", "Positions of prompt and answer; 0 takes the model's context", from_to(0, 1 << 24), "Machine"},
      o.open.context);
    f({"parallel", "Answers to write at once", from_to(1, 1024), "Machine"}, o.open.sequences);
    f(text_option("kv", "Type of keys and values; by default f32 for F32 models, else f16", "Machine", "f32|f16|q8_0"),
      o.open.kv);
    f({"exact", "Multiply quantized weights with activations that are not rounded (slower)", {}, "Machine"},
      o.open.exact);
  }
};

/// Called between two tokens or questions; what it throws ends the work. Bad input throws Error{bad_input}.
/// `toy eval choices`: the questions of a file.
std::string evaluate_choices(const BoundModel& model, const std::string& file, std::string_view json,
                             const Between& between);
/// `toy eval generate`.
std::string evaluate_answers(const BoundModel& model, const std::string& file, std::string_view json,
                             const Between& between);
/// `toy eval kl` of a text. Both models lie on one device. Options: those of ScoreTextOptions.
std::string evaluate_kl(const BoundModel& base, const BoundModel& model, const std::string& text, std::string_view json,
                        const Between& between);
/// `toy eval lmc` of a text: the loss between two models, at each of `alphas`.
std::string evaluate_lmc(const BoundModel& a, const BoundModel& b, const std::string& text,
                         std::span<const double> alphas, std::string_view json, const Between& between);

/// What `toy eval --json` says of each, without the names of files. Standard output has no NaN in JSON, so an error
/// that is not known is left out.
nlohmann::ordered_json choices_fields(const ChoicesScore& score);
nlohmann::ordered_json answers_fields(const std::vector<OpenQuestion>& questions, const OpenScore& score,
                                      const OpenOptions& options, bool rows);
nlohmann::ordered_json divergence_fields(const Divergence& divergence);
nlohmann::ordered_json line_fields(std::span<const double> alphas, std::span<const TextScore> scores);
/// The most that the loss lies above the line between both ends; nothing where they were not measured.
std::optional<double> barrier_of(std::span<const double> alphas, std::span<const TextScore> scores);
/// Throws Error{bad_input} unless the ids of a text mean the same in both.
void require_same_vocabulary(const Model& a, const Model& b);
/// Tokens of a text that a model predicts.
int64_t predicted_tokens(const EvalText& text);
/// What standard errors are over: "documents", or "blocks of 64 tokens".
std::string blocks_name(bool are_documents);
/// `n` of answers where nobody says: 256, or half of the context.
int64_t usual_answer_tokens(const Model& model, int64_t context);

}  // namespace toy::bind
