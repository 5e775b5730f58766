#include "toy/eval/compare.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "eval/text_reader.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/threads.h"

namespace toy {
namespace {

struct Pair {
  DivergenceOfToken token;
  bool same_top = false;
};

Pair compare(std::span<const float> p, std::span<const float> q, int32_t id) {
  const auto top_p = int32_t(std::max_element(p.begin(), p.end()) - p.begin());
  const auto top_q = int32_t(std::max_element(q.begin(), q.end()) - q.begin());
  const double norm_p = double(p[size_t(top_p)]) - log_softmax_at(p, top_p);
  const double norm_q = double(q[size_t(top_q)]) - log_softmax_at(q, top_q);
  double kl = 0;
  for (size_t v = 0; v < p.size(); ++v) {
    const double log_p = double(p[v]) - norm_p;
    kl += std::exp(log_p) * (log_p - (double(q[v]) - norm_q));
  }
  return {{kl, norm_p - double(p[size_t(id)]), norm_q - double(q[size_t(id)])}, top_p == top_q};
}

MeanError of(const BlockMean& m) { return {m.mean(), m.standard_error()}; }

// The smallest value that at least this part of the sorted values does not exceed.
double quantile(const std::vector<double>& sorted, double part) {
  const auto at = size_t(std::ceil(part * double(sorted.size())));
  return sorted[std::clamp<size_t>(at, 1, sorted.size()) - 1];
}

}  // namespace

double Divergence::perplexity_ratio() const { return std::exp(difference.mean); }

Divergence compare_models(Device& device, const Model& base, const Model& model, const EvalText& text,
                          const ScoreOptions& options, const std::function<void(const DivergenceOfToken&)>& on_token,
                          const std::optional<ScoreOptions>& of_base) {
  check(base.spec.vocab == model.spec.vocab, "the base has {} tokens, the model {}; compare models of one vocabulary",
        base.spec.vocab, model.spec.vocab);
  ScoreOptions o = options;
  if (o.context == 0) o.context = std::min(base.spec.context, model.spec.context);
  ScoreOptions base_options = of_base.value_or(o);
  base_options.context = o.context, base_options.stride = o.stride;
  TextReader p(device, base, text, base_options), q(device, model, text, o);
  ThreadPool team(device.host_threads());
  BlockMean kl(text), same_top(text), nats_p(text), nats_q(text), difference(text), probability(text);
  std::vector<double> all;
  std::vector<Pair> pairs;
  double squares = 0;
  while (p.step() && q.step()) {
    pairs.assign(p.predicted().size(), {});
    team.run([&](int thread) {
      const Range mine = part(int64_t(pairs.size()), thread, team.size());
      for (int64_t i = mine.begin; i < mine.end; ++i)
        pairs[size_t(i)] = compare(p.logits(size_t(i)), q.logits(size_t(i)), p.predicted()[size_t(i)].id);
    });
    for (size_t i = 0; i < pairs.size(); ++i) {
      const auto& [t, same] = pairs[i];
      const auto& [document, index, id] = p.predicted()[i];
      if (std::isnan(t.base) || std::isnan(t.model))
        fail_internal("the {} gives NaN after token {} of the text: its weights are broken",
                      std::isnan(t.base) ? "base" : "model", index);
      const double moved = std::exp(-t.model) - std::exp(-t.base);
      kl.add(document, t.kl), same_top.add(document, same ? 1 : 0);
      nats_p.add(document, t.base), nats_q.add(document, t.model), difference.add(document, t.model - t.base);
      probability.add(document, moved);
      squares += moved * moved;
      all.push_back(t.kl);
      if (on_token) on_token(t);
    }
  }
  std::sort(all.begin(), all.end());
  Divergence d{.kl = of(kl),
               .same_top = of(same_top),
               .base = of(nats_p),
               .model = of(nats_q),
               .difference = of(difference),
               .probability = of(probability),
               .probability_rms = std::sqrt(squares / double(all.size())),
               .tokens = kl.tokens(),
               .blocks = kl.blocks(),
               .blocks_are_documents = kl.by_document()};
  for (size_t i = 0; i < kDivergenceQuantiles.size(); ++i) d.quantiles[i] = quantile(all, kDivergenceQuantiles[i]);
  return d;
}

void require_same_shape(const ModelSpec& a, const ModelSpec& b) {
  const std::vector<TensorSpec> in_a = tensors_of(a), in_b = tensors_of(b);
  for (size_t i = 0; i < std::max(in_a.size(), in_b.size()); ++i) {
    check(i < in_a.size(), "the models differ: only the second has '{}'", in_b[std::min(i, in_b.size() - 1)].name);
    check(i < in_b.size(), "the models differ: only the first has '{}'", in_a[i].name);
    check(in_a[i].name == in_b[i].name, "the models differ: the first has '{}' where the second has '{}'", in_a[i].name,
          in_b[i].name);
    check(in_a[i].name != "token_embd.weight" || a.vocab == b.vocab,
          "the models differ: the first has {} tokens and the second {}; compare models of one tokenizer, such as a "
          "model and its fine-tune",
          a.vocab, b.vocab);
    check(in_a[i].shape == in_b[i].shape, "the models differ: '{}' is {} in the first and {} in the second",
          in_a[i].name, in_a[i].shape.str(), in_b[i].shape.str());
  }
  const nlohmann::ordered_json of_a = to_json(a), of_b = to_json(b);
  for (const auto& [key, value] : of_a.items())
    if (key != "name" && key != "context")
      check(of_b.contains(key) && of_b.at(key) == value,
            "the models differ: {} is {} in the first and {} in the second", key, json_text(value),
            of_b.contains(key) ? json_text(of_b.at(key)) : "absent");
}

void interpolate(const Model& a, const Model& b, double alpha, Model& mixed) {
  for (const TensorSpec& t : tensors_of(mixed.spec)) {
    std::vector<float> values = a.params->read(t.name);
    const std::vector<float> other = b.params->read(t.name);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = alpha == 1 ? other[i] : float((1 - alpha) * double(values[i]) + alpha * double(other[i]));
    mixed.params->write(t.name, values);
  }
}

}  // namespace toy
