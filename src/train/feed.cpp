#include "train/feed.h"

#include <algorithm>

namespace toy {

int64_t counted_targets(const Windows& windows, size_t first, size_t rows) {
  int64_t counted = 0;
  for (size_t i = first; i < first + rows; ++i) counted += windows.counts(i);
  return counted;
}

std::vector<float> equal_weights(const Windows& windows, double weight) {
  std::vector<float> weights(windows.targets.size());
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = windows.counts(i) ? float(weight) : 0;
  return weights;
}

void feed_windows(Session& session, const Windows& windows, size_t first, size_t rows, int64_t tokens,
                  std::span<const float> weights) {
  std::vector<int32_t> targets;
  for (size_t i = first; i < first + rows; ++i) targets.push_back(std::max(windows.targets[i], 0));
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
  session.set("weight", weights.subspan(first, rows));
}

// Rows are numbered by length, longest documents first: a part of them is taken from everywhere.
Windows rows_for_evaluation(const PackedRows& rows, int64_t first, int64_t count, int64_t max_tokens) {
  return max_tokens == 0 ? rows.rows(first, count) : rows.windows(first, count);
}

}  // namespace toy
