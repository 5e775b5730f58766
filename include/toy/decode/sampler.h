// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "toy/text/constraint.h"

namespace toy {

/// What changes the model's logits before a token is chosen, in this order: penalties, temperature, top-k, top-p,
/// min-p.
struct SamplerOptions {
  double temperature = 0;  ///< 0: the likeliest token
  int top_k = 0;           ///< only the k likeliest; 0: all
  double top_p = 1;        ///< only the likeliest that together reach p (Holtzman et al. 2020)
  double min_p = 0;        ///< only those at least p times as likely as the likeliest (Nguyen et al. 2024); 0: all
  /// Penalties as llama.cpp defines them, for a token that occurs c > 0 times among the last `penalty_last_n`: its
  /// logit is divided by `repeat_penalty` if positive and multiplied with it if not (Keskar et al. 2019); then c *
  /// frequency_penalty + presence_penalty are subtracted from it (OpenAI).
  double repeat_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  int64_t penalty_last_n = 64;  ///< tokens of prompt and text that count; -1: all, 0: none
  uint64_t seed = 0;
  /// The tokens that the text may have, in front of everything else; none: all. It is at the beginning of the text, and
  /// the sampler follows the text with a clone of it.
  std::shared_ptr<const TokenConstraint> constraint = {};
};

/// A token and its log probability.
struct TokenLogprob {
  int32_t id = 0;
  double logprob = 0;  ///< natural logarithm, of the model's own distribution (temperature 1, no constraint, nothing
                       ///< cut or penalized)
};

/// log softmax of one row of logits at one id, in f64.
double log_softmax_at(std::span<const float> logits, int32_t id);
/// The k likeliest, best first; equal ones by id.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int k);

/// Draws the ids of one text, in order. Draw number `step` depends only on the options, the step, the logits, the
/// history, and the draws before it where the options have a constraint. A copy continues from the same place.
class Sampler {
 public:
  /// Throws Error{bad_input} for a negative temperature or top_k, top_p outside (0, 1], min_p outside [0, 1], a
  /// repeat_penalty that is not positive, or penalties that are not finite.
  explicit Sampler(const SamplerOptions& options);
  Sampler(const Sampler& other);
  Sampler& operator=(const Sampler& other);
  Sampler(Sampler&&) = default;
  Sampler& operator=(Sampler&&) = default;
  /// `history` is what penalties look at: prompt and text so far, the latest last. A constraint sees what was picked.
  /// Throws Error{failure} for logits that hold NaN or +infinity, or -infinity for every token, and Error{bad_input}
  /// where the constraint allows no token that the model can give.
  int32_t pick(std::span<const float> logits, uint64_t step, std::span<const int32_t> history = {});
  /// Does the constraint say that the text is complete and nothing may follow? Then the text ends; there is no token
  /// to pick. False without a constraint.
  bool finished() const { return constraint_ && constraint_->finished(); }

 private:
  bool penalizes() const;
  void constrain(std::span<float> logits);
  void penalize(std::span<float> logits, std::span<const int32_t> history) const;
  int32_t draw(std::span<const float> logits, uint64_t step) const;
  SamplerOptions options_;
  std::unique_ptr<TokenConstraint> constraint_;  // follows the text
};

}  // namespace toy
