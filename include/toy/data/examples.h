// Examples for fine-tuning, one JSON object per line: as tokens, and which of them are to be learned.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "toy/chat/chat_template.h"
#include "toy/data/text_files.h"
#include "toy/data/tokenized.h"
#include "toy/text/tokenizer.h"

namespace toy {

/// A sequence and its loss mask: trained[i] says whether ids[i] counts as a target. The first id never does.
struct Example {
  std::vector<int32_t> ids;
  std::vector<uint8_t> trained;
  /// Targets that count among the first `tokens` ids.
  int64_t counted(size_t tokens = SIZE_MAX) const;
};

/// What a row holds, by its fields.
enum class RowKind { text, completion, messages, instruction, preference, rated };
std::string_view name_of(RowKind kind);  ///< the name above

/// A row of a file. Of a preference `example` is the chosen answer; of a rated one `good` is its label.
struct ExampleRow {
  RowKind kind = RowKind::text;
  Example example;
  std::optional<Example> rejected;
  bool good = true;
};

/// Which rows a training takes: none that state preferences; pairs of `chosen` and `rejected`; or answers that are
/// rated one by one: a `completion` with a `label`, or pairs, whose answers are taken apart.
enum class Preferences { none, pairs, rated };

/// Which targets of conversations and completions count.
enum class TrainOn { assistant, all };
/// "assistant" or "all"; throws Error{bad_input} for others.
TrainOn parse_train_on(const std::string& text);

/// Turns rows into tokens. docs/data.md says which fields there are, and how the assistant's tokens are found.
class ExampleMaker {
 public:
  /// All that it is given must outlive it. `chat`: nullptr where the model has no template.
  ExampleMaker(const Tokenizer& tokenizer, const ChatTemplate* chat, TrainOn train_on);
  /// Of one line. Throws Error{bad_input} with the reason.
  ExampleRow make(std::string_view line) const;

 private:
  using json = nlohmann::ordered_json;
  ExampleRow conversation(const json& row) const;
  ExampleRow preference(const json& row) const;
  Example messages(const json& row, const json& all, size_t from) const;
  Example completion(const std::string& prompt, std::string_view completion) const;
  Example tokens(const std::string& text, const std::vector<TextSpan>& trained, bool ends) const;
  std::vector<TextSpan> assistant_turns(const ChatInput& in, const std::string& full, size_t from) const;
  bool is_mark(int32_t id) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
  TrainOn train_on_;
  json variables_;
  std::vector<int32_t> ends_;
};

/// What to do with rows.
struct ExampleReading {
  bool skip_bad_rows = false;                                                ///< else the first one is an error
  std::optional<Preferences> preferences = {};                               ///< which rows are good; absent: all kinds
  std::function<void(const std::string&)> warn = [](const std::string&) {};  ///< of each row that is skipped
  /// Each row, and its line from 1. Reading ends once it says false.
  std::function<bool(const ExampleRow& row, int64_t line)> take;
};
/// Reads a file line by line; empty lines are passed over. Throws Error{bad_input} with file, line and reason.
/// Returns how many rows were skipped.
int64_t read_examples(const TextFile& file, const ExampleMaker& maker, const ExampleReading& reading);

/// The examples of files, in memory: a tokenized text whose documents are the examples, and the mask of its ids.
struct ExampleSet {
  TokenizedText text;
  std::vector<uint8_t> trained;  ///< [ids]
  std::vector<uint8_t> chosen;   ///< [documents], of preferences: those of a pair follow each other, the chosen first
  int64_t skipped = 0;
};
/// Validation takes the last `validation_fraction` of the rows. A row of another kind than `preferences` takes is a bad
/// one. Throws Error{bad_input} also where there is no example.
ExampleSet load_examples(const std::vector<TextFile>& files, const ExampleMaker& maker, double validation_fraction,
                         bool skip_bad_rows, const std::function<void(const std::string&)>& warn,
                         Preferences preferences = Preferences::none);

}  // namespace toy
