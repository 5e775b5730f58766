// Training on preferences: answers get their log probabilities, and the loss says what each of their tokens weighs.
#include <algorithm>
#include <numeric>

#include "toy/train/trainer.h"
#include "train/answers.h"
#include "train/feed.h"

namespace toy {
namespace {

// No divergence is below 0; the mean of a few samples may be.
double estimate_kl(const std::vector<double>& log_ratios) {
  const double sum = std::accumulate(log_ratios.begin(), log_ratios.end(), 0.0);
  return log_ratios.empty() ? 0 : std::max(0.0, sum / double(log_ratios.size()));
}

}  // namespace

std::vector<ScoredAnswer> Trainer::score(const Windows& windows, std::optional<int64_t> random) {
  const bool with_reference = has_reference(options_.preference->loss);
  const bool with_dropout = random && plans_.dropped;
  Session& session = with_dropout ? forward(dropped_session_, plans_.dropped) : eval_session();
  const auto places = size_t(options_.batch * options_.tokens);
  std::vector<float> policy;
  for (size_t at = 0; at < windows.inputs.size(); at += places) {
    const auto batch = int64_t(at / places);
    const std::vector<float> some =
        nlls(session, windows, at, with_dropout ? std::optional(*random + batch) : std::nullopt);
    policy.insert(policy.end(), some.begin(), some.end());
  }
  const std::vector<double> reference =
      with_reference ? references(windows) : std::vector<double>(windows.answers.size(), 0);
  std::vector<ScoredAnswer> out;
  for (size_t i = 0; i < windows.answers.size(); ++i) {
    const Answer& a = windows.answers[i];
    out.push_back({.policy = log_probability(windows, a, policy),
                   .reference = reference[i],
                   .tokens = counted_targets(windows, a),
                   .chosen = a.chosen,
                   .text = text_log_probability(a, policy),
                   .text_tokens = a.places});
  }
  return out;
}

// A token has the same bits in any batch, so it makes no difference what was remembered.
std::vector<double> Trainer::references(const Windows& windows) {
  Session& session = forward(reference_session_, plans_.reference);
  const int64_t places = options_.batch * options_.tokens;
  const auto known = [&](const Answer& a) { return references_.contains(a.id); };
  std::vector<double> out;
  for (int64_t at = 0; at < int64_t(windows.inputs.size()); at += places) {
    const std::span<const Answer> answers = answers_between(windows, at, at + places);
    const bool all_known = std::all_of(answers.begin(), answers.end(), known);
    std::vector<float> nll(windows.inputs.size());
    if (!all_known) {
      const std::vector<float> some = nlls(session, windows, size_t(at), std::nullopt);
      std::copy(some.begin(), some.end(), nll.begin() + at);
    }
    for (const Answer& a : answers) {
      out.push_back(all_known ? references_.at(a.id) : log_probability(windows, a, nll));
      if (a.id >= 0 && base_is_frozen_) references_[a.id] = out.back();
    }
  }
  return out;
}

std::vector<double> Trainer::log_ratios(const Windows& windows, std::span<const Answer> prompts,
                                        std::span<const Answer> others) {
  std::vector<double> out;
  for (const Windows& w : mismatched(windows, prompts, others, options_.batch * options_.tokens, options_.tokens)) {
    const std::vector<float> policy = nlls(eval_session(), w, 0, std::nullopt);
    const std::vector<double> reference = references(w);
    for (size_t i = 0; i < w.answers.size(); ++i)
      out.push_back(log_probability(w, w.answers[i], policy) - reference[i]);
  }
  return out;
}

StepWeights Trainer::weigh_answers(const Windows& windows) {
  check(!windows.answers.empty(), "trainer: a batch without an answer");
  const std::vector<ScoredAnswer> answers = score(windows, updates_ * options_.accumulate);
  double kl = 0;
  if (!takes_pairs(options_.preference->loss) && answers.size() > 1) {  // of one there is no other prompt
    std::vector<Answer> before = windows.answers;                       // the first has the last, as in TRL's KTO
    std::rotate(before.begin(), before.end() - 1, before.end());
    kl = estimate_kl(log_ratios(windows, windows.answers, before));
  }
  const PreferenceResult r = preference_loss(*options_.preference, answers, kl);
  return {answer_weights(windows, r), r.sums};
}

// The loss is of all answers together, so that it depends on no batch.
EvalResult Trainer::evaluate_answers(const PackedRows& rows, int64_t max_tokens, const std::function<bool()>& stop) {
  EvalResult result;
  std::vector<ScoredAnswer> answers;
  std::vector<double> ratios;  // of kto: of each prompt but the first with the answer before
  for (int64_t first = 0; first < rows.rows() && (max_tokens == 0 || result.tokens < max_tokens);
       first += options_.batch) {
    if (stop && stop()) break;
    const int64_t count = std::min(options_.batch, rows.rows() - first);
    Windows w = rows_for_evaluation(rows, first, count, max_tokens);
    pad(w, options_.batch * options_.tokens);  // behind the last row
    for (const ScoredAnswer& a : score(w, std::nullopt)) {
      answers.push_back(a);
      result.tokens += a.tokens;
      if (a.chosen) result.nats -= a.policy;
    }
    if (takes_pairs(options_.preference->loss)) continue;
    const int64_t before = std::min<int64_t>(first, 1);  // rows
    w = rows_for_evaluation(rows, first - before, count + before, max_tokens);
    const std::span<const Answer> all = w.answers;
    const size_t skipped = std::max<size_t>(1, answers_between(w, 0, before * options_.tokens).size());
    const std::vector<double> some =
        log_ratios(w, all.subspan(skipped), all.subspan(skipped - 1, all.size() - skipped));
    ratios.insert(ratios.end(), some.begin(), some.end());
  }
  result.preference = preference_loss(*options_.preference, answers, estimate_kl(ratios)).sums;
  return result;
}

}  // namespace toy
