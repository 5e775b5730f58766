#include "toy/data/corpus.h"

#include <algorithm>
#include <type_traits>

#include "data/permute.h"
#include "toy/base/error.h"

namespace toy {

Windows Windows::part(int64_t first, int64_t count) const {
  const auto cut = [&](const auto& from) {
    using List = std::remove_cvref_t<decltype(from)>;
    return from.empty() ? List{} : List(from.begin() + first, from.begin() + first + count);
  };
  const auto cut_rows = [&](const std::vector<float>& from) {  // several of a place, or one of several places
    const auto places = int64_t(inputs.size()), n = int64_t(from.size());
    if (n == 0) return std::vector<float>();
    return std::vector<float>(from.begin() + n * first / places, from.begin() + n * (first + count) / places);
  };
  Windows out{cut(inputs),  cut(targets), cut(sequence),    cut(position),
              cut(trained), {},           cut_rows(pixels), cut_rows(shares)};
  for (Answer a : answers)
    if (a.first >= first && a.first < first + count) a.first -= first, out.answers.push_back(a);
  return out;
}

WindowSampler::WindowSampler(TokenView ids, int64_t batch, int64_t tokens, uint64_t seed)
    : ids_(ids), batch_(batch), tokens_(tokens), per_epoch_(0), seed_(seed) {
  check(batch >= 1, "window sampler: a batch of {} windows; give 1 or more", batch);
  check(tokens >= 1, "window sampler: windows of {} tokens; give 1 or more", tokens);
  const int64_t count = int64_t(ids.size());
  check(count > tokens,
        "the text is too short: it has {} tokens, and a window of {} tokens needs {}; give a "
        "longer text or shorter windows (--tokens)",
        count, tokens, tokens + 1);
  // As many as fit whatever the start in [0, tokens) is; a text of less than two windows has room for fewer
  // starts.
  per_epoch_ = std::max<int64_t>(1, (count - tokens) / tokens);
}

Windows WindowSampler::batch(int64_t step) const {
  check(step >= 0, "window sampler: step {}; steps are counted from 0", step);
  return windows(step * batch_, batch_);
}

Windows WindowSampler::windows(int64_t first_window, int64_t count) const {
  check(first_window >= 0, "window sampler: window {}; windows are counted from 0", first_window);
  const Philox starts(seed_, "epoch start");
  const uint64_t key = hash_name("epoch order") ^ seed_;
  const int64_t room = std::min(tokens_, int64_t(ids_.size()) - per_epoch_ * tokens_);
  Windows out;
  out.inputs.reserve(size_t(count * tokens_));
  out.targets.reserve(size_t(count * tokens_));
  for (int64_t window = first_window; window < first_window + count; ++window) {
    const int64_t epoch = window / per_epoch_;
    const int64_t start = int64_t(starts.below(uint64_t(epoch), uint64_t(room)));
    const int64_t place = int64_t(permute(uint64_t(window % per_epoch_), uint64_t(per_epoch_), key, uint64_t(epoch)));
    const int64_t first = start + place * tokens_;
    ids_.copy(first, tokens_, out.inputs);
    ids_.copy(first + 1, tokens_, out.targets);
  }
  return out;
}

namespace {

int64_t eval_window_count(int64_t ids, int64_t tokens, int64_t stride) {
  return ids < 2 ? 0 : 1 + (std::max<int64_t>(0, ids - 1 - tokens) + stride - 1) / stride;
}

EvalWindow eval_window(int64_t number, int64_t ids, int64_t tokens, int64_t stride) {
  const int64_t begin = number * stride;
  return {begin, std::min(tokens, ids - 1 - begin), number == 0 ? 0 : tokens - stride};
}

}  // namespace

std::vector<EvalWindow> eval_windows(int64_t ids, int64_t tokens, int64_t stride) {
  if (stride == 0) stride = tokens;
  check(tokens >= 1, "evaluation windows of {} tokens; give 1 or more", tokens);
  check(stride >= 1 && stride <= tokens, "evaluation stride {}; give 1 to {}, the window", stride, tokens);
  std::vector<EvalWindow> windows;
  const int64_t count = eval_window_count(ids, tokens, stride);
  for (int64_t i = 0; i < count; ++i) windows.push_back(eval_window(i, ids, tokens, stride));
  return windows;
}

TextRows::TextRows(TokenView ids, int64_t tokens)
    : ids_(ids), tokens_(tokens), stride_(std::max<int64_t>(1, tokens / 4)) {}

int64_t TextRows::ids(int64_t max_tokens) const {
  const auto all = int64_t(ids_.size());
  return max_tokens > 0 ? std::min(max_tokens + 1, all) : all;
}

int64_t TextRows::rows_for(int64_t max_tokens) const { return eval_window_count(ids(max_tokens), tokens_, stride_); }

Windows TextRows::validation(int64_t first, int64_t count, int64_t max_tokens) const {
  Windows out;
  const int64_t end = std::min(first + count, rows_for(max_tokens));
  for (int64_t row = first; row < end; ++row) {
    const EvalWindow w = eval_window(row, ids(max_tokens), tokens_, stride_);
    ids_.copy(w.begin, w.tokens, out.inputs);
    ids_.copy(w.begin + 1, w.tokens, out.targets);
    out.trained.resize(out.trained.size() + size_t(w.skip), 0);
    out.trained.resize(out.inputs.size(), 1);
    const auto places = size_t((row - first + 1) * tokens_);
    out.inputs.resize(places), out.targets.resize(places), out.trained.resize(places);
  }
  return out;
}

}  // namespace toy
