// tokenizer.json of Hugging Face's tokenizers: BPE on bytes, and BPE as SentencePiece has it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hf/config.h"

namespace toy::hf {

/// A token that is found in texts as it is written.
struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = false;
};

/// What a GGUF needs of it.
struct TokenizerJson {
  bool byte_level = false;          ///< else as SentencePiece: bytes are tokens such as <0x0A>
  std::vector<std::string> tokens;  ///< by id; "": there is none
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<AddedToken> added;  ///< also in `tokens`
  std::string pre;                ///< byte_level: the pre-tokenizer as GGUF names it
  std::string unknown;            ///< text of the unknown token, or ""
  std::string first, last;        ///< what is put before and after a text, or ""
  bool add_space_prefix = false;  ///< not byte_level
};

/// Throws Error{bad_input} naming the file and what is not supported or not true: a pre-tokenizer that is not known,
/// two tokens of one id, an id beyond the `vocab` rows of the embedding, a merge whose parts or result are no tokens.
TokenizerJson read_tokenizer_json(const Config& file, int64_t vocab);

}  // namespace toy::hf
