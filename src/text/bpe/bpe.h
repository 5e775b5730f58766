// Byte-level BPE: "gpt2" in tokenizer.ggml.model.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/merge_table.h"
#include "text/bpe/splitter.h"
#include "text/vocabulary.h"

namespace toy {

/// Tokens and merges are written with the names of bytes (byte_level.h), but control and user-defined tokens as they
/// are.
struct BpeVocabulary : Vocabulary {
  std::string pre = "default";      ///< tokenizer.ggml.pre
  std::vector<std::string> merges;  ///< "left right", the one that goes first first
};

/// Gives the ids of Hugging Face's tokenizers, with three differences, which are llama.cpp's, too: texts are not
/// normalized (some models want NFC), tokens take no spaces around them away (lstrip, rstrip), and a text does not get
/// a space in front (add_prefix_space). Any bytes are taken: one that is not UTF-8 is cut off as U+FFFD would be, but
/// stays the byte that it is. Hence decode(encode(t)) == t for every text, given a token for each byte. A byte without
/// a token becomes the unknown token, or is an EncodeError where there is none.
class BpeTokenizer final : public VocabularyTokenizer {
 public:
  /// Throws Error{bad_input} naming source, key and reason for a vocabulary that is no vocabulary.
  explicit BpeTokenizer(BpeVocabulary vocabulary);

  std::string_view kind() const override { return "bpe"; }
  uint64_t fingerprint() const override;
  void save(gguf::Writer& writer) const override;

 private:
  friend class BpeEncoder;

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  size_t encode_text(std::string_view text, bool last, EncodePlace& place, std::vector<int32_t>& ids) const override;
  bool add_token(int32_t id);
  void add_merge(size_t rank, const TokenIds& names, const std::vector<bool>& is_symbol);
  int32_t symbol_of(const std::string& text);

  BpeVocabulary vocabulary_;
  const PreTokenizer* rules_;
  Splitter splitter_;
  MergeTable merges_;
  /// What merging works on: symbol i is token i, or beyond the tokens a text that has none.
  TokenIds symbols_;
  std::vector<std::unique_ptr<const std::string>> more_texts_;
  std::array<int32_t, 256> byte_symbols_;
};

/// The 256 bytes without merges, "<|endoftext|>", and control tokens.
std::shared_ptr<const Tokenizer> make_byte_tokenizer(const ControlTokens& control);

/// The rules that tokenizer.ggml.pre of a file names, llama.cpp's default if it names none; nullptr if nobody knows
/// them.
const PreTokenizer* pre_tokenizer_of(const gguf::File& file);

/// The tokenizer.ggml.* keys of a file with model "gpt2".
std::shared_ptr<const Tokenizer> load_bpe(const gguf::File& file);

}  // namespace toy
