#include "toy/train/preference.h"

#include <algorithm>
#include <cmath>

#include "toy/base/error.h"
#include "toy/runs/event.h"

namespace toy {
namespace {

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
// -log sigmoid(x)
double softplus_of_minus(double x) { return std::max(-x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

// A loss of two numbers, and its slopes.
struct Term {
  double loss, by_chosen, by_rejected;
};

// Of log(p_chosen / p_rejected) - log(q_chosen / q_rejected).
Term dpo_term(double beta, double margin) {
  const double slope = -beta * sigmoid(-beta * margin);
  return {softplus_of_minus(beta * margin), slope, -slope};
}

Term ipo_term(double beta, double margin) {
  const double distance = margin - 1 / (2 * beta);
  return {distance * distance, 2 * distance, -2 * distance};
}

// Of mean log probabilities: log odds(chosen) - log odds(rejected), with odds p / (1 - p).
Term orpo_term(double beta, double chosen, double rejected) {
  constexpr double kLeast = 1e-7;  // of 1 - p: an answer may be certain in f32
  const double not_chosen = std::max(-std::expm1(chosen), kLeast),
               not_rejected = std::max(-std::expm1(rejected), kLeast);
  const double ratio = chosen - rejected - (std::log(not_chosen) - std::log(not_rejected));
  const double slope = -beta * sigmoid(-ratio);
  return {beta * softplus_of_minus(ratio), slope / not_chosen, -slope / not_rejected};
}

double per_token(double sum, const ScoredAnswer& a) { return sum / double(a.tokens); }

void add_reward(PreferenceSums& sums, const ScoredAnswer& a, double reward) {
  (a.chosen ? sums.chosen : sums.rejected) += reward;
  ++(a.chosen ? sums.n_chosen : sums.n_rejected);
}

PreferenceResult kto(double beta, std::span<const ScoredAnswer> answers, double kl) {
  PreferenceResult r;
  for (const ScoredAnswer& a : answers) {
    const double reward = beta * (a.policy - a.reference), sign = a.chosen ? 1 : -1;
    const double value = sigmoid(sign * (reward - beta * kl));
    r.sums.loss += 1 - value;
    // d(1 - value) / d log p is -sign beta value (1 - value); the slope is that of -log p.
    r.slopes.push_back(sign * beta * value * (1 - value) / double(answers.size()));
    add_reward(r.sums, a, reward);
  }
  r.sums.terms = int64_t(answers.size());
  return r;
}

}  // namespace

bool takes_pairs(PreferenceLoss loss) { return loss != PreferenceLoss::kto; }
bool has_reference(PreferenceLoss loss) { return loss != PreferenceLoss::orpo; }

void PreferenceSums::add(const PreferenceSums& m) {
  loss += m.loss, chosen += m.chosen, rejected += m.rejected;
  text_nats += m.text_nats, text_tokens += m.text_tokens;
  terms += m.terms, n_chosen += m.n_chosen, n_rejected += m.n_rejected, pairs += m.pairs, right += m.right;
}

runs::Rewards PreferenceSums::rewards() const {
  runs::Rewards r;
  if (n_chosen > 0) r.chosen = chosen / double(n_chosen);
  if (n_rejected > 0) r.rejected = rejected / double(n_rejected);
  if (r.chosen && r.rejected) r.margin = *r.chosen - *r.rejected;
  if (pairs > 0) r.accuracy = double(right) / double(pairs);
  return r;
}

PreferenceResult preference_loss(const PreferenceOptions& o, std::span<const ScoredAnswer> answers, double kl) {
  if (o.loss == PreferenceLoss::kto) return kto(o.beta, answers, kl);
  PreferenceResult r;
  const auto pairs = int64_t(answers.size() / 2);
  for (size_t i = 0; i + 1 < answers.size(); i += 2) {
    const ScoredAnswer &c = answers[i], &d = answers[i + 1];
    const bool sums = o.loss == PreferenceLoss::dpo;
    const auto value = [&](const ScoredAnswer& a) {
      const double log_ratio = has_reference(o.loss) ? a.policy - a.reference : a.policy;
      return sums ? log_ratio : per_token(log_ratio, a);
    };
    const double chosen = value(c), rejected = value(d);
    const Term t = sums                            ? dpo_term(o.beta, chosen - rejected)
                   : o.loss == PreferenceLoss::ipo ? ipo_term(o.beta, chosen - rejected)
                                                   : orpo_term(o.beta, chosen, rejected);
    r.sums.loss += t.loss;
    r.slopes.push_back(-t.by_chosen / double(pairs) / (sums ? 1 : double(c.tokens)));
    r.slopes.push_back(-t.by_rejected / double(pairs) / (sums ? 1 : double(d.tokens)));
    if (o.loss == PreferenceLoss::orpo) r.sums.text_nats -= c.text, r.sums.text_tokens += c.text_tokens;
    add_reward(r.sums, c, o.beta * chosen);
    add_reward(r.sums, d, o.beta * rejected);
    r.sums.right += chosen > rejected;
  }
  r.sums.terms = r.sums.pairs = pairs;
  if (r.sums.text_tokens > 0) r.text_slope = 1 / double(r.sums.text_tokens);
  return r;
}

}  // namespace toy
