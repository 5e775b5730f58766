// Choosing the next token from logits.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/base/options.h"
#include "toy/text/constraint.h"
#include "toy/text/tokenizer.h"

namespace toy {

/// One step of the chain that turns logits into a choice. The names are llama.cpp's.
enum class SamplerStep { penalties, dry, temperature, top_n_sigma, top_k, typ_p, top_p, min_p, xtc };

/// The chain where nothing else is said. llama.cpp has the same steps with the temperature at the end.
std::vector<SamplerStep> default_sampler_steps();
/// "penalties;top_k;temperature".
std::string sampler_step_names(const std::vector<SamplerStep>& steps);

/// How a token is chosen from the model's logits: the constraint, the bias, then the chain of `steps`, then a draw. A
/// step whose options have their defaults changes nothing. fields() says what each is, docs/sampling.md has the
/// definitions.
struct SamplerOptions {
  double temperature = 0;  ///< 0: the likeliest token after penalties, bias and DRY
  int top_k = 0;
  double top_p = 1, min_p = 0;
  double repeat_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  int64_t penalty_last_n = 64;
  uint64_t seed = 0;
  /// The tokens that the text may have, in front of everything else; none: all. It is at the beginning of the text, and
  /// the sampler follows the text with a clone of it.
  std::shared_ptr<const TokenConstraint> constraint = {};
  std::vector<std::pair<int32_t, double>> logit_bias = {};  ///< added to the logits of tokens; -infinity rules one out
  double dynatemp_range = 0, dynatemp_exponent = 1;
  double typical_p = 1, top_n_sigma = 0;
  double xtc_probability = 0, xtc_threshold = 0.1;
  double dry_multiplier = 0, dry_base = 1.75;
  int64_t dry_allowed_length = 2, dry_penalty_last_n = -1;
  std::vector<int32_t> dry_breakers = {};  ///< tokens at which a repetition ends: tokens_with()
  bool mirostat = false;                   ///< instead of all steps after temperature
  double mirostat_tau = 5, mirostat_eta = 0.1;
  std::vector<SamplerStep> steps = default_sampler_steps();

  /// Names are llama-server's.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Sampling";
    f({"temperature", "Sampling temperature; 0 always takes the likeliest token", at_least(0), k, "temperature", "",
       "--temperature,--temp"},
      o.temperature);
    f({"top_k", "Choose among the N likeliest tokens; 0 and -1 keep all", from_to(-1, INT32_MAX), k, "top_k"}, o.top_k);
    f({"top_p", "Choose among the likeliest tokens of this total probability", from_to(0, 1), k, "top_p"}, o.top_p);
    f({"min_p", "Drop tokens below this fraction of the likeliest one's probability", from_to(0, 1), k, "min_p"},
      o.min_p);
    f({"repeat_penalty", "Penalty factor for tokens that occurred; 1 turns it off", above(0), k, "penalties", "repeat"},
      o.repeat_penalty);
    f({"frequency_penalty", "Logit penalty per occurrence of a token; 0 turns it off", Limits(), k, "penalties",
       "frequency"},
      o.frequency_penalty);
    f({"presence_penalty", "Logit penalty for tokens that occurred; 0 turns it off", Limits(), k, "penalties",
       "presence"},
      o.presence_penalty);
    f({"repeat_last_n", "Latest tokens that penalties count; -1 takes all, 0 turns penalties off", at_least(-1), k,
       "penalties", "last_n"},
      o.penalty_last_n);
    f({"seed", "Seed of the random choices", Limits(), k}, o.seed);
    f({"dynatemp_range", "Vary the temperature by up to this with the entropy; 0 turns it off", at_least(0), "",
       "temperature", "range"},
      o.dynatemp_range);
    f({"dynatemp_exponent", "Exponent of the dynamic temperature", above(0), "", "temperature", "exponent"},
      o.dynatemp_exponent);
    f({"typical_p", "Choose among the most typical tokens of this probability", above_to(0, 1), "", "typ_p", "typ_p"},
      o.typical_p);
    f({"top_n_sigma", "Keep logits within N standard deviations of the largest; 0 keeps all", at_least(0), "",
       "top_n_sigma"},
      o.top_n_sigma);
    f({"xtc_probability", "Probability of excluding the top choices", from_to(0, 1), "", "xtc", "probability"},
      o.xtc_probability);
    f({"xtc_threshold", "Probability from which a token is a top choice", above_to(0, 1), "", "xtc", "threshold"},
      o.xtc_threshold);
    f({"dry_multiplier", "Penalty factor for repeated sequences; 0 turns it off", at_least(0), "", "dry", "multiplier"},
      o.dry_multiplier);
    f({"dry_base", "Growth of that penalty per repeated token", at_least(1), "", "dry", "base"}, o.dry_base);
    f({"dry_allowed_length", "Repeated tokens without a penalty", at_least(0), "", "dry", "allowed_length"},
      o.dry_allowed_length);
    f({"dry_penalty_last_n", "Latest tokens that are searched; -1 takes all", at_least(-1), "", "dry", "last_n"},
      o.dry_penalty_last_n);
    f({"mirostat_tau", "Mirostat's surprise per token in bits", above(0), "", "mirostat", "tau"}, o.mirostat_tau);
    f({"mirostat_eta", "Mirostat's learning rate", above(0), "", "mirostat", "eta"}, o.mirostat_eta);
  }
};

/// Sets the chain, "penalties;dry(multiplier=0.8);top_k(40);temperature", and what its brackets say; "mirostat" may end
/// it. An empty one has no steps. Returns the names of the options that brackets have set. Throws Error{bad_input},
/// which begins with `what`, for a step that is unknown or there twice, and for settings that set_listed() refuses.
std::vector<std::string_view> set_sampler_chain(SamplerOptions& options, std::string_view chain,
                                                std::string_view what = "samplers");

/// Turns off the options of steps that the chain lacks or mirostat takes the place of, but for those that `given`
/// names: defaults of a caller must not make a chain an error.
void turn_off_left_out(SamplerOptions& options, std::span<const std::string_view> given);

/// Tokens whose bytes contain one of these texts, for SamplerOptions::dry_breakers.
std::vector<int32_t> tokens_with(const Tokenizer& tokenizer, const std::vector<std::string>& texts);

/// A token and its log probability.
struct TokenLogprob {
  int32_t id = 0;
  double logprob = 0;  ///< natural logarithm, of the model's own distribution (temperature 1, no constraint, nothing
                       ///< cut or penalized)
};

/// As many of the largest logits suffice for most chains with top_k: devices with memory of their own tell so many.
inline constexpr int kLikeliest = 64;

/// What log probabilities of a row of logits are made of, in f64.
struct RowSums {
  double top = 0;       ///< the largest logit
  double sum = 0;       ///< of exp(logit - top), in their order
  double weighted = 0;  ///< of exp(logit - top) (logit - top)
  RowSums() = default;  ///< of none
  /// `weights`: become exp(logit - top), if it is not empty.
  explicit RowSums(std::span<const float> logits, std::span<double> weights = {});
  double logprob(double logit) const { return logit - (top + std::log(sum)); }  ///< as log_softmax_at(), to the bit
  double entropy() const { return std::log(sum) - weighted / sum; }             ///< in nats
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
  /// `sums`: becomes those of the logits, where the draw needs them.
  int32_t pick(std::span<const float> logits, uint64_t step, std::span<const int32_t> history = {},
               std::optional<RowSums>* sums = nullptr);
  /// How many of the largest logits decide what pick() takes, whatever the others are: 1 without randomness, k where
  /// top_k(k) comes first. 0: all of them do.
  int64_t decided_by(std::span<const int32_t> history) const;
  /// What pick() takes where these are the largest logits and their ids, in order, equal ones by id: at least
  /// decided_by(), or all there are. The largest is finite, and none is NaN.
  int32_t pick_of(std::span<const int32_t> ids, std::span<const float> logits, uint64_t step,
                  std::span<const int32_t> history);
  /// Does the constraint say that the text is complete and nothing may follow? Then the text ends; there is no token
  /// to pick. False without a constraint.
  bool finished() const { return constraint_ && constraint_->finished(); }

 private:
  bool has(SamplerStep step) const;
  bool draws_plainly() const;
  int32_t choose(Candidates& candidates, uint64_t step, std::span<const int32_t> history);
  void apply(SamplerStep step, Candidates& candidates, uint64_t draw, std::span<const int32_t> history) const;
  int32_t draw_mirostat(Candidates& candidates, uint64_t step);

  SamplerOptions options_;
  std::unique_ptr<TokenConstraint> constraint_;  // follows the text
  double mirostat_mu_ = 0;
};

}  // namespace toy
