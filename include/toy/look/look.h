// A look inside a model while it reads a text: what its heads attend to, what each layer would predict, what each block
// adds to the rows, and what recurrent layers keep. Of encoders, too, which fill in masks, tell classes, or neither.
// docs/look.md defines every number.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "toy/base/options.h"
#include "toy/models/model.h"

namespace toy {

/// What look() computes.
struct LookOptions {
  int64_t top = 5;     ///< best tokens at each place
  int64_t rows = 0;    ///< attention of the last rows alone, at most; 0: of all
  bool exact = false;  ///< products with quantized weights are not rounded to 8 bits, which decoding does
  uint64_t seed = 1;   ///< of the random tokens that induction is measured on
  /// What is made of the numbers afterwards, so that there is memory for it, too.
  enum Output { numbers, page, json } output = numbers;

  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f({"top", "Best tokens to keep at each place", at_least(1), "Output"}, o.top);
    f({"rows", "Keep the attention of the last rows only; 0 keeps all", at_least(0), "Output"}, o.rows);
    f({"seed", "Seed of the random tokens that induction heads are found with", {}, "Output"}, o.seed);
    f({"exact", "Compute quantized products exactly, not in 8 bits", {}, "Machine"}, o.exact);
  }
};

/// A token and its probability.
struct TokenChance {
  int32_t id = 0;
  double probability = 0;
};

/// What a head does, measured. NaN: there was nothing to measure it on. Scores are means of attention weights, so they
/// lie in [0, 1].
struct HeadScores {
  double previous = 0;   ///< weight on the token before, over the text
  double first = 0;      ///< weight on the first token, with that of a learned sink, over the text
  double induction = 0;  ///< weight on the token after the earlier copy, in random tokens that are repeated once
  double duplicate = 0;  ///< weight on the earlier copy itself, in the same tokens
  double entropy = 0;    ///< of a row's weights, in nats, over the text
  double distance = 0;   ///< to the token that is attended to, over the text
  /// Names of the scores that are at least kHeadRole: "previous token", "first token", "induction", "duplicate token".
  std::vector<std::string> roles() const;
};
/// A head has a role from this score on.
inline constexpr double kHeadRole = 0.4;

/// An attention head.
struct HeadLook {
  /// [R,T]: row r is that of token T - R + r. Weights of tokens that it cannot see are 0: those after it, but of an
  /// encoder none. A row sums to 1, less the share of a learned sink.
  std::vector<float> weights;
  HeadScores scores;
};

/// A head of a recurrence, for each token.
struct StateHead {
  std::vector<double> decay;     ///< part of the state that is kept; of gates of channels, their mean
  std::vector<double> strength;  ///< beta: how much of a value is written
  std::vector<double> written;   ///< Euclidean norm of what is written for the key: beta (v - S^T k), or beta v
  std::vector<double> norm;      ///< Frobenius norm of the state after the token
};

/// What the model would predict if the blocks ended here: final norm and output projection of the rows (logit lens,
/// nostalgebraist 2020). The norm's statistics are those of these rows.
struct LensPoint {
  std::vector<TokenChance> top;  ///< the best first
  double entropy = 0;            ///< nats
  double kl = 0;                 ///< from the model's output to this, nats
  /// Probability of the token that follows in the text; NaN at its end. Of an encoder, that of the token itself.
  double next = 0;
  std::optional<int64_t> rank = {};  ///< of that token, 0 is the best
};

/// What a block adds to the rows.
struct Addition {
  std::string part;            ///< "mixer", "ffn" or "input"
  std::vector<double> norm;    ///< [T], Euclidean
  std::vector<double> cosine;  ///< [T], with the row that it is added to
};

/// One layer.
struct LayerLook {
  std::string mixer;                          ///< as lists of layers name it: "attn", "gdn", ...
  int64_t window = 0;                         ///< of attention; 0: all
  std::vector<HeadLook> heads;                ///< of attention
  std::vector<StateHead> states;              ///< of recurrences
  std::vector<std::vector<int32_t>> experts;  ///< [T], the chosen ones
  std::vector<Addition> added;                ///< none where norms come after the sums (BERT)
  std::vector<double> norm;                   ///< [T], of the rows that leave the block
  std::vector<LensPoint> lens;                ///< [T]; none where the model predicts no tokens
};

/// A class of a text, and how likely the model thinks it.
struct ClassChance {
  std::string name;
  double probability = 0;
};

/// All of it.
struct Look {
  std::vector<int32_t> ids;     ///< [T]
  int64_t first_row = 0;        ///< T - R, see HeadLook::weights
  std::vector<double> norm;     ///< [T], of the embedded tokens
  std::vector<LensPoint> lens;  ///< [T], of the embedded tokens; none where the model predicts no tokens
  std::vector<LayerLook> layers;
  std::vector<ClassChance> classes;  ///< of a classifier of texts, the likeliest first
  bool causal = true;                ///< tokens see those before them; false: all (an encoder)
  /// That are repeated once to measure induction; 0: the context is too short, or the model is an encoder.
  int64_t random_tokens = 0;
  /// Does the model predict tokens: those that follow, or of an encoder those that are masked?
  bool predicts() const { return !lens.empty(); }
  /// What the model says of token t of the text, which is not the first one of a causal model. Only if it predicts().
  const LensPoint& prediction(size_t token) const { return output(causal ? token - 1 : token); }
  /// The model's output at a token: that of the last layer. Only if it predicts().
  const LensPoint& output(size_t token) const { return layers.empty() ? lens[token] : layers.back().lens[token]; }
};

/// Reads the tokens as training and decoding do, with the same bits, and takes the graph's values: for any family of
/// texts. Memory grows with T^2 heads. Throws Error{bad_input} for a model of pictures, no tokens, ids outside the
/// vocabulary, more tokens than the model has positions, and where memory will not suffice for them and
/// LookOptions::output, before anything is computed.
Look look(Device& device, const Model& model, std::span<const int32_t> ids, const LookOptions& options = {});

/// The same in parts, for those who have other things to do in between. The blocks are one part; each of the others
/// takes milliseconds.
class LookJob {
 public:
  /// `device` and `model` must outlive it. Throws as look().
  LookJob(Device& device, const Model& model, std::vector<int32_t> ids, const LookOptions& options = {});
  ~LookJob();
  LookJob(const LookJob&) = delete;
  LookJob& operator=(const LookJob&) = delete;
  /// Computes a part. False: there was none left.
  bool step();
  /// What step() has made, once it is complete.
  Look& result();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a token writes, for people: bytes that are no part of a character as hexadecimal numbers after a backslash and
/// x. Without a tokenizer its number.
std::string text_of(const Tokenizer* tokenizer, int32_t id);
/// {"ids", "tokens", "first_row", "embedding", "layers": [{"attention": [H][R][T], "top": [T][k], ...}]}; docs/look.md
/// has the keys. Numbers have 7 digits. All texts are UTF-8; tokens that are not have their "bytes", too.
nlohmann::ordered_json to_json(const Look& look, const Tokenizer* tokenizer);
/// A page with everything in it: no network, light and dark. `title` is text. Weights have 8 bits, of their square
/// roots.
std::string to_html(const Look& look, const Tokenizer* tokenizer, const std::string& title);
/// How many of the last rows a page should keep of so many tokens.
int64_t page_rows(int64_t tokens);

}  // namespace toy
