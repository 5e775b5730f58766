// What the vocabularies of all kinds share: tokens, their types, special ids; and the tokenizers on them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/literals.h"
#include "text/token_ids.h"
#include "toy/base/checksum.h"
#include "toy/text/fill_tokens.h"
#include "toy/text/pair_separators.h"
#include "toy/text/tokenizer.h"

namespace toy {

/// The numbers of tokenizer.ggml.token_type (and of SentencePiece's own model files).
enum class TokenType : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// What messages call the parts of a vocabulary, which depends on the kind of file.
struct VocabularyNames {
  std::string_view tokens = "tokenizer.ggml.tokens", scores = "tokenizer.ggml.scores",
                   types = "tokenizer.ggml.token_type";
};

/// tokenizer.ggml.* keys that every kind has.
struct Vocabulary {
  std::string source;  ///< for messages: the file's path
  VocabularyNames names;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;  ///< TokenType
  std::optional<int32_t> bos, eos, unknown;
  std::map<std::string, int32_t> other_ids;  ///< by key: tokenizer.ggml.eot_token_id, ...
  std::vector<int32_t> end_of_generation;    ///< sorted; may leave out `eos`
  std::vector<int32_t> strips_after;  ///< sorted: tokens that, written out in a text, take the spaces behind them
  std::vector<int32_t> shown;         ///< control tokens that are user-defined ones here, because answers show them
  FillTokens fill;                    ///< -1: there is none
  bool add_bos = false, add_eos = false;
  /// One more separator, after the end of a pair's first text; absent: the file does not say.
  std::optional<bool> add_sep = {};

  TokenType type(int32_t id) const { return TokenType(types[size_t(id)]); }
  int32_t size() const { return int32_t(tokens.size()); }
};

/// What counts where a file does not say. An id outside the vocabulary counts as none.
struct VocabularyDefaults {
  int32_t bos = -1, eos = -1, unknown = -1;
  bool add_bos = false, add_eos = false;
};
/// Reads everything but `source` and `names`, then finds the special tokens that files do not name, as llama.cpp does
/// (llama-vocab.cpp, llama_vocab::impl::load): some texts make a token a control token that ends a generation, whatever
/// its type in the file. Throws Error{bad_input} for ids outside the vocabulary.
void read_vocabulary(const gguf::File& file, const VocabularyDefaults& otherwise, Vocabulary& v);
/// Names without those that a vocabulary has anyway.
ControlTokens without(ControlTokens control, std::initializer_list<std::string_view> there);
/// Adds control tokens, and finds special tokens by their names once more.
void add_control_tokens(Vocabulary& v, const ControlTokens& control);
/// The same keys, and the tokens' scores, where there are some.
void save_vocabulary(const Vocabulary& v, gguf::Writer& writer, const std::vector<float>& scores = {});
/// Throws Error{bad_input} naming source, key and reason for what is no vocabulary: sizes, types, ids, tokens that are
/// not UTF-8 or there twice. Returns the ids by token, as long as `v` lives; empty tokens are not among them.
TokenIds check_vocabulary(const Vocabulary& v);

/// The byte that "<0x0A>" stands for; none for what is not the name of a byte token.
std::optional<uint8_t> byte_of_name(std::string_view token);

/// Sums up what a tokenizer is made of.
class Fingerprint {
 public:
  void bytes(const void* data, size_t n) { sum_.update({static_cast<const std::byte*>(data), n}); }
  void number(int64_t n) { bytes(&n, sizeof n); }
  void text(std::string_view t) {
    number(int64_t(t.size()));
    bytes(t.data(), t.size());
  }
  uint64_t digest() const { return sum_.digest(); }

 private:
  Xxh64 sum_;
};

/// A tokenizer with a vocabulary. Finds tokens that are written out in the text; the rest is its kind's own affair.
class VocabularyTokenizer : public Tokenizer {
 public:
  VocabularyTokenizer() = default;
  VocabularyTokenizer(const VocabularyTokenizer&) = delete;  // tries and maps look into texts_
  VocabularyTokenizer& operator=(const VocabularyTokenizer&) = delete;

  int32_t vocab_size() const final { return vocabulary().size(); }
  size_t encode_part(std::string_view text, bool last, EncodePlace& place, std::vector<int32_t>& ids,
                     EncodeOptions options) const final;
  std::vector<size_t> control_names(std::string_view text) const final;
  std::string token_bytes(int32_t id) const final { return text_of(id); }
  std::string written(int32_t id) const final;
  std::string decode(std::span<const int32_t> ids) const override;
  std::optional<int32_t> bos() const final { return vocabulary().bos; }
  std::optional<int32_t> eos() const final { return vocabulary().eos; }
  bool adds_bos() const final { return vocabulary().add_bos; }
  bool adds_eos() const final { return vocabulary().add_eos; }
  std::vector<int32_t> end_of_generation() const final;
  std::optional<FillTokens> fill() const;
  std::optional<bool> separates_twice() const { return vocabulary().add_sep; }

 protected:
  virtual const Vocabulary& vocabulary() const = 0;
  /// encode_part() for a text without tokens written out in it. `place.bytes` is where it begins; the caller moves it.
  virtual size_t encode_text(std::string_view text, bool last, EncodePlace& place, std::vector<int32_t>& ids) const = 0;

  /// To be called by the constructor once texts_ is complete. `user_defined`: those tokens are found here, too.
  void find_literals(bool user_defined);
  const std::string& text_of(int32_t id) const;

  std::vector<std::string> texts_;  ///< what each token decodes to

 private:
  bool is_shown(int32_t id) const { return std::ranges::find(vocabulary().shown, id) != vocabulary().shown.end(); }
  Literals::Match find_literal(std::string_view text, size_t from, bool last, size_t offset,
                               const EncodeOptions& options) const;

  Literals always_, on_request_;  ///< the latter holds the former, too
};

}  // namespace toy
