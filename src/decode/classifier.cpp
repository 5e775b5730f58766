#include "toy/decode/classifier.h"

#include <algorithm>
#include <utility>

#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/models/model.h"
#include "toy/models/vision.h"

namespace toy {

ImageClassifier::ImageClassifier(Device& device, const Model& model, int64_t together)
    : model_(model), together_(together) {
  check(together >= 1, "classifier: {} pictures together, expected at least 1", together);
  Graph graph;
  const VisionGraph v = build_vision(
      graph, model.spec, [&](const std::string& name) { return model.params->type(name).dtype; }, together);
  const auto plan = std::make_shared<const Plan>(compile(graph, std::vector{v.logits}, {}, device, {}));
  require_memory(device, plan->arena_bytes + plan->input_bytes(device), "classifying pictures");
  session_ = std::make_unique<Session>(device, plan, std::initializer_list<const ParamStore*>{model.params.get()});
  const VisionRows rows(together, v.rows);
  session_->set("sequence", rows.sequence);
  session_->set("position", rows.position);
  session_->set("until", rows.until);
}

// Pictures that are missing in the batch are zeros.
std::vector<float> ImageClassifier::run(std::vector<float> rows) {
  const VisionSpec& v = model_.spec.vision;
  const auto pictures = int64_t(rows.size()) / (v.rows() * v.values());
  rows.resize(size_t(together_ * v.rows() * v.values()));
  session_->set("pixels", rows);
  session_->run();
  std::vector<float> logits = session_->values(0);
  logits.resize(size_t(pictures * model_.spec.vocab));
  return logits;
}

std::vector<float> ImageClassifier::logits(const Picture& picture) {
  const VisionSpec& v = model_.spec.vision;
  const Picture p = fitted(with_channels(picture, v.channels), v.image);
  std::vector<float> rows;
  append_patches(v, std::vector<float>(p.values.begin(), p.values.end()), rows);
  return run(std::move(rows));
}

void ImageClassifier::each(const ImageSet& set,
                           const std::function<void(int64_t i, std::span<const float> logits)>& take) {
  const VisionSpec& v = model_.spec.vision;
  check(set.size == v.image && set.channels == v.channels,
        "classifier: pictures of {} pixels and {} channels, the model takes {} and {}", set.size, set.channels, v.image,
        v.channels);
  const auto classes = size_t(model_.spec.vocab);
  for (int64_t first = 0; first < set.count(); first += together_) {
    std::vector<float> rows;
    const int64_t n = std::min(together_, set.count() - first);
    for (int64_t i = first; i < first + n; ++i) {
      const auto picture = set.picture(i);
      append_patches(v, std::vector<float>(picture.begin(), picture.end()), rows);
    }
    const std::vector<float> logits = run(std::move(rows));
    for (int64_t i = 0; i < n; ++i) take(first + i, std::span(logits).subspan(size_t(i) * classes, classes));
  }
}

}  // namespace toy
