// Questions whose answer a model writes: is it one of those that are right?
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "toy/chat/chat_template.h"
#include "toy/data/text_files.h"
#include "toy/decode/service.h"
#include "toy/eval/compare.h"

namespace toy {

/// A question, and the texts that answer it.
struct OpenQuestion {
  std::string where;                                  ///< for messages: "questions.jsonl:3"
  std::string prompt;                                 ///< is continued as it is
  nlohmann::ordered_json messages;                    ///< a conversation instead of a prompt; null: none
  std::vector<std::string> answers;                   ///< any of them is right
  std::string kind = {};                              ///< what scores are grouped by; "": nothing
  nlohmann::ordered_json tools = {}, documents = {};  ///< of the conversation; null: none
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< of the template
  std::vector<std::string> notes = {};                                  ///< what may be wrong with it
};

/// A row of JSON: {"prompt": TEXT} or {"messages": [{"role", "content"}, ...]} with what rows of messages may have
/// (docs/data.md), and "answer": TEXT
/// or "answers": [TEXT, ...], and perhaps "kind": TEXT. Other fields have no effect, and a note says so. Throws
/// Error{bad_input} with the reason.
OpenQuestion parse_open_question(std::string_view line);
/// The questions of a file of JSON Lines, a JSON list or a table (.csv, .tsv). Throws Error{bad_input} with file, line
/// and reason.
std::vector<OpenQuestion> read_open_questions(const TextFile& file);

/// The ids of all prompts, as score_open_questions() reads them. `chat`: nullptr where the model has no template.
std::vector<std::vector<int32_t>> prompt_ids(const std::vector<OpenQuestion>& questions, const Tokenizer& tokenizer,
                                             const ChatTemplate* chat,
                                             const std::function<void(const std::string&)>& warn,
                                             bool parse_special = true);

/// When two answers are the same. White space at both ends never counts.
struct MatchOptions {
  bool ignore_case = false;         ///< by Unicode's simple mapping
  bool ignore_punctuation = false;  ///< of ASCII
};
/// An answer as it is compared.
std::string normalized_answer(std::string_view text, const MatchOptions& options);

/// What a model wrote.
struct OpenAnswer {
  std::string text;
  int64_t tokens = 0;
  bool right = false;
  bool finished = false;  ///< it ended before GenerateOptions::max_tokens
  int64_t cut = 0;        ///< tokens at the beginning of the prompt that did not fit into the context
};
/// The part of the questions that are answered right.
struct OpenScore {
  MeanError accuracy;               ///< with sqrt(p (1 - p) / (n - 1))
  std::vector<OpenAnswer> answers;  ///< of each question
  int64_t cut = 0, unfinished = 0;  ///< questions
  /// The same of each kind, and how many questions it has.
  struct OfKind {
    MeanError accuracy;
    int64_t questions = 0;
  };
  std::map<std::string, OfKind> kinds = {};
};

/// How they are answered.
struct OpenOptions {
  GenerateOptions generate;        ///< question i takes the seed plus i
  std::vector<std::string> stops;  ///< an answer ends before any of them
  MatchOptions match;
  int64_t context = 0;                 ///< positions of prompt and answer; 0: the model's
  int sequences = 16;                  ///< answers that are written at once
  std::optional<DType> kv = {};        ///< DecoderOptions::kv
  bool exact = false, repack = false;  ///< DecoderOptions'
  bool parse_special = true;           ///< EncodeOptions' of prompts; messages are a Dialog's affair
  /// Told what may be wrong with questions, each kind once.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

/// Answers all questions with a GenerationService. `chat` turns messages into text. `on_answer` sees each question when
/// it is answered. Results depend neither on the number of threads nor on `sequences`. Throws Error{bad_input} naming
/// OpenQuestion::where for what cannot be answered: no chat template, a template that refuses the messages, an answer
/// that normalization leaves empty.
OpenScore score_open_questions(Device& device, const Model& model, const std::optional<ChatTemplate>& chat,
                               const std::vector<OpenQuestion>& questions, const OpenOptions& options,
                               const std::function<void(size_t question, const OpenAnswer& answer)>& on_answer = {});

}  // namespace toy
