// How well a model predicts a text: the logarithm of the probability of every token, and what follows from it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/data/examples.h"
#include "toy/decode/decoder.h"
#include "toy/decode/sampler.h"

namespace toy {

/// Tokenized documents, each to be read from a fresh state.
struct EvalText {
  std::vector<std::vector<int32_t>> documents;
  std::optional<int32_t>
      bos;            ///< what every fresh state begins with; without it a document's first token is not scored
  int64_t bytes = 0;  ///< of the text whose tokens are scored
  /// Which tokens are scored, for each of a document; empty: all.
  std::vector<std::vector<uint8_t>> counted = {};
  /// Is token `index` of a document scored?
  bool counts(size_t document, int64_t index) const { return counted.empty() || counted[document][size_t(index)]; }
};
/// `with_bos`: begin as the tokenizer says; a document that begins with that token itself does not get a second one.
/// Documents keep their places, also those that have no tokens.
EvalText tokenize_for_eval(const Tokenizer& tokenizer, std::span<const std::string> documents, bool with_bos,
                           EncodeOptions options = {.parse_special = true});
/// Examples as documents (rows of `toy train --data`), of which the tokens are scored that training counts.
EvalText examples_for_eval(const Tokenizer& tokenizer, std::vector<Example> examples);
/// The parts of a text that blank lines separate (lines of only spaces and tabs), without the line breaks around
/// them.
std::vector<std::string> split_documents(std::string_view text);

/// How a text is read.
struct ScoreOptions {
  int64_t context =
      0;  ///< tokens of a window, the beginning-of-sequence token among them; 0: what the model was made for
  int64_t stride = 0;            ///< tokens from one window to the next, within a document; 0: half a window
  int top_logprobs = 0;          ///< the K best at each position
  bool check_finite = false;     ///< Session::check_finite in every call of the decoder
  std::optional<DType> kv = {};  ///< DecoderOptions::kv
  bool exact = false;            ///< DecoderOptions::exact
  bool repack = false;           ///< DecoderOptions::repack
};

/// One token of the text.
struct TokenScore {
  size_t document = 0;
  int64_t index = 0;  ///< of the document's tokens
  TokenLogprob token;
  std::vector<TokenLogprob> best;  ///< the most likely tokens there
};

/// Sums over a text, and what follows from them.
struct TextScore {
  double nats = 0;  ///< sum of -log p
  int64_t tokens = 0, bytes = 0;
  int64_t blocks = 0;
  bool blocks_are_documents = false;  ///< otherwise they are of kScoreBlock consecutive tokens
  /// Standard error of nats_per_token(): tokens of one block depend on each other, blocks are taken to be independent
  /// (the ratio estimator over clusters, Cochran, Sampling Techniques, 3rd ed., 6.3). NaN for fewer than two blocks.
  double standard_error = 0;

  double nats_per_token() const { return nats / double(tokens); }
  double perplexity() const;
  double nats_per_byte() const { return nats / double(bytes); }
  double bits_per_byte() const;
  /// To first order, from standard_error.
  double perplexity_error() const { return perplexity() * standard_error; }
  double bits_per_byte_error() const { return bits_per_byte() * standard_error / nats_per_token(); }
};
inline constexpr int64_t kScoreBlock = 64;

/// Reads documents in windows, each from a fresh state that begins with `bos`; tokens of a window that the previous one
/// scored are only read. `on_token` sees every scored token in the order of the text. The result does not
/// depend on the number of threads. `on_read` hears after each call how many tokens of all windows have been read.
/// Throws Error{bad_input} when there is nothing to score, for a token outside the vocabulary, for a stride that is not
/// in 1 to the window, and when the memory will not suffice.
TextScore score_text(Device& device, const Model& model, const EvalText& text, const ScoreOptions& options,
                     const std::function<void(const TokenScore&)>& on_token = {},
                     const std::function<void(int64_t read, int64_t all)>& on_read = {});

}  // namespace toy
