#include "train/feed.h"

#include <algorithm>

namespace toy {

int64_t counted_targets(const Windows& windows, size_t first, size_t rows) {
  int64_t counted = 0;
  for (size_t i = first; i < first + rows; ++i) counted += windows.counts(i);
  return counted;
}

void feed_windows(Session& session, const Windows& windows, size_t first, size_t rows, int64_t tokens, double weight) {
  std::vector<int32_t> targets;
  std::vector<float> weights;
  for (size_t i = first; i < first + rows; ++i) {
    targets.push_back(std::max(windows.targets[i], 0));
    weights.push_back(windows.counts(i) ? float(weight) : 0);
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
