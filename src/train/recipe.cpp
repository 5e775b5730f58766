// What is checked before a run begins, and after it has ended.
#include "toy/train/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "train/checkpoints.h"
#include "train/run.h"

namespace toy {

void check_options(const RecipeOptions& o) {
  TrainerOptions trainer = o.trainer;
  if (o.fit_tokens) trainer.tokens = 1;  // not known yet
  trainer.validate();
  check(o.epochs >= 0 && std::isfinite(o.epochs), "epochs is {}, expected a number above 0", o.epochs);
  check(!o.fit_tokens || !o.data.examples.empty(), "tokens: only rows of --data say how many a sequence needs");
  if (o.epochs == 0) o.rates();
  check(o.max_skipped >= 1, "max-skipped is {}, expected at least 1", o.max_skipped);
  check(o.patience >= 0, "patience is {}, expected 0 (never stop early) or more", o.patience);
  check(o.patience == 0 || o.eval_every > 0,
        "patience is {}, but validation comes only at the end; say how often with --eval-every", o.patience);
  check(o.min_delta >= 0 && std::isfinite(o.min_delta), "min-delta is {}, expected 0 or more", o.min_delta);
  check(o.time_limit >= 0 && std::isfinite(o.time_limit), "time-limit is {} s, expected 0 (none) or more",
        o.time_limit);
  check(o.eval_every >= 0, "eval-every is {}, expected 0 (only at the end) or more", o.eval_every);
  check(o.eval_tokens >= 0, "eval-tokens is {}, expected 0 (all) or more", o.eval_tokens);
  check(o.checkpoint_every >= 0, "checkpoint-every is {}, expected 0 (only when the run is stopped) or more",
        o.checkpoint_every);
  check(o.keep >= 1, "keep is {}, expected at least 1 checkpoint", o.keep);
  check(o.resume || !o.allow_changes, "allow-changes says how to resume; give it with resume");
  check(o.sample_tokens >= 0, "sample is {}, expected 0 (none) or more", o.sample_tokens);
  check(o.context == 0 || o.context >= trainer.tokens, "context is {}, smaller than the window of {} tokens", o.context,
        trainer.tokens);
}

void require_room(const ModelSpec& spec, const OptimizerOptions& optimizer) {
  const auto parameters = double(parameter_count(spec)), trained = double(trained_count(spec));
  require_memory(Checkpoints::bytes(spec, optimizer) + size_t(trained) * sizeof(float),
                 fmt::format("training '{}' ({:.1f} M parameters)", spec.name, parameters * 1e-6));
}

// A run that changed next to nothing, or whose model ends up predicting nothing, has failed, however many steps it
// made. There is no loss scaling here whose overflows would be the way of things: a step that is skipped is an
// accident.
void require_success(const TrainResult& r, int64_t updates) {
  if (2 * updates < r.step)
    fail(
        "training failed: {} of {} steps were not finite and changed no weight. The weights are in {}. Try a smaller "
        "--lr, or others to start from",
        r.step - updates, r.step, r.model_path);
  if (r.eval && r.eval->step == r.step && !std::isfinite(r.eval->loss))
    fail(
        "training diverged: the validation loss after step {} is {}. The weights are in {}. Try a smaller "
        "--lr",
        r.step, r.eval->loss, r.model_path);
}

std::string_view name_of(TrainResult::Reason reason) {
  constexpr std::string_view kNames[] = {"done", "patience", "time", "stopped"};
  return kNames[reason];
}

Schedule RecipeOptions::rates() const {
  check(warmup >= -1, "warmup is {}, expected 0 to the number of steps ({})", warmup, steps);
  check(decay_steps >= -1, "decay-steps is {}, expected 0 to the number of steps ({})", decay_steps, steps);
  Schedule s{.kind = schedule, .peak = lr, .warmup = warmup, .steps = steps, .decay = 0, .final_fraction = final_lr};
  if (warmup < 0) s.warmup = std::min<int64_t>(200, steps / 20);
  if (schedule == Schedule::wsd) s.decay = decay_steps >= 0 ? decay_steps : std::min(steps / 5, steps - s.warmup);
  s.validate();
  return s;
}

}  // namespace toy
