// Two models on the same text: what a quantization or a fine-tune changed, and the loss on the line between them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "toy/eval/score.h"

namespace toy {

/// A mean per token and its standard error (NaN for fewer than two blocks, see TextScore::standard_error).
struct MeanError {
  double mean = 0, error = 0;
};

/// Fractions of the tokens for which Divergence::quantiles says what they are at most.
inline constexpr std::array kDivergenceQuantiles{0.5, 0.9, 0.95, 0.99, 0.999, 1.0};

/// How the predictions of a model q differ from those of a base p, over the tokens of a text.
struct Divergence {
  MeanError kl;                                                 ///< sum of p log(p/q) over the vocabulary, in nats
  std::array<double, kDivergenceQuantiles.size()> quantiles{};  ///< of these sums
  MeanError same_top;                                           ///< is the most likely token the same? 0 to 1
  MeanError base, model;  ///< nats per token: -log p and -log q of the text's tokens
  MeanError difference;   ///< model - base; its error counts that both read the same tokens
  MeanError probability;  ///< q - p of the text's tokens
  double probability_rms = 0;
  int64_t tokens = 0, blocks = 0;
  bool blocks_are_documents = false;
  double perplexity_ratio() const;  ///< exp(difference)
};

/// One token of the text under both.
struct DivergenceOfToken {
  double kl = 0, base = 0, model = 0;  ///< nats
};

/// Reads the text with both models side by side, as score_text() does, in the windows of `options`. `of_base`: kv,
/// exact and repack of the base, where they are not those of `options`. `on_token` sees each token in the order of the
/// text. The result does not depend on the number of threads. Throws Error{bad_input} as score_text(), and where the
/// vocabularies differ.
Divergence compare_models(Device& device, const Model& base, const Model& model, const EvalText& text,
                          const ScoreOptions& options,
                          const std::function<void(const DivergenceOfToken&)>& on_token = {},
                          const std::optional<ScoreOptions>& of_base = {});

/// Throws Error{bad_input} naming the first tensor, or else the dimension, in which two models differ.
void require_same_shape(const ModelSpec& a, const ModelSpec& b);
/// Sets the weights of `mixed`, which are f32, to (1 - alpha) a + alpha b, each rounded once; they are a's at 0 and
/// b's at 1. All three have the same tensors (require_same_shape()).
void interpolate(const Model& a, const Model& b, double alpha, Model& mixed);

}  // namespace toy
