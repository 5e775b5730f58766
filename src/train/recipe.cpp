// What is checked before a run begins, and after it has ended.
#include "toy/train/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "train/checkpoints.h"
#include "train/run.h"
#include "train/tell.h"

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
  check(trainer.local_steps > 0 || trainer.outer_lr == TrainerOptions().outer_lr,
        "outer-lr is {}, and only ranks that train apart use it; add --local-steps, or leave it out", trainer.outer_lr);
  check(trainer.local_steps > 0 || trainer.outer_momentum == TrainerOptions().outer_momentum,
        "outer-momentum is {}, and only ranks that train apart use it; add --local-steps, or leave it out",
        trainer.outer_momentum);
  check(o.resume || !o.allow_changes, "allow-changes says how to resume; give it with resume");
  check(o.context == 0 || o.context >= trainer.tokens,
        "context is {}, smaller than the window of {} tokens; use at least as many, or a smaller window (tokens)",
        o.context, trainer.tokens);
}

void require_room(const Device& device, const ModelSpec& spec, const OptimizerOptions& optimizer) {
  const auto parameters = double(parameter_count(spec)), trained = double(trained_count(spec));
  require_memory(device, Checkpoints::bytes(spec, optimizer) + size_t(trained) * sizeof(float),
                 fmt::format("training '{}' ({:.1f} M parameters)", spec.name, parameters * 1e-6));
}

int64_t steps_of_epochs(const RecipeOptions& o, int64_t rows, int64_t rows_per_step) {
  constexpr double kMost = 1e12;
  const double steps = std::max(1.0, std::ceil(*o.epochs * double(rows) / double(rows_per_step)));
  check(steps <= kMost, "epochs: {} of {} rows are more than {} steps", *o.epochs, rows, kMost);
  const int64_t rounds = o.trainer.complete_rounds(int64_t(steps));
  check(rounds <= 2 * int64_t(steps),
        "epochs: {} of {} rows are {} steps, and ranks meet every {} steps (local-steps), which would more than double "
        "them; use --local-steps {}",
        *o.epochs, rows, steps, o.trainer.local_steps, int64_t(steps));
  return rounds;
}

std::pair<int, int64_t> most_skips(const StepResult& result) {
  const auto most = std::ranges::max_element(result.skips);
  if (most == result.skips.end()) return {};
  return {int(most - result.skips.begin()), *most};
}

void fail_of_skips(const RecipeOptions& o, const StepResult& r, int64_t step, int64_t here, const std::string& model) {
  const auto [rank, elsewhere] = most_skips(r);
  const bool other = here < o.max_skipped;  // whose last step is the one before
  fail(
      "training diverged{}: the {} of {} steps in a row, up to step {}, was not finite, and these steps were skipped. "
      "{} are in {}. Try a smaller --lr",
      other ? fmt::format(" in rank {} (host {})", rank, o.trainer.ranks->host(rank)) : "",
      o.trainer.updates == TrainerOptions::gathered ? "gradient" : "loss", other ? elsewhere : here,
      other ? step - 1 : step, other ? "Rank 0's weights" : "The weights before them", model);
}

void warn_of_skips(const RecipeOptions& o, const StepResult& r, int64_t step, Teller& tell) {
  for (size_t rank = 0; rank < r.skips.size(); ++rank)
    if (r.skips[rank] == 1)
      tell.warn(fmt::format("rank {} (host {}) skipped step {}: its gradient was not finite there", rank,
                            o.trainer.ranks->host(int(rank)), step - 1));
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
  if (r.eval && r.eval->step == r.step && !r.eval->reward && !std::isfinite(r.eval->loss))
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
