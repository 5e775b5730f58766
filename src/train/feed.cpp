#include "train/feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "toy/backend/kernel_fault.h"
#include "toy/models/vision.h"
#include "train/contrastive.h"
#include "train/text_classes.h"

namespace toy {

int64_t counted_targets(const Windows& windows) {
  int64_t counted = 0;
  for (size_t i = 0; i < windows.targets.size(); ++i) counted += windows.counts(i);
  return counted;
}

std::vector<float> equal_weights(const Windows& windows, double weight) {
  std::vector<float> weights(windows.targets.size());
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = windows.counts(i) ? float(weight) : 0;
  return weights;
}

namespace {

void feed_pictures(Session& session, const Windows& batch, int64_t tokens, std::span<const float> weights) {
  const VisionRows rows(int64_t(batch.inputs.size()) / tokens, tokens);
  session.set("pixels", batch.pixels);
  session.set("shares", batch.shares);
  session.set("sequence", rows.sequence);
  session.set("position", rows.position);
  session.set("until", rows.until);
  session.set("weight", weights);
}

// Of models that are not causal: each place sees all of its sequence.
void feed_until(Session& session, std::span<const int32_t> sequence) {
  if (std::ranges::find(session.plan().inputs, "until", &PlanLeaf::name) == session.plan().inputs.end()) return;
  std::vector<int32_t> until(sequence.size());
  for (size_t begin = 0, end = 0; begin < sequence.size(); begin = end) {
    while (end < sequence.size() && sequence[end] == sequence[begin]) ++end;
    std::fill(until.begin() + std::ptrdiff_t(begin), until.begin() + std::ptrdiff_t(end), int32_t(end - begin));
  }
  session.set("until", until);
}

constexpr const char* kFrom = "spread.from";

// Of each row that attention sees: its place, its sequence.
struct SpreadRows {
  std::vector<int32_t> from, sequence;
  void add(int64_t first, int64_t last, int32_t of) {
    for (int64_t i = first; i < last; ++i) from.push_back(int32_t(i)), sequence.push_back(of);
  }
};

SpreadRows spread_of(std::span<const int32_t> sequence, std::span<const int32_t> position) {
  SpreadRows rows;
  int64_t shared = 0;  // where the latest sequence begins that is complete
  const auto n = int64_t(sequence.size());
  for (int64_t begin = 0, end = 0; begin < n; begin = end) {
    while (end < n && sequence[size_t(end)] == sequence[size_t(begin)]) ++end;
    const int64_t before = position[size_t(begin)];
    if (before == 0) shared = begin;
    rows.add(shared, shared + before, sequence[size_t(begin)]), rows.add(begin, end, sequence[size_t(begin)]);
  }
  return rows;
}

void feed_spread(Session& session, std::span<const int32_t> sequence, std::span<const int32_t> position) {
  const auto input = std::ranges::find(session.plan().inputs, kFrom, &PlanLeaf::name);
  if (input == session.plan().inputs.end()) return;
  const auto places = size_t(input->type.shape[0]);
  SpreadRows rows = spread_of(sequence, position);
  const size_t n = rows.from.size();
  check(n <= places, "trainer: attention sees {} rows, expected at most {}", n, places);
  std::vector<int32_t> positions, back(sequence.size(), -1);
  for (size_t i = 0; i < n; ++i) {
    int32_t& first = back[size_t(rows.from[i])];
    if (first < 0) first = int32_t(i);
    positions.push_back(position[size_t(rows.from[i])]);
  }
  for (size_t i = n; i < places; ++i)  // padding, each a sequence of its own
    rows.from.push_back(0), positions.push_back(0), rows.sequence.push_back(INT32_MIN + int32_t(i));
  session.set(kFrom, rows.from);
  session.set("spread.back", back);
  session.set("spread.sequence", rows.sequence);
  session.set("spread.position", positions);
}

}  // namespace

nn::Spread spread_inputs(Graph& g, int64_t n, int64_t tokens, int64_t spread) {
  if (spread == 0) return {};
  const TensorType rows{DType::i32, {spread}, 0};
  return {.from = g.input(kFrom, rows, n),
          .back = g.input("spread.back", {DType::i32, {n}, 0}, spread),
          .sequence = g.input("spread.sequence", rows),
          .position = g.input("spread.position", rows, tokens)};
}

void feed_windows(Session& session, const Windows& batch, int64_t tokens, std::span<const float> weights) {
  if (!batch.pixels.empty()) return feed_pictures(session, batch, tokens, weights);
  std::vector<int32_t> targets;
  for (const int32_t target : batch.targets) targets.push_back(std::max(target, 0));
  session.set("tokens", batch.inputs);
  session.set("targets", targets);
  std::vector<int32_t> sequence = batch.sequence, position = batch.position;
  if (batch.sequence.empty())
    for (int64_t i = 0; i < int64_t(batch.inputs.size()); ++i)
      sequence.push_back(int32_t(i / tokens)), position.push_back(int32_t(i % tokens));
  session.set("sequence", sequence);
  session.set("position", position);
  session.set("weight", weights);
  feed_until(session, sequence);
  feed_spread(session, sequence, position);
}

void feed_windows(Session& session, const Windows& batch, const TrainerOptions& o, std::span<const float> weights) {
  if (o.contrastive) return feed_contrastive(session, batch, o.tokens, *o.contrastive, weights);
  if (o.classes) return feed_text_classes(session, batch, o.tokens, *o.classes, weights);
  feed_windows(session, batch, o.tokens, weights);
}

void feed_random(Session& session, uint64_t seed, int64_t number) {
  session.set("random", std::array{int32_t(uint32_t(seed)), int32_t(seed >> 32), int32_t(number)});
}

void pad(Windows& w, int64_t places) {
  if (!w.shares.empty()) {
    const size_t n = w.inputs.size();
    for (std::vector<float>* v : {&w.pixels, &w.shares}) v->resize(v->size() * size_t(places) / n, 0.0f);
    w.targets.resize(size_t(places), -1);
  }
  for (std::vector<int32_t>* v : {&w.inputs, &w.targets}) v->resize(size_t(places), 0);
  if (!w.trained.empty()) w.trained.resize(size_t(places), 0);
  if (w.sequence.empty()) return;
  w.position.resize(size_t(places), 0);
  while (int64_t(w.sequence.size()) < places) w.sequence.push_back(int32_t(-1 - places - int64_t(w.sequence.size())));
}

void run_session(Session& session, const char* what, int64_t step, std::span<const size_t> ends,
                 const std::function<void(size_t)>& done) {
  try {
    session.run(ends, done);
  } catch (const KernelFailure& e) {
    if (e.fault() != KernelFault::not_finite) fail("{} {}: {}", what, step, e.what());
    fail_internal(
        "{} {}: training diverged: a gradient is not finite, and some weights are updated with it. Try a smaller "
        "learning rate, or gathered updates, which skip such steps",
        what, step);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{} {}: {}", what, step, e.what()));
  }
}

}  // namespace toy
