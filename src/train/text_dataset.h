// Texts to train on: sources, their samplers, and the order of rows. docs/data.md says what a row is.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "toy/data/examples.h"
#include "toy/data/mixture.h"
#include "toy/data/packing.h"
#include "train/dataset.h"

namespace toy {

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
class TextDataset final : public Dataset {
 public:
  TextDataset(const DataOptions& options, const std::string& out, size_t memory, Teller& tell);

  std::vector<TextFile> files() const override;
  std::vector<TextFile> validation_files() const override;
  std::string tokenizer_text() const override;
  std::optional<ControlTokens> control_tokens() const override;
  void find_chat_template(const std::string& model_file, const Tokenizer& tokenizer,
                          const nlohmann::ordered_json& earlier_time) override;
  const ChatTemplate* chat_template() const override { return chat_ ? &*chat_ : nullptr; }
  void tokenize(const Tokenizer& tokenizer, std::optional<int64_t> tokens, uint64_t seed, int64_t most) override;
  nlohmann::ordered_json config() const override;
  const Rows& rows() const override { return mixed_ ? *mixed_ : *sources_[0].rows; }
  Windows windows(int64_t first, int64_t count) override;
  std::string name() const override;
  void warn_of_epochs(int64_t rows) const override;
  int64_t training_tokens() const override;
  int64_t validation_tokens() const override;
  Start validation_start(int64_t number, int64_t most) const override;
  std::string change() override;
  void tell_sources(std::optional<int64_t> rows) const override;

 private:
  std::optional<ChatTemplate> template_of_options() const;
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
  std::unique_ptr<Rows> mixed_;  // of several sources
  std::vector<HashedFile> watched_;
  size_t next_watched_ = 0;
  uint64_t touched_ = 0;  // bytes of ids read since memory was given back
};

}  // namespace toy
