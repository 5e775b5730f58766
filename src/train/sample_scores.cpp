#include "train/sample_scores.h"

#include <algorithm>
#include <cmath>

#include "toy/decode/sampler.h"
#include "train/feed.h"

namespace toy {
namespace {

constexpr int64_t kTogether = 64;  // rows whose logits are held at once

// What Head takes of all places, where that is wanted; and the logits of some.
struct Plans {
  std::shared_ptr<const Plan> rows, logits;
};

Plans plans(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch, int64_t tokens,
            int64_t spread, bool with_forward) {
  const auto compiled = [&](const Graph& g, Value v) {
    return std::make_shared<const Plan>(compile(g, std::vector{v}, {}, device));
  };
  Plans p;
  const int64_t n = batch * tokens;
  if (with_forward) {
    Graph forward;
    const TensorType ids{DType::i32, {n}, 0};
    const Value inputs = forward.input("tokens", ids, spec.vocab), targets = forward.input("targets", ids, spec.vocab);
    const Value sequence = forward.input("sequence", ids), position = forward.input("position", ids, tokens);
    forward.input("weight", {DType::f32, {n}, 0});
    (void)targets;  // fed with every batch, and needed by none of the ops
    const Transformer whole(spec, Weights(forward, dtype_of), tokens);
    p.rows = compiled(forward, whole(inputs, {.batch = {.sequence = sequence, .position = position},
                                              .spread = spread_inputs(forward, n, tokens, spread)}));
  }
  Graph head;
  const int some = head.declare_rows("rows", std::min(kTogether, n));
  const Value x = head.input("x", head.rows_type(some, DType::f32, {spec.d_model}));
  const Transformer last(spec, Weights(head, dtype_of), 0);
  p.logits = compiled(head, last.head.logits(x));
  return p;
}

size_t bytes_of(const std::shared_ptr<const Plan>& plan, const Device& device) {
  return plan ? plan->arena_bytes + plan->input_bytes(device) : 0;
}

}  // namespace

SampleScorer::SampleScorer(Device& device, const Model& model, ModelSpec spec, int64_t batch, int64_t tokens,
                           int64_t spread, bool with_forward)
    : spec_(std::move(spec)), tokens_(tokens), team_(device.host_threads()) {
  const auto dtype_of = [store = model.params.get()](const std::string& name) { return store->type(name).dtype; };
  const auto session = [&](const std::shared_ptr<const Plan>& plan) {
    require_memory(device, bytes_of(plan, device), "scoring samples");
    return std::make_unique<Session>(device, plan, std::initializer_list<const ParamStore*>{model.params.get()});
  };
  const Plans p = plans(device, spec_, dtype_of, batch, tokens, spread, with_forward);
  if (p.rows) rows_ = session(p.rows);
  logits_ = session(p.logits);
}

size_t SampleScorer::bytes(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch,
                           int64_t tokens, int64_t spread, bool forward) {
  const Plans p = plans(device, spec, dtype_of, batch, tokens, spread, forward);
  return bytes_of(p.rows, device) + bytes_of(p.logits, device);
}

std::vector<double> SampleScorer::operator()(const Windows& batch) {
  feed_windows(*rows_, batch, tokens_, std::vector<float>(batch.inputs.size(), 1));
  rows_->run();
  std::vector<size_t> places;
  for (size_t i = 0; i < batch.targets.size(); ++i)
    if (batch.counts(i)) places.push_back(i);
  return of(rows_->values(0), batch, places);
}

std::vector<double> SampleScorer::of(std::span<const float> hidden, const Windows& batch,
                                     const std::vector<size_t>& wanted) {
  std::vector<double> scores(wanted.size());
  const size_t width = size_t(spec_.d_model), vocab = size_t(spec_.vocab);
  for (size_t first = 0; first < wanted.size(); first += size_t(kTogether)) {
    const size_t count = std::min(size_t(kTogether), wanted.size() - first);
    std::vector<float> some;
    for (size_t i = first; i < first + count; ++i) {
      const auto row = hidden.subspan(wanted[i] * width, width);
      some.insert(some.end(), row.begin(), row.end());
    }
    logits_->set_rows("rows", int64_t(count));
    logits_->set("x", some);
    logits_->run();
    const std::vector<float> logits = logits_->values(0);
    team_.run([&](int thread) {
      const Range mine = part(int64_t(count), thread, team_.size());
      for (size_t i = size_t(mine.begin); i < size_t(mine.end); ++i)
        scores[first + i] =
            log_softmax_at(std::span(logits).subspan(i * vocab, vocab), batch.targets[wanted[first + i]]);
    });
  }
  return scores;
}

}  // namespace toy
