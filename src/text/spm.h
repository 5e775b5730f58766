// SentencePiece, BPE and unigram: the vocabulary as GGUF and .model files store it, and the tokenizer on it.
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

#include "text/chars_map.h"
#include "text/piece_trie.h"
#include "toy/text/tokenizer.h"

namespace toy {

/// The numbers of tokenizer.ggml.token_type (and of SentencePiece's own model files).
enum class SpmType : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// How a text is cut into pieces: "llama" and "t5" in tokenizer.ggml.model.
enum class SpmModel { bpe, unigram };

/// What messages call the parts of a vocabulary, which depends on the kind of file.
struct SpmNames {
  std::string_view tokens = "tokenizer.ggml.tokens", scores = "tokenizer.ggml.scores",
                   types = "tokenizer.ggml.token_type";
};

/// The tokenizer.ggml.* keys of models "llama" and "t5". In `tokens` a space is written U+2581, except in
/// user-defined tokens, which are literal text.
struct SpmVocabulary {
  std::string source;  ///< for messages: the file's path
  SpmNames names;
  SpmModel model = SpmModel::bpe;
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;  ///< SpmType
  std::optional<int32_t> bos, eos, unknown;
  bool add_bos = true, add_eos = false, add_space_prefix = true, remove_extra_whitespaces = false;
  std::string chars_map;  ///< precompiled_charsmap: replacements before anything else; mostly empty
};

/// Tokenizes as the sentencepiece library does, with three differences, each of which keeps what the library
/// loses. Bytes that are not UTF-8 become byte tokens (the library reads U+FFFD), grouped as llama.cpp groups
/// them; a vocabulary without byte tokens refuses them with an EncodeError. A literal U+2581 becomes byte tokens (for
/// the library and llama.cpp it is a space). So does a space without a token of its own. Hence decode(encode(t)) == t
/// for every text, given 256 byte tokens and remove_extra_whitespaces off. Line breaks are in no piece of a trained
/// vocabulary and become <0x0A>.
///
/// llama.cpp adds its space prefix again after each user-defined token; the library does not, and neither do
/// we. llama.cpp knows no byte tokens in unigram vocabularies: it gives <unk> where the library and we give bytes.
///
/// Control tokens written out in a text ("</s>") are text, as in the library.
class SpmTokenizer final : public Tokenizer {
 public:
  /// Throws Error{bad_input} naming source, key and reason for a vocabulary that is no vocabulary.
  explicit SpmTokenizer(SpmVocabulary vocabulary);
  SpmTokenizer(const SpmTokenizer&) = delete;  // ids_ looks into text_of_
  SpmTokenizer& operator=(const SpmTokenizer&) = delete;

  std::string_view kind() const override { return vocabulary_.model == SpmModel::bpe ? "spm" : "unigram"; }
  int32_t vocab_size() const override { return int32_t(vocabulary_.tokens.size()); }
  std::vector<int32_t> encode(std::string_view text) const override;
  size_t encode_part(std::string_view text, bool last, EncodePlace& place, std::vector<int32_t>& ids) const override;
  uint64_t fingerprint() const override;
  std::string token_bytes(int32_t id) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::optional<int32_t> bos() const override { return vocabulary_.bos; }
  std::optional<int32_t> eos() const override { return vocabulary_.eos; }
  bool adds_bos() const override { return vocabulary_.add_bos; }
  void save(gguf::Writer& writer) const override;

 private:
  friend class SpmEncoder;
  friend class SpmIds;
  friend class UnigramEncoder;

  SpmType type(int32_t id) const { return SpmType(vocabulary_.types[size_t(id)]); }
  void check_sizes() const;
  void check_ids() const;
  void check_tokens() const;
  void add_token(int32_t id);
  void add_byte_token(int32_t id);
  void add_piece(int32_t id);
  void prepare_unigram();
  const std::string& text_of(int32_t id) const;
  int32_t literal_at(std::string_view rest) const;
  std::string normalized(std::string_view text) const;
  EncodeError not_utf8(uint64_t at) const;
  bool as_it_is() const { return !vocabulary_.remove_extra_whitespaces && chars_map_.empty(); }
  size_t encode_bpe(std::string_view text, size_t prefix, bool last, EncodePlace& place,
                    std::vector<int32_t>& ids) const;
  size_t encode_unigram(std::string_view text, size_t prefix, bool last, EncodePlace& place,
                        std::vector<int32_t>& ids) const;

  SpmVocabulary vocabulary_;
  CharsMap chars_map_;
  std::vector<std::string> text_of_;                ///< what each token decodes to
  std::array<std::vector<int32_t>, 256> literals_;  ///< user-defined tokens by first byte, longest first
  size_t longest_literal_ = 0;                      ///< bytes
  std::array<int32_t, 256> byte_ids_;               ///< -1: no token for this byte
  bool has_all_bytes_ = false;

  // BPE only.
  std::unordered_map<std::string_view, int32_t> ids_;  ///< of the pieces that merging can make
  bool has_unused_ = false;
  size_t longest_piece_ = 0;
  /// Pairs of bytes that stand side by side in some piece. Between two others no merge can ever reach across,
  /// so the text falls apart there into segments that are encoded on their own; in most texts these are the
  /// words.
  std::bitset<65536> neighbours_;

  // Unigram only.
  std::unique_ptr<const PieceTrie> trie_;  ///< of the pieces that a text can be cut into
  std::vector<double> path_scores_;        ///< by id
  float unknown_score_ = 0;
  bool lines_are_apart_ = true;  ///< no piece has a line break beside anything else
};

/// The piece as text: with spaces in place of U+2581.
std::string with_spaces(std::string_view piece);

/// The byte that "<0x0A>" stands for; none for what is not the name of a byte token.
std::optional<uint8_t> byte_of_name(std::string_view token);

/// The tokenizer.ggml.* keys of a file with model "llama" or "t5".
std::shared_ptr<const Tokenizer> load_spm(const gguf::File& file, SpmModel model);

/// A SentencePiece model file (ModelProto in the library's sentencepiece_model.proto), BPE or unigram. `source` is its
/// path, for messages. Throws Error{bad_input} with path, reason and, where it helps, the offset.
SpmVocabulary parse_spm_model(std::string_view bytes, const std::string& source);

}  // namespace toy
