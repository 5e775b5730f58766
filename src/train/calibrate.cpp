#include "train/calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>

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

int64_t evaluation_batches(const ValidationText& text, int64_t max_tokens, const TrainerOptions& o) {
  const int64_t tokens = max_tokens > 0 ? std::min(max_tokens, text.tokens) : text.tokens;
  const auto batches = [&o](double rows) { return int64_t(std::ceil(rows / double(o.batch))); };
  if (text.rows) return batches(double(tokens) * double(text.rows->rows()) / double(text.tokens));
  return batches(double(eval_windows(tokens + 1, o.tokens, std::max<int64_t>(1, o.tokens / 4)).size()));
}

double time_evaluation(Trainer& trainer, const ValidationText& text) {
  constexpr size_t kTimes = 3;
  constexpr double kEnough = 2;  // seconds
  const auto one_batch = [&] {
    if (text.rows)
      trainer.evaluate(*text.rows, 1);
    else
      trainer.evaluate(text.ids, 1);
  };
  one_batch();  // makes the session
  std::vector<double> seconds;
  const double begin = now();
  do {
    const double before = now();
    one_batch();
    seconds.push_back(now() - before);
  } while (seconds.size() < kTimes && now() - begin < kEnough);
  return median(seconds);
}

}  // namespace toy
