#include "train/feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "toy/backend/kernel_fault.h"
#include "toy/models/vision.h"
#include "train/contrastive.h"

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

}  // namespace

void feed_windows(Session& session, const Windows& batch, int64_t tokens, std::span<const float> weights) {
  if (!batch.pixels.empty()) return feed_pictures(session, batch, tokens, weights);
  std::vector<int32_t> targets;
  for (const int32_t target : batch.targets) targets.push_back(std::max(target, 0));
  session.set("tokens", batch.inputs);
  session.set("targets", targets);
  if (!batch.sequence.empty()) {
    session.set("sequence", batch.sequence);
    session.set("position", batch.position);
  } else {
    std::vector<int32_t> sequence, position;
    for (int64_t i = 0; i < int64_t(batch.inputs.size()); ++i) {
      sequence.push_back(int32_t(i / tokens));
      position.push_back(int32_t(i % tokens));
    }
    session.set("sequence", sequence);
    session.set("position", position);
  }
  session.set("weight", weights);
}

void feed_windows(Session& session, const Windows& batch, const TrainerOptions& o, std::span<const float> weights) {
  if (o.contrastive) return feed_contrastive(session, batch, o.tokens, *o.contrastive, weights);
  feed_windows(session, batch, o.tokens, weights);
}

void feed_random(Session& session, uint64_t seed, int64_t number) {
  session.set("random", std::array{int32_t(uint32_t(seed)), int32_t(seed >> 32), int32_t(number)});
}

void pad(Windows& w, int64_t places) {
  if (!w.pixels.empty()) {
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

void run_session(Session& session, const char* what, int64_t step) {
  try {
    session.run();
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
