#include "toy/eval/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "eval/blocks.h"
#include "eval/rows.h"
#include "toy/base/error.h"
#include "toy/base/threads.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

// Of one token.
struct Difference {
  double kl = 0, base_logprob = 0, logprob = 0;
  bool same_top = false;
};

Difference difference(std::span<const float> base, std::span<const float> other, int32_t id) {
  const double from_base = log_softmax_at(base, 0) - double(base[0]),
               from_other = log_softmax_at(other, 0) - double(other[0]);
  Difference d;
  for (size_t i = 0; i < base.size(); ++i) {
    const double p = double(base[i]) + from_base, q = double(other[i]) + from_other;
    if (const double weight = std::exp(p); weight > 0) d.kl += weight * (p - q);
  }
  d.base_logprob = double(base[size_t(id)]) + from_base, d.logprob = double(other[size_t(id)]) + from_other;
  const auto top = [](std::span<const float> v) { return std::max_element(v.begin(), v.end()) - v.begin(); };
  d.same_top = top(base) == top(other);
  return d;
}

class Means {
 public:
  explicit Means(bool by_document)
      : kl_(by_document),
        top_(by_document),
        base_(by_document),
        nats_(by_document),
        ratio_(by_document),
        change_(by_document) {}

  void add(size_t document, const Difference& d) {
    const double change = std::exp(d.logprob) - std::exp(d.base_logprob);
    kl_.add(document, d.kl), top_.add(document, d.same_top ? 1 : 0);
    base_.add(document, -d.base_logprob), nats_.add(document, -d.logprob);
    ratio_.add(document, d.base_logprob - d.logprob), change_.add(document, change);
    kls_.push_back(d.kl), changes_.push_back(change);
    squares_ += change * change;
  }

  Divergence result() {
    Divergence r;
    r.tokens = kl_.tokens(), r.blocks = kl_.blocks();
    const auto of = [](const BlockMean& m) { return MeanWithError{m.mean(), m.error()}; };
    r.kl = of(kl_), r.same_top = of(top_), r.base_nats = of(base_), r.nats = of(nats_), r.log_ratio = of(ratio_);
    r.change = of(change_);
    r.rms_change = std::sqrt(squares_ / double(r.tokens));
    std::ranges::sort(kls_), std::ranges::sort(changes_);
    for (size_t i = 0; i < kPercentiles.size(); ++i) {
      r.kl_percentiles[i] = percentile(kls_, kPercentiles[i]);
      r.change_percentiles[i] = percentile(changes_, kPercentiles[i]);
    }
    return r;
  }

 private:
  BlockMean kl_, top_, base_, nats_, ratio_, change_;
  std::vector<double> kls_, changes_;
  double squares_ = 0;
};

// Names of the values of one object that the other states otherwise, the first of them.
std::string first_difference(const ordered_json& a, const ordered_json& b) {
  for (const auto& [key, value] : a.items())
    if (!b.contains(key) || b[key] != value) return key;
  for (const auto& [key, value] : b.items())
    if (!a.contains(key)) return key;
  return {};
}

}  // namespace

double percentile(const std::vector<double>& sorted, double percent) {
  const double at = percent / 100 * double(sorted.size() - 1);
  const size_t below = size_t(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (at - double(below)) * (sorted[below + 1] - sorted[below]);
}

Divergence compare_models(Device& device, const Model& base, const Model& model, const EvalText& text,
                          const ScoreOptions& options, const std::function<void(int64_t)>& progress) {
  check(base.spec.vocab == model.spec.vocab,
        "kl: the vocabularies have {} and {} tokens; models must predict the same tokens to be compared",
        base.spec.vocab, model.spec.vocab);
  EvalRows rows(text, options, base.spec);
  const DecoderOptions decoder_options = rows.decoder_options(options);
  Decoder p(device, base, decoder_options), q(device, model, decoder_options);
  ThreadPool team(device.threads());
  Means means(text.documents.size() > 1);
  std::vector<Difference> differences;
  int64_t done = 0;
  Decoder* const decoders[] = {&p, &q};
  while (rows.next(decoders)) {
    p.decode(rows.rows());
    q.decode(rows.rows());
    const auto& targets = rows.targets();
    differences.resize(targets.size());
    team.run([&](int thread) {
      const Range mine = part(int64_t(targets.size()), thread, team.size());
      for (int64_t i = mine.begin; i < mine.end; ++i)
        differences[size_t(i)] = difference(p.logits(size_t(i)), q.logits(size_t(i)), targets[size_t(i)].id);
    });
    for (size_t i = 0; i < targets.size(); ++i) {
      const Difference& d = differences[i];
      if (std::isnan(d.kl) || std::isnan(d.logprob))
        fail_internal("{} gives NaN after token {} of the text: its weights are broken",
                      std::isnan(d.base_logprob) ? "the base" : "the model", targets[i].index);
      means.add(targets[i].document, d);
    }
    if (progress) progress(done += int64_t(targets.size()));
  }
  Divergence result = means.result();
  result.bytes = text.bytes;
  result.blocks_are_documents = text.documents.size() > 1;
  return result;
}

LineOfModels::LineOfModels(const Model& a, const Model& b, Model& between, int threads)
    : a_(a), b_(b), between_(between), team_(threads) {
  std::map<std::string, Shape> of_b;
  for (const TensorSpec& t : tensors_of(b.spec)) of_b.emplace(t.name, t.shape);
  for (const TensorSpec& t : tensors_of(a.spec)) {
    const auto found = of_b.find(t.name);
    check(found != of_b.end(), "lmc: only A has a tensor '{}'; both models need the same tensors", t.name);
    check(found->second == t.shape, "lmc: tensor '{}' is {} in A and {} in B; both models need the same tensors",
          t.name, t.shape.str(), found->second.str());
    of_b.erase(found);
  }
  check(of_b.empty(), "lmc: only B has a tensor '{}'; both models need the same tensors",
        of_b.empty() ? "" : of_b.begin()->first);
  ordered_json dimensions_a = to_json(a.spec), dimensions_b = to_json(b.spec);
  for (ordered_json* dimensions : {&dimensions_a, &dimensions_b})
    dimensions->erase("name"), dimensions->erase("context");
  const std::string other = first_difference(dimensions_a, dimensions_b);
  check(other.empty(), "lmc: A and B have other values of '{}'; their weights belong to different formulas", other);
}

void LineOfModels::move_to(double alpha) {
  const float to_b = float(alpha), to_a = float(1 - alpha);
  for (const TensorSpec& t : tensors_of(between_.spec)) {
    if (alpha == 0 || alpha == 1) {
      between_.params->write(t.name, (alpha == 0 ? a_ : b_).params->read(t.name));
      continue;
    }
    std::vector<float> values = a_.params->read(t.name);
    const std::vector<float> end = b_.params->read(t.name);
    team_.run([&](int thread) {
      const Range mine = part(int64_t(values.size()), thread, team_.size());
      for (int64_t i = mine.begin; i < mine.end; ++i)
        values[size_t(i)] = to_a * values[size_t(i)] + to_b * end[size_t(i)];
    });
    between_.params->write(t.name, values);
  }
}

}  // namespace toy
