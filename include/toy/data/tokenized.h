// A tokenized text: made once in bounded memory, kept in a checked file that is mapped, and found again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "toy/data/documents.h"
#include "toy/data/text_files.h"
#include "toy/data/token_view.h"
#include "toy/text/tokenizer.h"

namespace toy {

/// How a text is tokenized.
struct TokenizeOptions {
  DocumentRule documents;
  double validation_fraction = 0;  ///< how much of the text, from its end, is for validation: 0 to 1
  std::string cache;               ///< folder of the data cache; "": the ids stay in memory
  size_t memory = 0;               ///< that the process may hold (anonymous_memory()); 0: no limit
  std::function<void(const std::string&)> tell = [](const std::string&) {};  ///< what is being done
  std::function<void(const std::string&)> warn = [](const std::string&) {};  ///< a cache that had to be made anew
};

/// A file and what was in it.
struct HashedFile {
  TextFile file;
  uint64_t xxh64 = 0;  ///< of its text
};

/// The ids of a text, in a part for training and one for validation.
class TokenizedText {
 public:
  /// One of the two parts.
  struct Part {
    int64_t begin = 0;  ///< its first token, in ids()
    TokenView ids;
    int64_t documents = 0;
    std::span<const uint64_t> begins;  ///< [documents]: their first tokens in ids(); each ends where the next begins
    uint64_t text_bytes = 0;           ///< of the text that became tokens
    uint64_t first_bytes = 0;          ///< of the first token of each document, which nothing predicts
  };
  /// All ids: those for training, then those for validation.
  TokenView ids() const { return ids_; }
  const Part& training() const { return training_; }
  const Part& validation() const { return validation_; }
  const std::vector<HashedFile>& files() const { return files_; }
  /// Where it is cached; "" in memory.
  const std::string& path() const { return path_; }
  /// Was it there already?
  bool was_cached() const { return was_cached_; }
  /// Documents that are tokens already: the last `validation` of them are for validation. `begins`: their first tokens.
  static TokenizedText of_documents(std::vector<int32_t> ids, std::vector<uint64_t> begins, size_t validation,
                                    std::vector<HashedFile> files);
  /// Gives memory back that the mapping has taken; it takes it again as ids are read.
  void release() const;

 private:
  friend class TextTokenizer;
  struct Storage;
  std::shared_ptr<const Storage> storage_;
  TokenView ids_;
  Part training_, validation_;
  std::vector<HashedFile> files_;
  std::string path_;
  bool was_cached_ = false;
};

/// Tokenizes files in their order, or takes the cache of an earlier run that is whole and of the same texts. Memory
/// does not grow with the text, if there is a cache; with documents by 8 bytes for each.
///
/// Each document begins with bos() if the tokenizer adds it to prompts, and ends with eos() if there is one; without
/// documents nothing is added. The validation part begins at a border of documents, else behind a blank line or a line.
///
/// Throws Error{bad_input} naming file and reason: a text that changes while it is read, one that the tokenizer cannot
/// take (with the offset), a cache that cannot be written, a full disk, too little memory.
TokenizedText tokenize_files(const std::vector<TextFile>& files, const Tokenizer& tokenizer,
                             const TokenizeOptions& options);

/// Where the validation part of the files' concatenated text begins.
uint64_t validation_begin(const std::vector<TextFile>& files, double fraction, const DocumentRule& documents);

}  // namespace toy
