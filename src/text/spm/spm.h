// SentencePiece, BPE and unigram: the vocabulary as GGUF and .model files store it, and the tokenizer on it. Also BPE
// on such pieces whose merges are listed, as Gemma 4 has it.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/merge_table.h"
#include "text/spm/chars_map.h"
#include "text/spm/piece_trie.h"
#include "text/vocabulary.h"
#include "toy/text/tokenizer.h"

namespace toy {

/// How a text is cut into pieces: "llama", "t5" and "gemma4" in tokenizer.ggml.model. `ranked` is BPE by a list of
/// merges; in `bpe` the scores of what two pieces become decide.
enum class SpmModel { bpe, unigram, ranked };

/// The tokenizer.ggml.* keys of these models. In `tokens` and `merges` a space is written U+2581, except in
/// user-defined tokens, which are literal text.
struct SpmVocabulary : Vocabulary {
  SpmVocabulary() { add_bos = true; }
  SpmModel model = SpmModel::bpe;
  std::vector<float> scores;        ///< not in `ranked`
  std::vector<std::string> merges;  ///< `ranked`: "left right", the one that goes first first
  std::string pre;  ///< `ranked`: tokenizer.ggml.pre of a file with the model "gpt2"; "": it is Gemma 4's
  bool add_space_prefix = true, remove_extra_whitespaces = false;
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
/// `ranked` gives the ids of Hugging Face's tokenizers and of llama.cpp, except that a literal U+2581 is kept here,
/// too. No merge joins a line break with anything else, and a run of line breaks that is a token is taken whole, as in
/// llama.cpp.
///
/// Control tokens written out in a text ("</s>") are text, as in the library, or what parse_special makes them, as in
/// llama.cpp: what follows one is a text of its own, with its space prefix.
class SpmTokenizer final : public VocabularyTokenizer {
 public:
  /// Throws Error{bad_input} naming source, key and reason for a vocabulary that is no vocabulary.
  explicit SpmTokenizer(SpmVocabulary vocabulary);

  std::string_view kind() const override;
  uint64_t fingerprint() const override;
  std::string decode(std::span<const int32_t> ids) const override;
  void save(gguf::Writer& writer) const override;

 private:
  friend class SpmEncoder;
  friend class SpmIds;
  friend class UnigramEncoder;

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  size_t encode_text(std::string_view text, bool last, EncodePlace& place, std::vector<int32_t>& ids) const override;
  TokenType type(int32_t id) const { return vocabulary_.type(id); }
  void check_scores() const;
  void add_token(int32_t id);
  void add_byte_token(int32_t id);
  void add_piece(int32_t id);
  void prepare_unigram();
  void prepare_merges();
  std::string normalized(std::string_view text, uint64_t offset) const;
  EncodeError not_utf8(uint64_t at) const;
  bool as_it_is() const { return !vocabulary_.remove_extra_whitespaces && chars_map_.empty(); }
  size_t encode_bpe(std::string_view text, size_t prefix, bool last, EncodePlace& place,
                    std::vector<int32_t>& ids) const;
  size_t encode_unigram(std::string_view text, size_t prefix, bool last, EncodePlace& place,
                        std::vector<int32_t>& ids) const;

  SpmVocabulary vocabulary_;
  CharsMap chars_map_;
  Literals user_defined_;
  std::array<int32_t, 256> byte_ids_;  ///< -1: no token for this byte
  bool has_all_bytes_ = false;

  // BPE of both kinds.
  TokenIds ids_;  ///< of the pieces that merging can make
  bool has_unused_ = false;
  size_t longest_piece_ = 0;
  /// Pairs of bytes that stand side by side in some piece, or where a merge joins two. Between two others no merge can
  /// ever reach across, so the text falls apart there into segments that are encoded on their own; in most texts these
  /// are the words.
  std::bitset<65536> neighbours_;
  std::optional<MergeTable> merges_;  ///< `ranked`: of ids

  // Unigram only.
  std::unique_ptr<const PieceTrie> trie_;  ///< of the pieces that a text can be cut into
  std::vector<double> path_scores_;        ///< by id
  float unknown_score_ = 0;
  bool lines_are_apart_ = true;  ///< no piece has a line break beside anything else
};

/// The piece as text: with spaces in place of U+2581.
std::string with_spaces(std::string_view piece);

/// Has the file the model "gpt2" and a tokenizer.ggml.pre that stands for BPE on SentencePiece's pieces?
bool is_ranked_spm(const gguf::File& file);
/// The tokenizer.ggml.* keys of a file with model "llama", "t5" or "gemma4", or of which is_ranked_spm() is true.
std::shared_ptr<const Tokenizer> load_spm(const gguf::File& file, SpmModel model);

/// A SentencePiece model file (ModelProto in the library's sentencepiece_model.proto), BPE or unigram. `source` is its
/// path, for messages. Throws Error{bad_input} with path, reason and, where it helps, the offset.
SpmVocabulary parse_spm_model(std::string_view bytes, const std::string& source);

}  // namespace toy
