// Tokenizers of Hugging Face folders.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hf/config.h"
#include "toy/formats/gguf.h"
#include "toy/text/tokenizer.h"

namespace toy::hf {

/// The files of a folder that say something about tokens. Those that are missing are empty objects.
struct TokenizerFiles {
  /// Throws Error{bad_input} for a file that is broken.
  static TokenizerFiles open(const std::string& folder, const Config& config);

  std::string folder;  ///< for messages
  Config config, tokenizer_config, special_tokens_map, added_tokens, generation_config;
  std::optional<Config> tokenizer_json;
  std::string tokenizer_model;  ///< the bytes of tokenizer.model
  std::string vocab_txt;        ///< those of vocab.txt, a WordPiece vocabulary

  /// The text of "bos_token" and so on; "": there is none.
  std::string special(const std::string& name) const;
};

/// The tokenizer for an embedding of `vocab` rows; tokens that the files do not name are filled up. Returns nullptr and
/// warns if the folder has none. Throws for one that is not supported.
std::shared_ptr<const Tokenizer> read_tokenizer(const TokenizerFiles& files, int64_t vocab,
                                                std::vector<std::string>& warnings);
/// Sets tokenizer.* of a GGUF, "none" without a tokenizer, which is returned.
std::shared_ptr<const Tokenizer> write_tokenizer_keys(const TokenizerFiles& files, int64_t vocab, gguf::Writer& writer,
                                                      std::vector<std::string>& warnings);

/// Writes tokenizer.json, tokenizer_config.json and the chat templates from tokenizer.* of a GGUF. What they cannot
/// say becomes a warning. Returns false, with a warning, where there is no tokenizer that they can hold.
bool write_tokenizer_files(const gguf::File& file, const std::string& folder, std::vector<std::string>& warnings);

}  // namespace toy::hf
