// Training of classifiers, of pictures and of texts: the cross-entropy of their classes.
#include "toy/image/class_scores.h"
#include "train/feed.h"
#include "train/objective.h"

namespace toy {
namespace {

class ClassObjective final : public Objective {
 public:
  explicit ClassObjective(const ModelSpec& spec) : spec_(spec) {}
  std::vector<ForwardPass> passes() const override { return {{spec_}}; }
  StepWeights weigh(Trainer&, const Windows& windows, int64_t) override {
    const int64_t rows = counted_targets(windows);
    check(rows > 0, "trainer: a batch without anything that has a class");
    return {equal_weights(windows, 1.0 / double(rows))};
  }
  EvalResult evaluate(Trainer& trainer, const ValidationRows& rows, int64_t max_tokens,
                      const std::function<bool()>& stop) override {
    constexpr int64_t kFive = 5;
    const int64_t places = trainer.options().tokens;  // of a row
    const auto classes = size_t(spec_.vision.there() ? spec_.vocab : spec_.score.labels);
    EvalResult result{.ranked = true};
    result.few = !spec_.vision.there() && classes <= size_t(kFive);
    if (int64_t(classes) <= kMostClassesInTables) result.confusion.assign(classes * classes, 0);
    read(trainer, rows, max_tokens, stop, result, [&](const Windows& w, int64_t first) {
      const std::vector<float> logits = trainer.nlls(0, w, "validation after step");
      for (size_t i = 0; i < logits.size() / classes; ++i) {
        const int32_t label = w.targets[i * size_t(places)];
        if (label < 0) continue;
        const JudgedClass j = judge_class(first + int64_t(i), label, std::span(logits).subspan(i * classes, classes));
        result.nats += j.nats;
        if (!result.confusion.empty()) ++result.confusion[size_t(label) * classes + size_t(j.chosen)];
        keep_worst(EvalResult::Judged{j.item, j.label, j.chosen, j.nats}, result.worst);
        result.right += j.right(), result.among_5 += j.among_5();
        ++result.tokens;
      }
    });
    return result;
  }

 private:
  const ModelSpec& spec_;
};

}  // namespace

std::unique_ptr<Objective> make_class_objective(const ModelSpec& spec) {
  return std::make_unique<ClassObjective>(spec);
}

}  // namespace toy
