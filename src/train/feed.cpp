#include "train/feed.h"

namespace toy {

int64_t counted_targets(const Windows& windows, size_t first, size_t rows) {
  int64_t counted = 0;
  for (size_t i = first; i < first + rows; ++i) counted += windows.counts(i);
  return counted;
}

void feed_windows(Session& session, const Windows& windows, size_t first, size_t rows, int64_t tokens, double weight) {
  session.set("tokens", std::span(windows.inputs).subspan(first, rows));
  session.set("targets", std::span(windows.targets).subspan(first, rows));
  std::vector<float> weights(rows, float(weight));
  for (size_t i = 0; i < rows; ++i)
    if (!windows.counts(first + i)) weights[i] = 0;
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
