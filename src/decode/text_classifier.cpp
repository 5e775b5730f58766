#include "toy/decode/text_classifier.h"

#include <algorithm>
#include <cmath>

#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/image/class_scores.h"
#include "toy/models/transformer.h"

namespace toy {
namespace {

constexpr int64_t kHeadRows = 64;  // of a call of the head

const Model& with_head(const Model& model) {
  check(model.spec.score.there(), "model {}: it has no head that gives texts scores (cls.output)", model.spec.name);
  return model;
}

}  // namespace

Scorer::Scorer(Device& device, const Model& model, const EncoderOptions& options)
    : model_(with_head(model)),
      pooling_{.pooling = pooling_of_scores(model.spec.score, model.spec), .normalize = false},
      encoder_(device, model, options),
      fixed_(!device.host_visible()) {
  Graph g;
  const Shape shape{kHeadRows, model.spec.d_model};
  const Value x = g.input("state", fixed_ ? TensorType{DType::f32, shape, 0}
                                          : g.rows_type(g.declare_rows("rows", kHeadRows), DType::f32, {shape[1]}));
  const auto dtype_of = [&](const std::string& name) { return model.params->type(name).dtype; };
  const Value scores = Transformer(model.spec, Weights(g, dtype_of), 0).head.scores(x);
  PlanOptions o{.fuse = !options.check_finite};
  if (!options.exact) o.products = DType::q8_0;
  const auto plan = std::make_shared<const Plan>(compile(g, std::vector{scores}, {}, device, o));
  require_memory(device, plan->arena_bytes + plan->input_bytes(device), "computing the scores");
  head_ = std::make_unique<Session>(device, plan, std::initializer_list<const ParamStore*>{model.params.get()});
  head_->check_finite(options.check_finite);
}

std::vector<float> Scorer::scores(std::span<const std::vector<int32_t>> texts, std::span<const size_t> second) {
  const auto width = size_t(encoder_.width()), labels = size_t(model_.spec.score.labels);
  std::vector<float> states(texts.size() * width), all;
  encoder_.encode(
      texts,
      [&](size_t i, std::span<const float> hidden) {
        std::ranges::copy(pooled(hidden, int64_t(width), pooling_), states.begin() + std::ptrdiff_t(i * width));
      },
      second);
  for (size_t first = 0; first < texts.size(); first += size_t(kHeadRows)) {
    const size_t n = std::min(size_t(kHeadRows), texts.size() - first);
    std::vector<float> rows(states.begin() + std::ptrdiff_t(first * width),
                            states.begin() + std::ptrdiff_t((first + n) * width));
    if (fixed_)
      rows.resize(size_t(kHeadRows) * width);
    else
      head_->set_rows("rows", int64_t(n));
    head_->set("state", rows);
    head_->run();
    const std::vector<float> scores = head_->values(0);
    all.insert(all.end(), scores.begin(), scores.begin() + std::ptrdiff_t(n * labels));
  }
  return all;
}

void require_text_classifier(const ModelSpec& spec) {
  check(spec.score.classifies(),
        "model {}: it does not classify texts: {}; make a classifier with toy train classify, or convert one of "
        "Hugging Face",
        spec.name, spec.score.there() ? "it ranks them (toy rerank)" : "it has no head with classes (cls.output)");
}

std::vector<TextClass> classes_of_scores(const ModelSpec& spec, std::span<const float> scores) {
  const std::vector<double> p = class_probabilities(scores);
  std::vector<TextClass> list;
  for (const int32_t c : classes_in_order(scores)) list.push_back({spec.score.names.at(size_t(c)), p[size_t(c)]});
  return list;
}

std::vector<std::vector<TextClass>> classify_texts(Device& device, const Model& model,
                                                   const std::vector<std::string>& texts) {
  require_text_classifier(model.spec);
  check(model.tokenizer != nullptr, "model {}: it has no tokenizer, so it cannot read texts", model.spec.name);
  std::vector<std::vector<int32_t>> ids;
  for (const std::string& text : texts) {
    ids.push_back(encode_for_embedding(*model.tokenizer, text, most_tokens_to_embed(model)));
    check(!ids.back().empty(), "text {}: it is empty", ids.size());
  }
  const std::vector<float> scores = Scorer(device, model).scores(ids);
  std::vector<std::vector<TextClass>> all;
  const auto n = size_t(model.spec.score.labels);
  for (size_t i = 0; i < ids.size(); ++i)
    all.push_back(classes_of_scores(model.spec, std::span(scores).subspan(i * n, n)));
  return all;
}

}  // namespace toy
