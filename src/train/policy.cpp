#include "toy/train/policy.h"

#include <algorithm>
#include <cmath>

#include "toy/base/error.h"

namespace toy {
namespace {

// Sets the advantages of one group; returns whether there are any.
bool compare(const PolicyOptions& o, std::span<const PolicySample> group, std::span<double> advantage) {
  double sum = 0, squares = 0;
  int64_t judged = 0;
  bool differ = false;
  std::optional<double> first;
  for (const PolicySample& s : group) {
    if (!s.reward) continue;
    ++judged, sum += *s.reward;
    if (!first) first = s.outcome;
    differ = differ || s.outcome != first;
  }
  if (judged < 2 || !differ) return false;
  const double mean = sum / double(judged);
  for (const PolicySample& s : group)
    if (s.reward) squares += (*s.reward - mean) * (*s.reward - mean);
  constexpr double kLeast = 1e-4;  // of the divisor, as in TRL
  const double scale = o.scale == RewardScale::group ? std::sqrt(squares / double(judged - 1)) + kLeast : 1;
  for (size_t i = 0; i < group.size(); ++i)
    if (group[i].reward) advantage[i] = (*group[i].reward - mean) / scale;
  return true;
}

}  // namespace

PolicyWeights policy_weights(const PolicyOptions& o, std::span<const PolicySample> samples) {
  PolicyWeights w{std::vector<double>(samples.size(), 0), {}, 0, 0};
  int64_t tokens = 0;
  for (const PolicySample& s : samples) {
    check(s.tokens > 0, "policy: a sample without a token");
    tokens += s.tokens;
  }
  const auto count = double(samples.size());
  for (const PolicySample& s : samples)
    w.per_token.push_back(1 / (o.loss == PolicyLoss::dapo      ? double(tokens)
                               : o.loss == PolicyLoss::dr_grpo ? count * double(o.max_tokens)
                                                               : count * double(s.tokens)));
  for (size_t begin = 0, end = 0; begin < samples.size(); begin = end) {
    while (end < samples.size() && samples[end].group == samples[begin].group) ++end;
    ++w.groups;
    w.mixed += compare(o, samples.subspan(begin, end - begin), std::span(w.advantage).subspan(begin, end - begin));
  }
  return w;
}

AnswerWeights update_weights(const PolicyOptions& o, double advantage, double per_token,
                             std::span<const double> log_ratios, std::span<const double> log_base) {
  const bool of_answer = o.loss == PolicyLoss::gspo;
  const double low = o.epsilon.value_or(of_answer ? 3e-4 : 0.2);
  const double high = o.epsilon_high.value_or(of_answer && !o.epsilon ? 4e-4 : low);
  double sum = 0;
  for (const double l : log_ratios) sum += l;
  const double mean = std::exp(sum / double(log_ratios.size()));
  AnswerWeights w;
  for (size_t t = 0; t < log_ratios.size(); ++t) {
    const double own = std::exp(log_ratios[t]), ratio = of_answer ? mean : own;
    // Further in the direction of the advantage there is nothing to gain: min(r A, clip(r) A) is constant there.
    const bool clipped = (advantage > 0 && ratio > 1 + high) || (advantage < 0 && ratio < 1 - low);
    double c = clipped ? 0 : advantage * ratio;
    if (!log_base.empty()) c += o.beta * own * log_base[t];
    w.tokens.push_back(c * per_token);
    w.clipped += clipped;
    w.deviation = std::max(w.deviation, std::abs(ratio - 1));
  }
  return w;
}

}  // namespace toy
