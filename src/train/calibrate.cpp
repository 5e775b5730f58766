#include "train/calibrate.h"

#include <algorithm>
#include <chrono>

namespace toy {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + int64_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

}  // namespace

StepTimes time_steps(Trainer& trainer, const std::function<Windows(int64_t step)>& windows, double lr, int64_t most) {
  constexpr double kEnough = 2, kSlow = 20;  // seconds
  constexpr size_t kFew = 4;
  StepTimes t;
  std::vector<double> seconds;
  const double begin = now();
  for (double before = begin; t.steps < most; before = now()) {
    const double gone = before - begin;
    if (gone > kSlow || (gone > kEnough && seconds.size() >= kFew)) break;
    trainer.step(windows(t.steps), lr);
    const double took = now() - before;
    if (t.steps++ == 0)
      t.first = took;
    else
      seconds.push_back(took);
  }
  t.step = seconds.empty() ? t.first : median(seconds);
  return t;
}

int64_t evaluation_batches(int64_t ids, int64_t max_tokens, const TrainerOptions& o) {
  if (ids < 2) return 0;
  const int64_t limit = max_tokens > 0 ? std::min(max_tokens + 1, ids) : ids;
  const auto windows = int64_t(eval_windows(limit, o.tokens, std::max<int64_t>(1, o.tokens / 4)).size());
  return (windows + o.batch - 1) / o.batch;
}

double time_evaluation(Trainer& trainer, std::span<const int32_t> ids, const TrainerOptions& o) {
  constexpr int kTimes = 3;
  const int64_t tokens =
      std::min(int64_t(ids.size()) - 1, o.tokens + (o.batch - 1) * std::max<int64_t>(1, o.tokens / 4));
  const int64_t batches = evaluation_batches(int64_t(ids.size()), tokens, o);
  trainer.evaluate(ids, tokens);  // makes the session
  std::vector<double> seconds;
  for (int i = 0; i < kTimes; ++i) {
    const double before = now();
    trainer.evaluate(ids, tokens);
    seconds.push_back((now() - before) / double(std::max<int64_t>(1, batches)));
  }
  return median(seconds);
}

}  // namespace toy
