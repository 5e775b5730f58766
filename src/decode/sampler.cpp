#include "toy/decode/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "toy/base/error.h"
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

void check_id(std::span<const float> logits, int32_t id) {
  check(id >= 0 && size_t(id) < logits.size(), "token id {} is outside the {} logits", id, logits.size());
}

// -inf is a token that is ruled out; it may not be all of them.
void check_logits(std::span<const float> logits) {
  check(!logits.empty(), "there are no logits to choose from");
  bool any = false;
  for (size_t i = 0; i < logits.size(); ++i) {
    const bool nan = std::isnan(logits[i]), finite = std::isfinite(logits[i]);
    if (nan || (!finite && logits[i] > 0))
      fail_internal("the model gives {} for token {}: its weights are broken", nan ? "NaN" : "infinity", i);
    any = any || finite;
  }
  if (!any) fail_internal("the model gives -infinity for every token: its weights are broken");
}

}  // namespace

double log_softmax_at(std::span<const float> logits, int32_t id) {
  check_id(logits, id);
  return double(logits[size_t(id)]) - log_sum_exp(logits);
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int k) {
  std::vector<TokenLogprob> result;
  if (k <= 0 || logits.empty()) return result;
  const double lse = log_sum_exp(logits);
  for (const int32_t id : ranked(logits, size_t(k))) result.push_back({id, double(logits[size_t(id)]) - lse});
  return result;
}

Sampler::Sampler(const SamplerOptions& o) : options_(o) {
  check(o.temperature >= 0 && std::isfinite(o.temperature), "temperature {} is not 0 or more", o.temperature);
  check(o.top_k >= 0, "top-k {} is negative; 0 means all", o.top_k);
  check(o.top_p > 0 && o.top_p <= 1, "top-p {} is not above 0 and at most 1", o.top_p);
  check(o.min_p >= 0 && o.min_p <= 1, "min-p {} is not in 0 to 1; 0 means all", o.min_p);
  check(o.repeat_penalty > 0 && std::isfinite(o.repeat_penalty), "repeat-penalty {} is not above 0; 1 means none",
        o.repeat_penalty);
  check(std::isfinite(o.frequency_penalty), "frequency-penalty {} is not a finite number", o.frequency_penalty);
  check(std::isfinite(o.presence_penalty), "presence-penalty {} is not a finite number", o.presence_penalty);
  check(o.penalty_last_n >= -1, "repeat-last-n {} is negative; -1 means all tokens, 0 none", o.penalty_last_n);
}

bool Sampler::penalizes() const {
  return options_.penalty_last_n != 0 &&
         (options_.repeat_penalty != 1 || options_.frequency_penalty != 0 || options_.presence_penalty != 0);
}

void Sampler::penalize(std::span<float> logits, std::span<const int32_t> history) const {
  const SamplerOptions& o = options_;
  if (o.penalty_last_n > 0 && uint64_t(o.penalty_last_n) < history.size())
    history = history.last(size_t(o.penalty_last_n));
  std::map<int32_t, int64_t> counts;
  for (const int32_t id : history) {
    check_id(logits, id);
    ++counts[id];
  }
  for (const auto& [id, count] : counts) {
    double l = logits[size_t(id)];
    l = l > 0 ? l / o.repeat_penalty : l * o.repeat_penalty;
    l = l - double(count) * o.frequency_penalty - o.presence_penalty;
    constexpr double kMost = std::numeric_limits<float>::max();  // an infinity would be no logit
    logits[size_t(id)] = float(std::clamp(l, -kMost, kMost));
  }
}

int32_t Sampler::pick(std::span<const float> logits, uint64_t step, std::span<const int32_t> history) const {
  check_logits(logits);
  if (!penalizes() || history.empty()) return draw(logits, step);
  std::vector<float> changed(logits.begin(), logits.end());
  penalize(changed, history);
  return draw(changed, step);
}

int32_t Sampler::draw(std::span<const float> logits, uint64_t step) const {
  if (options_.temperature == 0) return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const std::vector<int32_t> ids = ranked(logits, size_t(options_.top_k));
  std::vector<double> p;
  const double top = logits[size_t(ids[0])];
  double total = 0;
  for (const int32_t id : ids)
    total += p.emplace_back(std::exp((double(logits[size_t(id)]) - top) / options_.temperature));
  size_t keep = p.size();
  if (options_.top_p < 1) {
    double reached = 0;
    for (keep = 0; keep < p.size() && reached < options_.top_p * total;) reached += p[keep++];
  }
  while (keep > 1 && p[keep - 1] < options_.min_p * p[0]) --keep;  // they are sorted, and p[0] is 1
  p.resize(std::max<size_t>(keep, 1));
  double left = Philox(options_.seed, "sample").uniform(step) * std::accumulate(p.begin(), p.end(), 0.0);
  for (size_t i = 0; i < p.size(); ++i)
    if ((left -= p[i]) < 0) return ids[i];
  return ids[p.size() - 1];
}

}  // namespace toy
