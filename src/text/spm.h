// SentencePiece BPE: the vocabulary as GGUF stores it, and the tokenizer on it.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "toy/text/tokenizer.h"

namespace toy {

/// The numbers of tokenizer.ggml.token_type (and of SentencePiece's own model files).
enum class SpmType : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// The tokenizer.ggml.* keys of model "llama". In `tokens` a space is written U+2581, except in user-defined
/// tokens, which are literal text.
struct SpmVocabulary {
  std::string source;  ///< for messages: the file's path
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;  ///< SpmType
  std::optional<int32_t> bos, eos, unknown;
  bool add_bos = true, add_eos = false, add_space_prefix = true, remove_extra_whitespaces = false;
};

/// Tokenizes as the sentencepiece library does, with three differences, each of which keeps what the library
/// loses. Bytes that are not UTF-8 become byte tokens (the library reads U+FFFD), grouped as llama.cpp groups
/// them. A literal U+2581 becomes byte tokens (for the library and llama.cpp it is a space). So does a space
/// without a token of its own. Hence decode(encode(t)) == t for every text, given 256 byte tokens and
/// remove_extra_whitespaces off. Line breaks are in no piece of a trained vocabulary and become <0x0A>.
///
/// llama.cpp adds its space prefix again after each user-defined token; the library does not, and neither do
/// we.
///
/// Control tokens written out in a text ("</s>") are text, as in the library.
class SpmTokenizer final : public Tokenizer {
 public:
  /// Throws Error{bad_input} naming source, key and reason for a vocabulary that is no vocabulary.
  explicit SpmTokenizer(SpmVocabulary vocabulary);
  SpmTokenizer(const SpmTokenizer&) = delete;  // ids_ looks into text_of_
  SpmTokenizer& operator=(const SpmTokenizer&) = delete;

  std::string_view kind() const override { return "spm"; }
  int32_t vocab_size() const override { return int32_t(vocabulary_.tokens.size()); }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string token_bytes(int32_t id) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::optional<int32_t> bos() const override { return vocabulary_.bos; }
  std::optional<int32_t> eos() const override { return vocabulary_.eos; }
  bool adds_bos() const override { return vocabulary_.add_bos; }
  void save(gguf::Writer& writer) const override;

 private:
  friend class SpmEncoder;

  SpmType type(int32_t id) const { return SpmType(vocabulary_.types[size_t(id)]); }
  void check_sizes() const;
  void check_ids() const;
  void add_token(int32_t id);
  void add_byte_token(int32_t id);
  void add_piece(int32_t id);
  const std::string& text_of(int32_t id) const;

  SpmVocabulary vocabulary_;
  std::vector<std::string> text_of_;                   ///< what each token decodes to
  std::unordered_map<std::string_view, int32_t> ids_;  ///< of the pieces that merging can make
  std::array<std::vector<int32_t>, 256> literals_;     ///< user-defined tokens by first byte, longest first
  std::array<int32_t, 256> byte_ids_;                  ///< -1: no token for this byte
  bool has_all_bytes_ = false, has_unused_ = false;
  size_t longest_piece_ = 0;
  /// Pairs of bytes that stand side by side in some piece. Between two others no merge can ever reach across,
  /// so the text falls apart there into segments that are encoded on their own; in most texts these are the
  /// words.
  std::bitset<65536> neighbours_;
};

/// The tokenizer.ggml.* keys of a file with model "llama".
std::unique_ptr<Tokenizer> load_spm(const gguf::File& file);

}  // namespace toy
