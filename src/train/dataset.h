// The data of a run: sources, their samplers, and the order of rows. docs/data.md says what a row is.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "toy/data/examples.h"
#include "toy/data/mixture.h"
#include "toy/data/packing.h"
#include "toy/data/tokenized.h"
#include "toy/train/data.h"
#include "toy/train/recipe.h"
#include "train/image_rows.h"
#include "train/tell.h"

namespace toy {

struct DataSource;

/// What a validation reads of one source.
struct ValidationText {
  const DataSource* source;
  std::string name;
  double share;   ///< in the run's loss; those of all texts sum up to 1
  TokenView ids;  ///< of all of it
  std::unique_ptr<ValidationRows> rows;
  int64_t tokens;  ///< that are predicted
  double bytes;    ///< of the text that they are
};

/// A corpus or a validation text of its own: files, tokens, and the rows that are made of them.
struct DataSource {
  std::string name;
  double weight = 1;
  TextFiles files;
  TokenizedText text;
  std::vector<uint8_t> trained;  ///< of examples: the mask of the ids of `text`
  std::vector<uint8_t> chosen;   ///< of preferences: of each document
  std::unique_ptr<Rows> rows;
};

/// Opened in two steps: the files, from which a tokenizer may be trained, then their tokens.
class Dataset {
 public:
  /// Lists the files. `out` is no part of any corpus. Throws Error{bad_input} as list_text_files() does, and naming the
  /// option, for impossible options. `memory`: what the process may hold
  /// (anonymous_memory()), 0: any; what needs more is refused before it is read.
  Dataset(const DataOptions& options, const std::string& out, size_t memory, Teller& tell);

  /// All files of the sources.
  std::vector<TextFile> files() const;
  /// Training text for a tokenizer.
  std::string tokenizer_text() const;
  /// Of examples: what a new tokenizer gets for them, and whether there are any.
  std::optional<ControlTokens> control_tokens() const;
  /// Takes the chat template for examples from the options, or from a model file ("": from none). `earlier_time`: the
  /// chat_time of the config of a run that is resumed, or null. Before tokenize().
  void find_chat_template(const std::string& model_file, const Tokenizer& tokenizer,
                          const nlohmann::ordered_json& earlier_time);
  /// Of a run that learns pictures; else nullptr.
  RunImages* images() const { return images_.get(); }
  const ChatTemplate* chat_template() const { return chat_ ? &*chat_ : nullptr; }
  /// Tokenizes, or opens caches, for rows of `tokens` places; nullopt: of as many as the longest example takes, rounded
  /// up to a multiple of 64, and `most` at most.
  void tokenize(const Tokenizer& tokenizer, std::optional<int64_t> tokens, uint64_t seed, int64_t most = 0);

  /// @{
  /// After tokenize().
  /// By which texts are known again.
  nlohmann::ordered_json config() const;
  /// Rows [first, first + count), counted from 0 through all steps.
  Windows windows(int64_t first, int64_t count);
  /// The paths that are trained on.
  std::string name() const;
  /// Warns where some source is seen so often in so many rows of the run that a model learns it by heart.
  void warn_of_epochs(int64_t rows) const;
  const Rows& rows() const { return mixed_ ? *mixed_ : *sources_[0].rows; }
  int64_t tokens() const { return tokens_; }
  int64_t training_tokens() const;
  const std::vector<ValidationText>& validation() const { return validation_; }
  int64_t validation_tokens() const;
  /// What a sample begins with, and how the text goes on there. Of examples: the prompt and the answer of one of the
  /// validation, another for each `number`, if any leaves room in `most` tokens.
  struct Start {
    std::vector<int32_t> ids, wanted;
  };
  /// @copydoc Start
  Start validation_start(int64_t number, int64_t most) const;
  /// Looks at some of the files, others at the next call. "", or what has changed since they were tokenized.
  std::string change();
  /// Says what each source is; `rows`: how many rows of it all have been taken, for a run at its end.
  void tell_sources(std::optional<int64_t> rows) const;
  /// @}

 private:
  std::optional<ChatTemplate> template_of_options() const;
  void make_image_rows(uint64_t seed);
  void list(const std::string& out);
  std::string cache_folder() const;
  void tokenize(DataSource& source, const Tokenizer& tokenizer, double fraction) const;
  int64_t longest_example() const;
  void make_rows(DataSource& source, size_t number, uint64_t seed);
  void load(DataSource& source, const Tokenizer& tokenizer, double fraction) const;
  const std::vector<std::string>& paths() const { return o_.examples.empty() ? o_.corpus : o_.examples; }
  void add_validation(DataSource& source, double share, const Tokenizer& tokenizer, int64_t tokens);
  PackedRows::Answers answers(const DataSource& source, size_t first, size_t count) const;
  void say_left_out() const;
  template <class F>
  void each(const F& f) {
    for (DataSource& s : sources_) f(s);
    if (given_validation_) f(*given_validation_);
  }

  const DataOptions& o_;
  size_t memory_;
  Teller& tell_;
  DocumentRule documents_;
  bool packs_;
  std::optional<ChatTemplate> chat_;
  std::optional<std::time_t> chat_time_;  // that the template tells, if it tells any
  std::vector<DataSource> sources_;
  std::optional<DataSource> given_validation_;
  std::optional<Mixture> mixture_;
  std::unique_ptr<Rows> mixed_;  // of several sources, or of pictures
  std::unique_ptr<RunImages> images_;
  std::vector<ValidationText> validation_;
  std::vector<HashedFile> watched_;
  int64_t tokens_ = 0;
  size_t next_watched_ = 0;
  uint64_t touched_ = 0;  // bytes of ids read since memory was given back
};

}  // namespace toy
