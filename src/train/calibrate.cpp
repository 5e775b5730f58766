#include "train/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "toy/base/clock.h"

namespace toy {
namespace {

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + int64_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

void time_steps(Trainer& trainer, const WindowsFrom& windows, int64_t count, double lr, int64_t most, Calibration& c) {
  constexpr double kEnough = 2, kSlow = 8;  // seconds
  constexpr size_t kFew = 4;
  std::vector<double> seconds;
  const double begin = steady_seconds();
  for (double before = begin; c.steps < most; before = steady_seconds()) {
    const double gone = before - begin;
    if (gone > kSlow || (gone > kEnough && seconds.size() >= kFew)) break;
    trainer.step(windows(c.steps * count, count), lr);
    const double took = steady_seconds() - before;
    if (c.steps++ == 0)
      c.first = took;
    else
      seconds.push_back(took);
  }
  c.step = seconds.empty() ? c.first : median(seconds);
}

double time_evaluation(Trainer& trainer, const ValidationText& text) {
  constexpr size_t kTimes = 3;
  constexpr double kEnough = 2;  // seconds
  const auto one_batch = [&] { trainer.evaluate(*text.rows, 1); };
  one_batch();  // makes the session
  std::vector<double> seconds;
  const double begin = steady_seconds();
  do {
    const double before = steady_seconds();
    one_batch();
    seconds.push_back(steady_seconds() - before);
  } while (seconds.size() < kTimes && steady_seconds() - begin < kEnough);
  return median(seconds);
}

// By op, forward and backward apart.
using Work = std::map<std::string, double>;

void add_work(const Plan& plan, double times, Work& work) {
  for (const PlanStep& s : plan.steps)
    work[s.op + (s.phase == Phase::backward ? " backward" : "")] +=
        times * (s.cost.flops > 0 ? s.cost.flops : s.cost.bytes);
}

double sum(const Work& work) {
  double all = 0;
  for (const auto& [op, w] : work) all += w;
  return all;
}

// What `plans` do in a step that a trainer with other dimensions was measured at. Optimizers take as long for few
// tokens as for many, products do not: each op has its own rate.
double extrapolated(const TrainPlans& plans, int64_t passes, Trainer& measured) {
  Work wanted, done, seconds;
  add_work(*plans.step, double(passes), wanted);
  if (plans.update) add_work(*plans.update, 1, wanted);
  for (Session* session : measured.sessions()) {
    const Plan& plan = session->plan();
    const std::vector<StepTime>& times = session->profile();
    add_work(plan, times.empty() ? 0 : double(times[0].runs), done);
    for (size_t i = 0; i < times.size(); ++i)
      seconds[plan.steps[i].op + (plan.steps[i].phase == Phase::backward ? " backward" : "")] += times[i].seconds;
  }
  const double overall = sum(seconds) / sum(done);
  double total = 0;
  for (const auto& [op, work] : wanted) {
    const auto it = done.find(op);
    total += work * (it != done.end() && it->second > 0 ? seconds.at(op) / it->second : overall);
  }
  return total;
}

// The first `tokens` of each of `rows` windows of `all`.
Windows cut(const Windows& windows, int64_t rows, int64_t all, int64_t tokens) {
  const auto part = [&](const std::vector<int32_t>& from) {
    std::vector<int32_t> to;
    for (int64_t r = 0; r < rows && !from.empty(); ++r)
      to.insert(to.end(), from.begin() + r * all, from.begin() + r * all + tokens);
    return to;
  };
  return {part(windows.inputs), part(windows.targets), part(windows.sequence), part(windows.position)};
}

// Two steps of few tokens, the second of which is measured, and two evaluations.
Calibration extrapolate(Device& device, Model& model, const Trainer& trainer, const TrainerOptions& options,
                        const WindowsFrom& windows, const ValidationText* text, double lr, int64_t few) {
  TrainerOptions o = options;
  o.tokens = std::min(options.tokens, few);
  o.batch = std::min(options.batch, std::max<int64_t>(1, few / o.tokens));
  // Of several ranks, what this one computes, without exchange.
  const int64_t passes = options.passes() / (options.ranks ? options.ranks->size() : 1);
  o.accumulate = std::min<int64_t>(passes, 2);
  o.shards = 1, o.ranks = nullptr, o.local_steps = 0, o.wire = TrainerOptions::Wire::f32;
  Trainer small(device, model, o);
  const int64_t rows = o.batch * o.accumulate;
  Calibration c;
  c.tokens = rows * o.tokens;
  for (; c.steps < 2; ++c.steps) {
    for (Session* session : small.sessions()) session->enable_profile(c.steps == 1);
    small.step(cut(windows(c.steps * rows, rows), rows, options.tokens, o.tokens), lr);
  }
  c.step = c.first = extrapolated(trainer.plans(), passes, small);
  if (text)
    c.batch = time_evaluation(small, *text) * trainer.plans().forwards[0]->cost().flops /
              small.plans().forwards[0]->cost().flops;
  return c;
}

}  // namespace

Calibration calibrate(Device& device, Model& model, Trainer& trainer, const TrainerOptions& options,
                      const WindowsFrom& windows, const ValidationText* text, double lr, int64_t most) {
  constexpr int64_t kFew = 1024;  // tokens: from 256, steps of 4096 were estimated 1.7 times too long (Zen 3)
  constexpr double kWork = 2e10;  // flops of a step that is short on any machine
  constexpr double kLong = 2;     // seconds
  const int64_t rows = options.rows();
  const double work = trainer.plan().cost().flops * double(options.passes());
  const bool of_texts = model.spec.causal && !options.preference && !options.contrastive && !options.classes;
  if (most > 0 && of_texts && rows * options.tokens > 2 * kFew && work > kWork)
    if (const Calibration c = extrapolate(device, model, trainer, options, windows, text, lr, kFew); c.step > kLong)
      return c;
  Calibration c;
  c.tokens = rows * options.tokens;
  time_steps(trainer, windows, rows, lr, most, c);
  if (text) c.batch = time_evaluation(trainer, *text);
  return c;
}

int64_t evaluation_batches(const ValidationText& text, int64_t max_tokens, const TrainerOptions& o) {
  return (text.rows->rows_for(max_tokens) + o.sequences() - 1) / o.sequences();
}

}  // namespace toy
