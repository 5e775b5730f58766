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
  check_limits(o);
  check(!o.epochs || (above(0).hold(*o.epochs)), "epochs is {}; use a number above 0", o.epochs.value_or(0));
  check(!o.fit_tokens || !o.data.examples.empty(), "tokens: only rows of --data say how many a sequence needs");
  if (!o.epochs) o.rates();
  check(o.patience == 0 || o.eval_every > 0,
        "patience is {}, but validation comes only at the end; say how often with --eval-every", o.patience);
  if (const int64_t local = trainer.local_steps; local > 0) {
    check(!o.policy, "local-steps: reinforcement learning shares every step; leave it out");
    const std::pair<const char*, int64_t> counts[] = {{"steps", o.epochs ? 0 : o.steps}, {"eval-every", o.eval_every}};
    for (const auto& [name, value] : counts)
      check(value % local == 0, "{} is {}, and ranks meet every {} steps (local-steps); use {}", name, value, local,
            trainer.complete_rounds(value));
  }
  check(o.resume || !o.allow_changes, "allow-changes says how to resume; give it with resume");
  check(o.context == 0 || o.context >= trainer.tokens, "context is {}, smaller than the window of {} tokens", o.context,
        trainer.tokens);
}

void require_room(const Device& device, const ModelSpec& spec, const OptimizerOptions& optimizer) {
  const auto parameters = double(parameter_count(spec)), trained = double(trained_count(spec));
  require_memory(device, Checkpoints::bytes(spec, optimizer) + size_t(trained) * sizeof(float),
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

void set_schedule(RecipeOptions& o, std::string_view text, std::string_view what) {
  ListForm form{.between = '\0'};
  for (const auto& [name, kind] : NamesOf<Schedule::Kind>::list) form.words.emplace_back(name);
  const ListedWord schedule = read_list(what, text, form).front();
  read_value(schedule.word, {}, o.schedule);
  set_listed(o, schedule, what);
}

std::string schedule_text(const RecipeOptions& options) {
  RecipeOptions o = options;
  o.decay_steps = o.rates().decay;
  return listed_text(o, name_in_list(o.schedule));
}

Schedule RecipeOptions::rates() const {
  check_limits(*this);
  Schedule s{.kind = schedule, .peak = lr, .warmup = warmup, .steps = steps, .decay = 0, .final_fraction = final_lr};
  if (warmup < 0) s.warmup = std::min<int64_t>(200, steps / 20);
  if (schedule == Schedule::wsd) s.decay = decay_steps >= 0 ? decay_steps : std::min(steps / 5, steps - s.warmup);
  s.validate();
  return s;
}

}  // namespace toy
