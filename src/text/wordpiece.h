// WordPiece: "bert" in tokenizer.ggml.model.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/spm/piece_trie.h"
#include "text/vocabulary.h"

namespace toy {

/// In `tokens` a piece that begins a word is written with U+2581 before it, one that goes on without. (BERT's own files
/// write "##" before the latter. Such a vocabulary is rewritten.)
struct WordPieceVocabulary : Vocabulary {
  bool lowercase = true, strip_accents = true;  ///< tokenizer.ggml.normalizer.*
};

/// Gives the ids of Hugging Face's BertTokenizer (BasicTokenizer and WordpieceTokenizer in google-research/bert,
/// tokenization.py). A text does not come back: case, accents, control characters and the kind of spaces are lost.
/// llama.cpp removes all marks as accents (\p{M}; BERT: \p{Mn}), and cuts up words of any length (BERT: 100
/// characters).
class WordPieceTokenizer final : public VocabularyTokenizer {
 public:
  /// Throws Error{bad_input} naming source, key and reason for a vocabulary that is no vocabulary.
  explicit WordPieceTokenizer(WordPieceVocabulary vocabulary);

  std::string_view kind() const override { return "wordpiece"; }
  uint64_t fingerprint() const override;
  std::string decode(std::span<const int32_t> ids) const override;
  void save(gguf::Writer& writer) const override;

 private:
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  size_t encode_text(std::string_view text, bool last, EncodePlace& place, std::vector<int32_t>& ids) const override;
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

  WordPieceVocabulary vocabulary_;
  std::unique_ptr<const PieceTrie> trie_;
};

/// From "##" before pieces that go on to U+2581 before those that begin.
void mark_beginnings(Vocabulary& v);
/// The tokenizer.ggml.* keys of a file with model "bert".
std::shared_ptr<const Tokenizer> load_wordpiece(const gguf::File& file);

}  // namespace toy
