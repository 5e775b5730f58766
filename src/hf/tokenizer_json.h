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
  int64_t id = 0;
  std::string text;
  const char* file = "tokenizer.json";       ///< that names it
  bool special = false, normalized = false;  ///< the latter: found after spaces were marked
  bool strips = false;                       ///< takes the spaces next to it away (lstrip, rstrip)
  bool single_word = false;                  ///< is not found inside of a word
};

/// Cuts a text at line breaks: what toy writes for Gemma 4.
inline constexpr const char* kLineBreaks = R"(\n+)";

/// What a GGUF needs of it.
struct TokenizerJson {
  bool byte_level = false;          ///< else as SentencePiece: bytes are tokens such as <0x0A>
  bool unigram = false;             ///< as SentencePiece, with scores instead of merges (XLM-RoBERTa)
  std::vector<std::string> tokens;  ///< by id; "": there is none
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<float> scores;      ///< unigram: of `tokens`
  std::string chars_map;          ///< unigram: SentencePiece's replacements, or ""
  std::vector<AddedToken> added;  ///< also in `tokens`, but for those beyond the embedding
  std::string pre;                ///< byte_level: the pre-tokenizer as GGUF names it
  std::string unknown;            ///< text of the unknown token, or ""
  std::string first, last;        ///< what is put before and after a text, or ""
  bool separates_twice = false;   ///< two tokens separate the texts of a pair, as in RoBERTa's kind
  /// @{
  /// Not byte_level: a space is put before the text; the text is cut at line breaks.
  bool add_space_prefix = false, cuts_lines = false;
  /// @}
};

/// Throws Error{bad_input} naming the file and what is not supported or not true: a pre-tokenizer that is not known,
/// two tokens of one id, an id of the vocabulary beyond the `vocab` rows of the embedding, a merge whose parts or
/// result are no tokens.
TokenizerJson read_tokenizer_json(const Config& file, int64_t vocab);

/// An entry of `added_tokens` or `added_tokens_decoder`, but for its id.
AddedToken added_token(int64_t id, const Config& entry);

/// Gemma 4's special tokens that answers show: thoughts, calls of tools. llama.cpp's converter makes them user-defined.
bool is_shown_in_gemma4(std::string_view token);

}  // namespace toy::hf
