#include "train/objective.h"

#include "train/feed.h"

namespace toy {

void Objective::read(const Trainer& trainer, const ValidationRows& rows, int64_t max_tokens,
                     const std::function<bool()>& stop, const EvalResult& so_far,
                     const std::function<void(const Windows&, int64_t first)>& take) {
  const int64_t batch = trainer.options().sequences();
  for (int64_t first = 0; max_tokens == 0 || so_far.tokens < max_tokens; first += batch) {
    Windows w = rows.validation(first, batch, max_tokens);
    if (w.inputs.empty() || (stop && stop())) break;
    pad(w, trainer.places());  // behind the last row
    take(w, first);
  }
}

namespace {

// The mean over all targets, of a step however many batches it takes.
class CrossEntropyObjective final : public Objective {
 public:
  explicit CrossEntropyObjective(const ModelSpec& spec) : spec_(spec) {}
  std::vector<ForwardPass> passes() const override { return {{spec_}}; }
  StepWeights weigh(Trainer&, const Windows& windows, int64_t) override {
    const int64_t counted = counted_targets(windows);
    check(counted > 0, "trainer: a batch without a target that counts");
    return {equal_weights(windows, 1.0 / double(counted))};
  }
  EvalResult evaluate(Trainer& trainer, const ValidationRows& rows, int64_t max_tokens,
                      const std::function<bool()>& stop) override {
    EvalResult result;
    read(trainer, rows, max_tokens, stop, result, [&](const Windows& w, int64_t) {
      const std::vector<float> nll = trainer.nlls(0, w, "validation after step");
      for (size_t i = 0; i < nll.size(); ++i)
        if (w.counts(i)) result.nats += nll[i], ++result.tokens;
    });
    return result;
  }

 private:
  const ModelSpec& spec_;
};

}  // namespace

std::unique_ptr<Objective> make_objective(const TrainerOptions& options, const ModelSpec& spec) {
  if (spec.vision.there() || spec.score.there()) return make_class_objective(spec);
  if (options.contrastive) return make_contrastive_objective(*options.contrastive, spec);
  if (options.preference) return make_preference_objective(options, spec);
  return std::make_unique<CrossEntropyObjective>(spec);
}

}  // namespace toy
