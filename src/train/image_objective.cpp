// Training on pictures: the cross-entropy of their classes.
#include "toy/image/class_scores.h"
#include "train/feed.h"
#include "train/objective.h"

namespace toy {
namespace {

class ImageObjective final : public Objective {
 public:
  explicit ImageObjective(const ModelSpec& spec) : spec_(spec) {}
  std::vector<ForwardPass> passes() const override { return {{spec_}}; }
  StepWeights weigh(Trainer&, const Windows& windows, int64_t) override {
    const int64_t pictures = counted_targets(windows);
    check(pictures > 0, "trainer: a batch without a picture");
    return {equal_weights(windows, 1.0 / double(pictures))};
  }
  EvalResult evaluate(Trainer& trainer, const ValidationRows& rows, int64_t max_tokens,
                      const std::function<bool()>& stop) override {
    constexpr int64_t kFive = 5;
    const int64_t places = spec_.vision.rows();
    const auto classes = size_t(spec_.vocab);
    EvalResult result{.ranked = true};
    read(trainer, rows, max_tokens, stop, result, [&](const Windows& w, int64_t) {
      const std::vector<float> logits = trainer.nlls(0, w, "validation after step");
      for (size_t i = 0; i < logits.size() / classes; ++i) {
        const int32_t label = w.targets[i * size_t(places)];
        if (label < 0) continue;
        const auto of_one = std::span(logits).subspan(i * classes, classes);
        const int64_t rank = class_rank(of_one, label);
        result.nats += class_nll(of_one, label);
        result.right += rank == 0, result.among_5 += rank < kFive;
        ++result.tokens;
      }
    });
    return result;
  }

 private:
  const ModelSpec& spec_;
};

}  // namespace

std::unique_ptr<Objective> make_image_objective(const ModelSpec& spec) {
  return std::make_unique<ImageObjective>(spec);
}

}  // namespace toy
