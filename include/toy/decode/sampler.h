// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/text/constraint.h"
#include "toy/text/tokenizer.h"

namespace toy {

/// One step of the chain that turns logits into a choice. The names are llama.cpp's.
enum class SamplerStep { penalties, dry, temperature, top_n_sigma, top_k, typ_p, top_p, min_p, xtc };

/// The chain where nothing else is said. llama.cpp has the same steps with the temperature at the end.
std::vector<SamplerStep> default_sampler_steps();
/// Steps by name, "penalties;top_k;temperature"; each at most once. Throws Error{bad_input} naming a name that is
/// unknown or stated twice, and the names that there are.
std::vector<SamplerStep> parse_sampler_steps(std::string_view names);
/// The reverse of parse_sampler_steps().
std::string sampler_step_names(const std::vector<SamplerStep>& steps);

/// How a token is chosen from the model's logits: the constraint, the bias, then the chain of `steps`, then a draw. A
/// step whose options have their defaults changes nothing. docs/sampling.md has the definitions.
struct SamplerOptions {
  double temperature = 0;  ///< 0: the likeliest token after penalties, bias and DRY
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

  std::vector<std::pair<int32_t, double>> logit_bias = {};  ///< added to the logits of tokens; -infinity rules one out
  /// The temperature is between temperature - range and + range: the lower end where the entropy is 0, the upper end
  /// where all tokens are equally likely, and between them by (entropy / largest entropy) ^ exponent.
  double dynatemp_range = 0, dynatemp_exponent = 1;
  double typical_p = 1;    ///< only those of the most typical surprise that together exceed p (Meister et al. 2022)
  double top_n_sigma = 0;  ///< only logits within n standard deviations of the largest (Tang et al. 2024); 0: all
  /// Exclude top choices: with this probability, of all tokens at least as likely as the threshold only the least
  /// likely one stays.
  double xtc_probability = 0, xtc_threshold = 0.1;
  /// "Don't repeat yourself": a token that would continue a sequence that occurred before, of n >= allowed_length
  /// tokens, loses multiplier * base ^ (n - allowed_length). 0: off.
  double dry_multiplier = 0, dry_base = 1.75;
  int64_t dry_allowed_length = 2;
  int64_t dry_penalty_last_n = -1;         ///< tokens of prompt and text that are searched; -1: all
  std::vector<int32_t> dry_breakers = {};  ///< tokens at which a repetition ends: tokens_with()
  /// Mirostat 2 (Basu et al. 2021): only tokens whose surprise is at most mu, which follows the text so that the
  /// surprise stays near `mirostat_tau` bits. It takes the place of all steps after temperature.
  bool mirostat = false;
  double mirostat_tau = 5, mirostat_eta = 0.1;
  std::vector<SamplerStep> steps = default_sampler_steps();
};

/// Tokens whose bytes contain one of these texts, for SamplerOptions::dry_breakers.
std::vector<int32_t> tokens_with(const Tokenizer& tokenizer, const std::vector<std::string>& texts);

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

class Candidates;

/// Draws the ids of one text, in order. Draw number `step` depends only on the options, the step, the logits, the
/// history, and the draws before it where the options have a constraint or mirostat. A copy continues from the same
/// place.
class Sampler {
 public:
  /// Throws Error{bad_input} naming the option that is out of range, that needs a step which `steps` lacks, or that
  /// mirostat does not go with.
  explicit Sampler(const SamplerOptions& options);
  /// With a clone of its constraint.
  Sampler(const Sampler& other);
  Sampler& operator=(const Sampler& other);
  /// As usual.
  Sampler(Sampler&&) = default;
  Sampler& operator=(Sampler&&) = default;
  /// `history` is what penalties look at: prompt and text so far, the latest last. A constraint sees what was picked.
  /// Throws Error{failure} for logits that hold NaN or +infinity, or -infinity for every token, and Error{bad_input}
  /// where constraint and bias leave no token that the model can give, or name one outside the logits.
  int32_t pick(std::span<const float> logits, uint64_t step, std::span<const int32_t> history = {});
  /// Does the constraint say that the text is complete and nothing may follow? Then the text ends; there is no token
  /// to pick. False without a constraint.
  bool finished() const { return constraint_ && constraint_->finished(); }

 private:
  bool has(SamplerStep step) const;
  int32_t choose(Candidates& candidates, uint64_t step, std::span<const int32_t> history);
  void apply(SamplerStep step, Candidates& candidates, uint64_t draw, std::span<const int32_t> history) const;
  int32_t draw_mirostat(Candidates& candidates, uint64_t step);

  SamplerOptions options_;
  std::unique_ptr<TokenConstraint> constraint_;  // follows the text
  double mirostat_mu_ = 0;
};

}  // namespace toy
