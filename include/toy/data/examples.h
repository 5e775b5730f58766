// Examples for fine-tuning, a JSON object each: as tokens, and which of them are to be learned.
#pragma once

#include <array>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/base/options.h"
#include "toy/chat/chat_template.h"
#include "toy/data/text_files.h"
#include "toy/data/tokenized.h"
#include "toy/dialog/dialog.h"
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
  bool says_nothing = false;            ///< an answer to learn is empty
  std::vector<std::string> notes = {};  ///< what may be wrong: fields without effect, an answer that nothing ends
};

/// Which rows a training takes: none that state preferences; pairs of `chosen` and `rejected`; or answers that are
/// rated one by one: a `completion` with a `label`, or pairs, whose answers are taken apart.
enum class Preferences { none, pairs, rated };

/// Which targets of conversations and completions count.
enum class TrainOn { assistant, all };
/// Their names.
template <>
struct NamesOf<TrainOn> {
  static constexpr std::array list = {std::pair("assistant", TrainOn::assistant), std::pair("all", TrainOn::all)};
};

/// "prompt=question,completion=reply": which field of a row has the meaning of a name, by name. Throws Error{bad_input}
/// naming what is no name of a field that rows have.
std::map<std::string, std::string> parse_field_map(const std::string& text);

/// What rows are read with.
struct RowOptions {
  std::map<std::string, std::string> renamed;  ///< as parse_field_map() gives it
  std::optional<std::time_t> now = {};         ///< the time that a chat template may tell; none: the clock's
  bool questions = false;  ///< rows have a prompt or messages, and an answer apart (toy/eval/open_questions.h)
};

struct RowForm;

/// Messages in a row for a model without a chat template: no other row of that kind can be read, either.
class NeedsTemplate : public Error {
 public:
  /// Names templates that the vocabulary has the tokens for.
  explicit NeedsTemplate(const Tokenizer& tokenizer);
};

/// Turns rows into tokens. docs/data.md says which fields there are, and how the assistant's tokens are found.
class ExampleMaker {
 public:
  /// All that it is given must outlive it. `chat`: nullptr where the model has no template.
  ExampleMaker(const Tokenizer& tokenizer, const ChatTemplate* chat, TrainOn train_on, RowOptions options = {});
  ~ExampleMaker();
  /// Of one line. Throws Error{bad_input} with the reason.
  ExampleRow make(std::string_view line) const;
  /// Of one row.
  ExampleRow make_row(const nlohmann::ordered_json& row) const;

 private:
  using json = nlohmann::ordered_json;
  ExampleRow example(const RowForm& form) const;
  Example messages(const RowForm& form, const json& all, size_t from, std::vector<std::string>& notes) const;
  Example completion(const std::string& prompt, std::string_view completion, std::vector<std::string>& notes) const;
  Example tokens(const std::string& text, size_t from, std::vector<std::string>& notes) const;

  const Tokenizer& tokenizer_;
  std::unique_ptr<const Dialog> dialog_;  // nullptr: no chat template
  TrainOn train_on_;
  RowOptions options_;
  std::vector<int32_t> ends_;
};

/// Control tokens for a new vocabulary: what a chat template writes as marks of roles and turns ("<|im_start|>"), and
/// the one that ends the assistant's turn. None without a template.
ControlTokens control_tokens_of(const ChatTemplate* chat);

/// What to do with rows.
struct ExampleReading {
  bool skip_bad_rows = false;                                                ///< else the first one is an error
  std::optional<Preferences> preferences = {};                               ///< which rows are good; absent: all kinds
  std::function<void(const std::string&)> warn = [](const std::string&) {};  ///< of each row that is skipped
  /// Each row that cannot be used, but for NeedsTemplate: its line and why; instead of an error or a warning.
  std::function<void(int64_t line, const std::string& why)> bad = {};
  /// Each row, and its line from 1. Reading ends once it says false.
  std::function<bool(const ExampleRow& row, int64_t line)> take;
};
/// Reads a file: an object a line (empty lines are passed over), one list of objects, or a table of comma- or
/// tab-separated values whose first line has the names (by the file's name, .csv or .tsv). What may be wrong with rows
/// is warned of once for the file, with the number of rows whose answer is empty. Throws Error{bad_input} with file,
/// line and reason. Returns how many rows were skipped.
int64_t read_examples(const TextFile& file, const ExampleMaker& maker, const ExampleReading& reading);

/// Does a text begin as a list of JSON objects?
bool is_json_list(std::string_view text);
/// Are the first two lines of a text JSON objects? One alone is a document of JSON, and maybe code.
bool is_json_lines(std::string_view text);

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
/// Their training part as texts, `most` bytes at most, which a new tokenizer is trained on: what a chat template makes
/// of them, without its control tokens.
std::string example_text(const std::vector<TextFile>& files, const ChatTemplate* chat, const ControlTokens& control,
                         const RowOptions& rows, double validation_fraction, size_t most, bool skip_bad_rows = false,
                         Preferences preferences = Preferences::none);

}  // namespace toy
