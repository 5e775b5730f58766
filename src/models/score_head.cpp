#include "toy/models/score_head.h"

#include "models/families/families.h"
#include "toy/base/error.h"
#include "toy/base/threads.h"

namespace toy {

ScoreHead score_head(const ModelSpec& spec, const std::vector<std::string>& classes, const EmbeddingRule& rule) {
  if (spec.score.classifies() && spec.score.names == classes) return spec.score;
  check(
      holds(spec, "label_names"),
      "model {}: it is of the architecture {}, and classifiers of texts are of bert, modern-bert and qwen3; use such a "
      "one, e.g. all-MiniLM-L6-v2, or make it: toy train from-scratch --corpus TEXT --size bert-tiny --objective mlm "
      "--out OUT",
      spec.name, spec.architecture);
  ScoreHead head{.labels = int64_t(classes.size()), .names = classes};
  if (holds(spec, "label_dense")) head.dense = holds(spec, "label_mean") ? ScoreHead::gelu_norm : ScoreHead::tanh;
  head.mean = holds(spec, "label_mean") && rule.pooling != "cls";
  return head;
}

void add_score_head(Model& model, const ScoreHead& head, uint64_t seed) {
  check(!model.spec.score.there(), "model {}: it has a head already", model.spec.name);
  model.spec.score = head;
  model.spec.validate();
  ThreadPool threads(model.params->device().host_threads());
  for (const TensorSpec& t : tensors_of(model.spec)) {
    if (t.adapter >= 0 || model.params->has(t.name)) continue;
    model.params->add(t.name, {DType::f32, t.shape, 0});
    model.params->write(t.name, initial_values(t, seed, 1, threads));
  }
}

}  // namespace toy
