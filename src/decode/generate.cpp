#include "toy/decode/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "toy/base/philox.h"

namespace toy {
namespace {

double log_sum_exp(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float l : logits) sum += std::exp(double(l) - top);
  return top + std::log(sum);
}

// Ids sorted from the likeliest, equal ones by id; only the first k are in order (k = 0: all).
std::vector<int32_t> ranked(std::span<const float> logits, size_t k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto better = [&](int32_t a, int32_t b) {
    return logits[size_t(a)] != logits[size_t(b)] ? logits[size_t(a)] > logits[size_t(b)] : a < b;
  };
  if (k == 0 || k >= ids.size()) {
    std::sort(ids.begin(), ids.end(), better);
  } else {
    std::partial_sort(ids.begin(), ids.begin() + int64_t(k), ids.end(), better);
    ids.resize(k);
  }
  return ids;
}

void check_finite(std::span<const float> logits) {
  for (size_t i = 0; i < logits.size(); ++i)
    if (std::isnan(logits[i])) fail_internal("the model gives NaN for token {}: its weights are broken", i);
}

}  // namespace

double log_softmax_at(std::span<const float> logits, int32_t id) {
  return double(logits[size_t(id)]) - log_sum_exp(logits);
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int k) {
  std::vector<TokenLogprob> result;
  if (k <= 0) return result;
  const double lse = log_sum_exp(logits);
  for (const int32_t id : ranked(logits, size_t(k))) result.push_back({id, double(logits[size_t(id)]) - lse});
  return result;
}

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  check(options.temperature >= 0 && std::isfinite(options.temperature), "temperature {} is not 0 or more",
        options.temperature);
  check(options.top_k >= 0, "top-k {} is negative; 0 means all", options.top_k);
  check(options.top_p > 0 && options.top_p <= 1, "top-p {} is not above 0 and at most 1", options.top_p);
}

int32_t Sampler::pick(std::span<const float> logits, uint64_t step) const {
  check_finite(logits);
  if (options_.temperature == 0) return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<int32_t> ids = ranked(logits, size_t(options_.top_k));
  std::vector<double> p;
  const double top = logits[size_t(ids[0])];
  double total = 0;
  for (const int32_t id : ids)
    total += p.emplace_back(std::exp((double(logits[size_t(id)]) - top) / options_.temperature));
  if (options_.top_p < 1) {
    double reached = 0;
    size_t keep = 0;
    while (keep < p.size() && reached < options_.top_p * total) reached += p[keep++];
    p.resize(std::max<size_t>(keep, 1));
    total = std::accumulate(p.begin(), p.end(), 0.0);
  }
  double left = Philox(options_.seed, "sample").uniform(step) * total;
  for (size_t i = 0; i < p.size(); ++i)
    if ((left -= p[i]) < 0) return ids[i];
  return ids[p.size() - 1];
}

std::vector<GeneratedToken> generate(Decoder& decoder, int sequence, std::span<const int32_t> prompt,
                                     std::optional<int32_t> eos, const GenerateOptions& options,
                                     const std::function<bool(const GeneratedToken&)>& on_token) {
  check(!prompt.empty(), "prompt: there is nothing to continue; give at least one token");
  const Sampler sampler(options.sampler);
  std::vector<DecodeRow> rows;
  for (const int32_t id : prompt) rows.push_back({sequence, id, false});
  rows.back().logits = true;
  std::vector<GeneratedToken> result;
  for (int64_t step = 0; step < options.max_tokens; ++step) {
    decoder.decode(rows);
    const auto logits = decoder.logits(0);
    const int32_t id = sampler.pick(logits, uint64_t(step));
    result.push_back({{id, log_softmax_at(logits, id)}, top_logprobs(logits, options.top_logprobs)});
    if (on_token && !on_token(result.back())) break;
    if (eos && id == *eos && !options.ignore_eos) break;
    rows.assign(1, {sequence, id, true});
  }
  return result;
}

}  // namespace toy
