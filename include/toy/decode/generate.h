// Choosing tokens, and generating text with a decoder.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "toy/decode/decoder.h"

namespace toy {

struct SamplerOptions {
  double temperature = 0;  ///< 0: the likeliest token
  int top_k = 0;           ///< only the k likeliest; 0: all
  double top_p = 1;        ///< only the likeliest that together reach p (Holtzman et al. 2020)
  uint64_t seed = 0;
};

struct TokenLogprob {
  int32_t id = 0;
  double logprob = 0;  ///< natural logarithm, of the model's own distribution (temperature 1, nothing cut)
};

/// log softmax of one row of logits at one id, in f64.
double log_softmax_at(std::span<const float> logits, int32_t id);
/// The k likeliest, best first; equal ones by id.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int k);

/// Draws ids. Draw number `step` depends on the seed, the step and the logits alone.
class Sampler {
 public:
  /// Throws Error{bad_input} for a negative temperature or top_k, or top_p outside (0, 1].
  explicit Sampler(const SamplerOptions& options);
  int32_t pick(std::span<const float> logits, uint64_t step) const;

 private:
  SamplerOptions options_;
};

struct GenerateOptions {
  int64_t max_tokens = 128;
  SamplerOptions sampler;
  int top_logprobs = 0;     ///< the K best at each position
  bool ignore_eos = false;  ///< go on after the end-of-sequence token
};

struct GeneratedToken {
  TokenLogprob chosen;
  std::vector<TokenLogprob> best;
};

/// Feeds `prompt` into a sequence of the decoder and generates. `on_token` sees each token as it comes; returning false
/// stops. An end-of-sequence token ends the text and is the last of the result. Throws for an empty prompt.
std::vector<GeneratedToken> generate(Decoder& decoder, int sequence, std::span<const int32_t> prompt,
                                     std::optional<int32_t> eos, const GenerateOptions& options,
                                     const std::function<bool(const GeneratedToken&)>& on_token = {});

}  // namespace toy
