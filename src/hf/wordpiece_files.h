// WordPiece tokenizers of Hugging Face folders: tokenizer.json, or vocab.txt of older ones.
#pragma once

#include <memory>

#include "hf/tokenizer_files.h"

namespace toy::hf {

/// Is it one?
bool is_wordpiece(const TokenizerFiles& files);
/// For an embedding of `vocab` rows. Throws Error{bad_input} naming file and key for what BertTokenizer does not do.
std::shared_ptr<const Tokenizer> read_wordpiece(const TokenizerFiles& files, int64_t vocab);
/// The parts of tokenizer.json that are of its kind. Throws for a file that is no WordPiece.
nlohmann::ordered_json wordpiece_json(const gguf::File& file, const std::vector<std::string>& tokens,
                                      const std::vector<int32_t>& types);

}  // namespace toy::hf
