// Text to token ids and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/base/error.h"
#include "toy/formats/gguf.h"

namespace toy {

/// A text that a tokenizer cannot take, and where. The message names the place between its two parts.
class EncodeError : public Error {
 public:
  /// The message has "byte N of the text" between the two.
  EncodeError(std::string before, uint64_t offset, std::string after)
      : Error(ErrorCode::bad_input, before + fmt::format("byte {} of the text", offset) + after),
        before_(std::move(before)),
        after_(std::move(after)),
        offset_(offset) {}
  /// In bytes, from the beginning of the text.
  uint64_t offset() const { return offset_; }
  /// The message with the caller's words for the place.
  std::string at(const std::string& place) const { return before_ + place + after_; }

 private:
  std::string before_, after_;
  uint64_t offset_;
};

/// How a text is encoded.
struct EncodeOptions {
  /// A control token written out in the text ("<|im_start|>", "</s>") becomes that token. On for the user's own prompt;
  /// off for what others write into a conversation: there it is text. User-defined tokens are found either way.
  bool parse_special = false;
  /// Offsets in the complete text, sorted, where the name of a control token is letters all the same: those of
  /// Tokenizer::control_names() in parts of the text that somebody else wrote.
  std::span<const size_t> letters = {};
};

/// The position in the encoding of a text that comes in parts, at first its beginning.
struct EncodePlace {
  uint64_t bytes = 0;          ///< encoded so far
  bool begun = false;          ///< something was encoded since the last control token, perhaps only the prefix
  bool after_unknown = false;  ///< the last token is a run of unknown characters, which may continue
};

/// A tokenizer with a fixed vocabulary of ids 0..vocab_size()-1. Immutable, so it is safe to share: between threads,
/// and by the std::shared_ptr<const Tokenizer> that every function here returns and a Model holds.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// "bytes", "bpe" (byte-level BPE), "spm" (SentencePiece BPE), "unigram" (SentencePiece unigram), "gemma4"
  /// (BPE on SentencePiece's pieces, merges by rank), "wordpiece".
  virtual std::string_view kind() const = 0;
  virtual int32_t vocab_size() const = 0;
  /// Ids of the text, without a beginning-of-sequence token. Any bytes are accepted; what a tokenizer cannot
  /// take throws Error{bad_input} with the byte offset.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;
  /// The same for a text that comes in parts: `text` is what follows `place`, and `last` says that nothing comes after
  /// it. Appends the ids of its longest prefix that no further text can change, moves `place` past it and returns its
  /// number of bytes, which may be 0 unless `last`. See EncodeStream.
  virtual size_t encode_part(std::string_view text, bool last, EncodePlace& place, std::vector<int32_t>& ids,
                             EncodeOptions options) const = 0;
  /// Offsets in the text where a control token is written out: one that parse_special finds and that is letters without
  /// it, or a mark of answers, such as <|channel|> of gpt-oss, which is found either way.
  virtual std::vector<size_t> control_names([[maybe_unused]] std::string_view text) const { return {}; }
  /// Two tokenizers with the same fingerprint encode every text alike.
  virtual uint64_t fingerprint() const = 0;
  /// The exact bytes of one token in the middle of a text ("" for control tokens).
  virtual std::string token_bytes(int32_t id) const = 0;
  /// How a text writes the token for EncodeOptions::parse_special: of control tokens their name, else token_bytes().
  virtual std::string written(int32_t id) const { return token_bytes(id); }
  /// The bytes of a complete sequence (the leading space that some tokenizers add is removed).
  /// Throws Error{bad_input} for an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  /// Beginning- and end-of-sequence ids, where the vocabulary has them.
  virtual std::optional<int32_t> bos() const = 0;
  virtual std::optional<int32_t> eos() const = 0;
  /// Tokens after which a generation is over, sorted: eos(), and in chat models the end of a turn ("<|im_end|>",
  /// "<|eot_id|>"). The set is that of llama.cpp.
  virtual std::vector<int32_t> end_of_generation() const = 0;
  /// Whether an encoded prompt starts with bos() by default (tokenizer.ggml.add_bos_token).
  virtual bool adds_bos() const = 0;
  /// Whether a complete text ends with eos(), as for encoders (tokenizer.ggml.add_eos_token).
  virtual bool adds_eos() const = 0;
  /// Writes the tokenizer.ggml.* keys that llama.cpp reads.
  virtual void save(gguf::Writer& writer) const = 0;
};

/// 256 tokens, one per byte; stored in GGUF as byte-level BPE without merges, which llama.cpp reads as the same
/// thing.
std::shared_ptr<const Tokenizer> make_byte_tokenizer();

/// The tokenizers that run today, for messages.
inline constexpr const char* kSupportedTokenizers =
    "bytes, SentencePiece BPE and unigram, WordPiece, Gemma 4's, and byte-level BPE with a known "
    "pre-tokenizer";
/// Why the file's tokenizer cannot be loaded ("its tokenizer 'rwkv' is not supported"), or "".
std::string unsupported_tokenizer(const gguf::File& file);
/// From tokenizer.ggml.* keys. Throws naming file and reason for kinds that are not supported.
/// nullptr when the file carries no tokenizer (tokenizer.ggml.model absent, "none" or "no_vocab").
std::shared_ptr<const Tokenizer> load_tokenizer(const gguf::File& file);

/// A tokenizer for those who can do without.
struct OptionalTokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;  ///< nullptr: the file has none, or none that can be loaded
  std::string warning;                         ///< why it cannot be loaded, or what is to be known about it; mostly ""
};
/// As load_tokenizer(), but a tokenizer that is not supported or is broken gives a warning instead of an Error.
OptionalTokenizer try_load_tokenizer(const gguf::File& file);

/// From a GGUF file or a SentencePiece .model file, whichever it is. Throws Error{bad_input} with path and reason for
/// what is neither, and for a GGUF file without a tokenizer.
std::shared_ptr<const Tokenizer> load_tokenizer_file(const std::string& path);

/// A SentencePiece .model file (BPE or unigram) in memory; `name` is for messages. It says nothing about a
/// beginning-of-sequence token at the start of prompts: adds_bos() is false.
std::shared_ptr<const Tokenizer> load_spm_model(std::span<const std::byte> bytes, const std::string& name);

/// Control tokens that a new vocabulary gets: its last ids. They count as tokens of it; those that every vocabulary of
/// its kind has ("</s>") need not be named.
struct ControlTokens {
  std::vector<std::string> names;
  std::string end_of_turn = {};  ///< the one of them that ends a generation, whatever its name
};

/// How a SentencePiece vocabulary is trained.
struct SpmTrainOptions {
  int32_t vocab_size = 512;
  ControlTokens control = {};
  int threads = 1;
  /// tokenizer.ggml.add_bos_token. Off: windows of a running text never show a model the
  /// beginning-of-sequence token.
  bool add_bos = false;
};
/// Trains SentencePiece BPE with byte fallback on a text (identity normalization, no added space, so that
/// decode(encode(t)) == t for every text). Line breaks and tabs are in no piece: they become byte tokens.
/// Deterministic. Throws Error{bad_input} when the text is too small for the vocabulary, naming how many
/// tokens it gives.
std::shared_ptr<const Tokenizer> train_spm(std::string_view text, const SpmTrainOptions& options);

/// The same with a unigram model (Kudo 2018), whose text is cut into the pieces of the largest joint probability. Line
/// breaks and tabs have tokens of their own. llama.cpp has no byte fallback here: it gives `<unk>` for characters
/// that are not in the vocabulary. `threads` is ignored, because more threads would change the result.
std::shared_ptr<const Tokenizer> train_unigram(std::string_view text, const SpmTrainOptions& options);

/// Trains byte-level BPE on a text: the 256 bytes (ids 0 to 255), merges of the most frequent pairs, and
/// "<|endoftext|>" as bos() and eos(). Words are those of Qwen 2: numbers are cut into digits. decode(encode(t)) == t
/// for every text. llama.cpp reads it. Deterministic. Throws Error{bad_input} when the text is too small for the
/// vocabulary, naming how many tokens it gives.
std::shared_ptr<const Tokenizer> train_bpe(std::string_view text, int32_t vocab_size,
                                           const ControlTokens& control = {});

/// Is it of the form "bytes", "bpe:V", "spm:V" or "unigram:V"? Else it may name a file.
bool is_tokenizer_spec(std::string_view spec);
/// "bytes", "bpe:V", "spm:V" or "unigram:V", perhaps with control tokens; then "bytes" has "<|endoftext|>", too. Throws
/// with the accepted forms.
std::shared_ptr<const Tokenizer> make_tokenizer(std::string_view spec, std::string_view corpus,
                                                const ControlTokens* control = nullptr);

/// Puts bos() in front of ids where the tokenizer adds it and they do not begin with it; false: nothing was added.
bool add_bos(const Tokenizer& tokenizer, std::vector<int32_t>& ids);
/// The ids of a prompt, which an answer continues: encode(), after bos() where the tokenizer adds it and the text does
/// not begin with it. Never eos() at the end, which would stand between prompt and answer.
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text,
                                   EncodeOptions options = {.parse_special = true});
/// The ids of a text that nothing continues, such as one to embed: encode_prompt(), and then eos() where the tokenizer
/// adds it and the text does not end with it.
std::vector<int32_t> encode_complete(const Tokenizer& tokenizer, std::string_view text,
                                     EncodeOptions options = {.parse_special = true});

/// About how many bytes of memory make_tokenizer() takes beside `corpus`, rather more than less; 0 for "bytes".
size_t training_bytes(std::string_view spec, std::string_view corpus);

/// Encodes a text that comes in parts, to the ids of the complete text. Holds what may still change: about a chunk, or
/// up to the next place where the tokenizer can cut (unigram: a line break after 4096 bytes; tokenizers that normalize:
/// the complete text).
class EncodeStream {
 public:
  static constexpr size_t kChunk = size_t(1) << 20;
  /// Encodes whenever `chunk` bytes have come together. `tokenizer` must outlive the stream.
  explicit EncodeStream(const Tokenizer& tokenizer, size_t chunk = kChunk, EncodeOptions options = {})
      : tokenizer_(&tokenizer), options_(options), chunk_(chunk), enough_(chunk) {}
  /// Takes the next part and appends the ids that are certain. Throws Error{bad_input} as Tokenizer::encode does, with
  /// the offset in the complete text.
  void push(std::string_view text, std::vector<int32_t>& ids);
  /// The text ends here; the next push() begins another.
  void finish(std::vector<int32_t>& ids);

 private:
  const Tokenizer* tokenizer_;
  EncodeOptions options_;
  size_t chunk_, enough_;
  std::string pending_;
  EncodePlace place_;
};

/// Turns a stream of tokens into text that never ends inside a UTF-8 character: push() holds back the
/// beginning of a character that can still be completed (at most three bytes). Bytes that can never become
/// UTF-8 pass as they are.
class Utf8Stream {
 public:
  /// Bytes that are ready to be shown after `bytes` were added.
  std::string push(std::string_view bytes);
  /// What is left at the end of the stream (the cut-off beginning of a character).
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace toy
