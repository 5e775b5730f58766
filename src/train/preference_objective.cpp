// Training on preferences: answers get their log probabilities, and the loss says what each of their tokens weighs.
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "train/answers.h"
#include "train/feed.h"
#include "train/objective.h"

namespace toy {
namespace {

// No divergence is below 0; the mean of a few samples may be.
double estimate_kl(const std::vector<double>& log_ratios) {
  const double sum = std::accumulate(log_ratios.begin(), log_ratios.end(), 0.0);
  return log_ratios.empty() ? 0 : std::max(0.0, sum / double(log_ratios.size()));
}

class PreferenceObjective final : public Objective {
 public:
  PreferenceObjective(const TrainerOptions& options, const ModelSpec& spec)
      : o_(*options.preference),
        spec_(spec),
        with_dropout_(drops(spec, options.dropout)),
        with_reference_(has_reference(o_.loss)) {
    check(!with_reference_ || !spec.adapters.empty(),
          "loss: {} compares with the model without an adapter, and there is none", name_of(o_.loss));
    for (const TensorSpec& t : trained_tensors(spec)) base_is_frozen_ &= t.adapter + 1 == int(spec.adapters.size());
  }

  // The model, the model without the last adapter, and the model with the dropout of a step.
  std::vector<ForwardPass> passes() const override {
    std::vector<ForwardPass> list{{spec_}};
    if (with_reference_) {
      list.push_back({spec_});
      list.back().spec.adapters.pop_back();
    }
    if (with_dropout_) list.push_back({spec_, true});
    return list;
  }

  StepWeights weigh(Trainer& trainer, const Windows& windows, int64_t random) override {
    check(!windows.answers.empty(), "trainer: a batch without an answer");
    const std::vector<ScoredAnswer> answers = score(trainer, windows, random);
    double kl = 0;
    if (!takes_pairs(o_.loss) && answers.size() > 1) {  // of one there is no other prompt
      std::vector<Answer> before = windows.answers;     // the first has the last, as in TRL's KTO
      std::rotate(before.begin(), before.end() - 1, before.end());
      kl = estimate_kl(log_ratios(trainer, windows, windows.answers, before));
    }
    const PreferenceResult r = preference_loss(o_, answers, kl);
    return {answer_weights(windows, r), r.sums};
  }

  // The loss is of all answers together, so that it depends on no batch.
  EvalResult evaluate(Trainer& trainer, const ValidationRows& rows, int64_t max_tokens,
                      const std::function<bool()>& stop) override {
    EvalResult result;
    std::vector<ScoredAnswer> answers;
    std::vector<double> ratios;  // of kto: of each prompt but the first with the answer before
    read(trainer, rows, max_tokens, stop, result, [&](const Windows& batch, int64_t first) {
      for (const ScoredAnswer& a : score(trainer, batch, std::nullopt)) {
        answers.push_back(a);
        result.tokens += a.tokens;
        if (a.chosen) result.nats -= a.policy;
      }
      if (takes_pairs(o_.loss)) return;
      const int64_t before = std::min<int64_t>(first, 1);  // rows
      const Windows w = rows.validation(first - before, trainer.options().sequences() + before, max_tokens);
      const std::span<const Answer> all = w.answers;
      const size_t skipped = std::max<size_t>(1, w.part(0, before * trainer.options().tokens).answers.size());
      const std::vector<double> some =
          log_ratios(trainer, w, all.subspan(skipped), all.subspan(skipped - 1, all.size() - skipped));
      ratios.insert(ratios.end(), some.begin(), some.end());
    });
    result.preference = preference_loss(o_, answers, estimate_kl(ratios)).sums;
    return result;
  }

 private:
  static constexpr size_t kPolicy = 0, kReference = 1;
  static constexpr const char* kScoring = "scoring answers in step";

  // The answers of batches of windows, with the dropout of a step where they are its.
  std::vector<ScoredAnswer> score(Trainer& trainer, const Windows& windows, std::optional<int64_t> random) {
    const size_t dropped = with_reference_ ? 2 : 1;
    const int64_t places = trainer.places();
    if (!with_dropout_) random.reset();
    std::vector<ScoredAnswer> out;
    for (int64_t at = 0; at < int64_t(windows.inputs.size()); at += places) {
      const Windows batch = windows.part(at, places);
      const std::vector<float> policy = trainer.nlls(random ? dropped : kPolicy, batch, kScoring, random);
      if (random) ++*random;
      const std::vector<double> reference =
          with_reference_ ? references(trainer, batch) : std::vector<double>(batch.answers.size(), 0);
      for (size_t i = 0; i < batch.answers.size(); ++i) {
        const Answer& a = batch.answers[i];
        out.push_back({.policy = log_probability(batch, a, policy),
                       .reference = reference[i],
                       .tokens = counted_targets(batch, a),
                       .chosen = a.chosen,
                       .text = text_log_probability(a, policy),
                       .text_tokens = a.places});
      }
    }
    return out;
  }

  // Log probabilities of a batch's answers without the last adapter. Those of answers with an id are remembered: a
  // token has the same bits in any batch, so that it makes no difference.
  std::vector<double> references(Trainer& trainer, const Windows& batch) {
    const auto known = [&](const Answer& a) { return references_.contains(a.id); };
    const bool all_known = std::all_of(batch.answers.begin(), batch.answers.end(), known);
    std::vector<float> nll;
    if (!all_known) nll = trainer.nlls(kReference, batch, kScoring);
    std::vector<double> out;
    for (const Answer& a : batch.answers) {
      out.push_back(all_known ? references_.at(a.id) : log_probability(batch, a, nll));
      if (a.id >= 0 && base_is_frozen_) references_[a.id] = out.back();
    }
    return out;
  }

  // Of prompts with the answers of others: the log probability's difference from the reference.
  std::vector<double> log_ratios(Trainer& trainer, const Windows& windows, std::span<const Answer> prompts,
                                 std::span<const Answer> others) {
    std::vector<double> out;
    for (const Windows& w : mismatched(windows, prompts, others, trainer.places(), trainer.options().tokens)) {
      const std::vector<float> policy = trainer.nlls(kPolicy, w, kScoring);
      const std::vector<double> reference = references(trainer, w);
      for (size_t i = 0; i < w.answers.size(); ++i)
        out.push_back(log_probability(w, w.answers[i], policy) - reference[i]);
    }
    return out;
  }

  const PreferenceOptions o_;
  const ModelSpec& spec_;
  bool with_dropout_, with_reference_, base_is_frozen_ = true;
  std::unordered_map<int64_t, double> references_;  // by the answer's id, where the base is frozen
};

}  // namespace

std::unique_ptr<Objective> make_preference_objective(const TrainerOptions& options, const ModelSpec& spec) {
  return std::make_unique<PreferenceObjective>(options, spec);
}

}  // namespace toy
