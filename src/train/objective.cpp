#include "train/objective.h"

#include "train/feed.h"

namespace toy {

std::vector<float> Forwards::nlls(size_t pass, const Windows& windows, size_t first, const char* what,
                                  std::optional<int64_t> random) {
  std::unique_ptr<Session>& session = sessions_[pass];
  if (!session) {
    session = std::make_unique<Session>(device_, plans_.forwards[pass],
                                        std::initializer_list<const ParamStore*>{model_.params.get()}, arena_);
    session->check_finite(o_.check_finite);
  }
  const std::vector<float> weights(windows.inputs.size(), 1);
  feed_windows(*session, windows, first, size_t(places()), o_.tokens, weights);
  if (random) feed_random(*session, o_.seed, *random);
  run_session(*session, what, step);
  return session->values(0);
}

void Objective::read(const Forwards& forwards, const ValidationRows& rows, int64_t max_tokens,
                     const std::function<bool()>& stop, const EvalResult& so_far,
                     const std::function<void(const Windows&, int64_t first)>& take) {
  const int64_t batch = forwards.options().batch;
  for (int64_t first = 0; max_tokens == 0 || so_far.tokens < max_tokens; first += batch) {
    Windows w = rows.validation(first, batch, max_tokens);
    if (w.inputs.empty() || (stop && stop())) break;
    pad(w, forwards.places());  // behind the last row
    take(w, first);
  }
}

namespace {

// The mean over all targets, of a step however many batches it takes.
class CrossEntropyObjective final : public Objective {
 public:
  explicit CrossEntropyObjective(const ModelSpec& spec) : spec_(spec) {}
  std::vector<ForwardPass> passes() const override { return {{spec_}}; }
  StepWeights weigh(Forwards&, const Windows& windows, int64_t) override {
    const int64_t counted = counted_targets(windows, 0, windows.targets.size());
    check(counted > 0, "trainer: a batch without a target that counts");
    return {equal_weights(windows, 1.0 / double(counted))};
  }
  EvalResult evaluate(Forwards& forwards, const ValidationRows& rows, int64_t max_tokens,
                      const std::function<bool()>& stop) override {
    EvalResult result;
    read(forwards, rows, max_tokens, stop, result, [&](const Windows& w, int64_t) {
      const std::vector<float> nll = forwards.nlls(0, w, 0, "validation after step");
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
  if (options.preference) return make_preference_objective(options, spec);
  return std::make_unique<CrossEntropyObjective>(spec);
}

}  // namespace toy
