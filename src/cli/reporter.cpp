#include "cli/reporter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "cli/run_files.h"
#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/memory.h"
#include "toy/base/utf8.h"

namespace toy::cli {
namespace {

void say(const std::string& text) { to_stderr(text + "\n"); }

}  // namespace

Reporter::Reporter(Results& results, bool json, std::optional<int64_t> log_every)
    : results_(results),
      json_(json),
      log_every_(log_every.value_or(progress_.on_terminal() && is_terminal(STDOUT_FILENO) ? 0 : 1)) {
  if (json_) log_every_ = 0;
}

void Reporter::preparing(const std::string& what) { progress_.waiting(one_line(what)); }

void Reporter::warned(const std::string& text) { say("toy: " + one_line(text)); }

void Reporter::noted(const std::string& text) { say(one_line(text)); }

bool Reporter::stop() { return results_.lost() || (interrupt_ && interrupt_->signal() != 0); }

void Reporter::started(const Start& s) {
  clear_status();
  say(fmt::format(
      "{}: {:.2f} M parameters, {} training tokens ({} windows per epoch), {} validation tokens, {} planned",
      one_line(s.spec.name), double(s.parameters) * 1e-6, s.train_tokens, s.windows_per_epoch, s.validation_tokens,
      format_bytes(s.planned_bytes)));
  if (!s.recomputing.empty()) say(s.recomputing);
  for (const std::string& note : s.plan.notes) say("plan: " + note);
  interrupt_.emplace();  // before the first step there is nothing to save, and a signal ends the program at once
}

void Reporter::resumed(int64_t step, const std::string&) { say(fmt::format("resumed after step {}", step)); }

void Reporter::checkpointed(const std::string& path, int64_t) { say("checkpoint: " + one_line(path)); }

void Reporter::log(const Step& s) {
  results_.put(fmt::format("step {}: loss={:.6f}\n", s.step, s.loss));
  last_is_logged_ = true;
}

void Reporter::stepped(const Step& s) {
  const bool first = !last_;
  last_ = s;
  last_is_logged_ = false;
  if (log_every_ > 0 && (first || s.step == s.steps || s.step % log_every_ == 0)) log(s);
  if (s.skipped)
    say(fmt::format("step {}: the {} is not finite; the step was skipped", s.step, s.grad_norm ? "gradient" : "loss"));
  show(s, first || s.step == s.steps);
}

void Reporter::show(const Step& s, bool at_once, bool with_time) {
  progress_.show({.label = "step",
                  .brief = "",
                  .done = s.step,
                  .total = s.steps,
                  .loss = s.loss,
                  .tokens_per_second = s.tokens_per_second,
                  .seconds_left = with_time ? std::optional(s.seconds_left) : std::nullopt},
                 at_once);
}

void Reporter::validating(int64_t batch, int64_t batches) {
  if (batch == 0) validation_began_ = steady_seconds();
  ProgressState s{.label = "validation", .brief = "val", .done = batch, .total = batches};
  if (batch > 0) s.seconds_left = (steady_seconds() - validation_began_) / double(batch) * double(batches - batch);
  progress_.show(s);
}

void Reporter::evaluated(const Eval& e) {
  clear_status();
  say(fmt::format("step {}: validation loss {:.4f} nats per token, {:.4f} nats per byte{}", e.step, e.loss,
                  e.nats_per_byte, e.whole ? "" : " (on part of the text)"));
  if (e.average_loss) say(fmt::format("averaged weights: {:.4f} nats per token", *e.average_loss));
  if (!e.sample.empty()) say("sample: " + printable(e.sample) + "\n");
  if (last_ && progress_.on_terminal()) show(*last_, true);
}

void Reporter::estimated(const RunEstimate& e) {
  clear_status();
  put_line(json_ ? json_text(to_json(e)) + "\n" : to_text(e));
}

void Reporter::done(const TrainResult& r, const std::string& how_to_resume) {
  if (last_ && !last_is_logged_ && log_every_ > 0) log(*last_);
  if (last_ && progress_.on_terminal()) {
    show(*last_, true, false);
    keep_status();
  }
  if (r.reason == TrainResult::patience) say("stopped: the validation loss no longer improves");
  if (r.reason == TrainResult::time) say("stopped: --time-limit is reached. To resume:\n  " + how_to_resume);
  if (!r.average_path.empty()) say("averaged weights: " + one_line(r.average_path));
  if (r.reason != TrainResult::stopped) {
    if (!json_) results_.put(r.model_path + "\n");
    return;
  }
  std::error_code unknown;  // a folder that was removed has no name
  say(fmt::format("stopped after step {}{}; everything is in {}. To resume, in the folder {}:\n  {}", r.step,
                  results_.lost() ? ": stdout cannot be written" : "", one_line(r.checkpoint),
                  one_line(std::filesystem::current_path(unknown).string()), how_to_resume));
  interrupt_->end_by_signal();
}

}  // namespace toy::cli
