// The data of a run: what it trains on, in which order, and what it is validated on.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "toy/chat/chat_template.h"
#include "toy/data/corpus.h"
#include "toy/data/text_files.h"
#include "toy/data/tokenized.h"
#include "toy/text/tokenizer.h"
#include "toy/train/data.h"
#include "toy/train/recipe.h"
#include "train/tell.h"

namespace toy {

struct DataSource;
struct RunImages;

/// What a validation reads of one source.
struct ValidationText {
  const DataSource* source;  ///< of texts
  std::string name;
  double share;   ///< in the run's loss; those of all texts sum up to 1
  TokenView ids;  ///< of all of it
  std::unique_ptr<ValidationRows> rows;
  int64_t tokens;  ///< that are predicted
  double bytes;    ///< of the text that they are
};

/// The rows of a run, whatever they are of. Opened in two steps: what is read before there is a tokenizer, then the
/// rows.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// All files of the sources.
  virtual std::vector<TextFile> files() const { return {}; }
  /// Those of --val.
  virtual std::vector<TextFile> validation_files() const { return {}; }
  /// Training text for a tokenizer.
  virtual std::string tokenizer_text() const { return {}; }
  /// Of examples: what a new tokenizer gets for them, and whether there are any.
  virtual std::optional<ControlTokens> control_tokens() const { return {}; }
  /// Takes the chat template for examples from the options, or from a model file ("": from none). `earlier_time`: the
  /// chat_time of the config of a run that is resumed, or null. Before tokenize().
  virtual void find_chat_template(const std::string& model_file, const Tokenizer& tokenizer,
                                  const nlohmann::ordered_json& earlier_time) {
    (void)model_file, (void)tokenizer, (void)earlier_time;
  }
  virtual const ChatTemplate* chat_template() const { return nullptr; }
  /// Of a run that learns pictures; else nullptr.
  virtual RunImages* images() const { return nullptr; }
  /// Of a run that learns to tell classes of texts: their names, in the order of the model's scores.
  virtual std::vector<std::string> classes() const { return {}; }
  /// Makes the rows, of `tokens` places; nullopt: of as many as the longest example takes, rounded up to a multiple of
  /// 64, and `most` at most.
  virtual void tokenize(const Tokenizer& tokenizer, std::optional<int64_t> tokens, uint64_t seed, int64_t most = 0) = 0;

  /// @{
  /// After tokenize().
  /// By which the data are known again.
  virtual nlohmann::ordered_json config() const = 0;
  virtual const Rows& rows() const = 0;
  /// Rows [first, first + count), counted from 0 through all steps.
  virtual Windows windows(int64_t first, int64_t count) { return rows().windows(first, count); }
  /// The paths that are trained on.
  virtual std::string name() const = 0;
  /// Warns where some source is seen so often in so many rows of the run that a model learns it by heart.
  virtual void warn_of_epochs(int64_t rows) const { (void)rows; }
  /// Places of a row.
  int64_t tokens() const { return tokens_; }
  virtual int64_t training_tokens() const = 0;
  const std::vector<ValidationText>& validation() const { return validation_; }
  virtual int64_t validation_tokens() const = 0;
  /// Of rows that have a class: what people know a row of the validation by.
  virtual std::string validation_name(int64_t row) const {
    (void)row;
    return {};
  }
  /// What a sample begins with, and how the text goes on there. Of examples: the prompt and the answer of one of the
  /// validation, another for each `number`, if any leaves room in `most` tokens.
  struct Start {
    std::vector<int32_t> ids, wanted;
  };
  /// @copydoc Start
  virtual Start validation_start(int64_t number, int64_t most) const {
    (void)number, (void)most;
    return {};
  }
  /// Looks at some of the files, others at the next call. "", or what has changed since they were read.
  virtual std::string change() { return {}; }
  /// Says what each source is; `rows`: how many rows of it all have been taken, for a run at its end.
  virtual void tell_sources(std::optional<int64_t> rows) const { (void)rows; }
  /// @}

 protected:
  int64_t tokens_ = 0;
  std::vector<ValidationText> validation_;
};

/// The data that the options say, which must outlive it. Lists and checks files. `out` is no part of any corpus.
/// Throws Error{bad_input} as list_text_files() and read_images() do, and naming the option, for impossible options.
/// `memory`: what the process may hold (anonymous_memory()), 0: any; what needs more is refused before it is read.
std::unique_ptr<Dataset> make_dataset(const DataOptions& options, const std::string& out, size_t memory, Teller& tell);

}  // namespace toy
