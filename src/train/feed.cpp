#include "train/feed.h"

#include <algorithm>

namespace toy {

namespace {

bool counts(const Windows& windows, size_t i) {
  return windows.targets[i] >= 0 && (windows.sequence.empty() || windows.sequence[i] >= 0);
}

}  // namespace

int64_t counted_targets(const Windows& windows, size_t first, size_t rows) {
  int64_t n = 0;
  for (size_t i = first; i < first + rows; ++i) n += counts(windows, i);
  return n;
}

void feed_windows(Session& session, const Windows& windows, size_t first, size_t rows, int64_t tokens, double weight) {
  std::vector<int32_t> targets;
  std::vector<float> weights;
  for (size_t i = first; i < first + rows; ++i) {
    targets.push_back(std::max(windows.targets[i], 0));
    weights.push_back(counts(windows, i) ? float(weight) : 0);
  }
  session.set("tokens", std::span(windows.inputs).subspan(first, rows));
  session.set("targets", targets);
  if (!windows.sequence.empty()) {
    session.set("sequence", std::span(windows.sequence).subspan(first, rows));
    session.set("position", std::span(windows.position).subspan(first, rows));
  } else {
    std::vector<int32_t> sequence, position;
    for (int64_t i = 0; i < int64_t(rows); ++i) {
      sequence.push_back(int32_t(i / tokens));
      position.push_back(int32_t(i % tokens));
    }
    session.set("sequence", sequence);
    session.set("position", position);
  }
  session.set("weight", weights);
}

}  // namespace toy
