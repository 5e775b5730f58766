#include "cli/train/reporter.h"

#include <fmt/format.h>

#include <unistd.h>
#include <cmath>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/main.h"
#include "cli/train/run_files.h"
#include "toy/base/clock.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/memory.h"
#include "toy/base/utf8.h"
#include "toy/train/epochs_text.h"

namespace toy::cli {
namespace {

void say(const std::string& text) { to_stderr(text + "\n"); }

// " margin=0.1234 accuracy=0.750", or "" where there are none.
std::string to_text(const runs::Rewards& r) {
  std::string text;
  if (r.margin) text += fmt::format(" margin={:.4f}", *r.margin);
  if (r.accuracy) text += fmt::format(" accuracy={:.3f}", *r.accuracy);
  return text;
}

// " reward=0.4400 mixed=0.29 length=8.1 entropy=0.310", or "".
std::string to_text(const runs::Policy& p) {
  if (!p.mixed) return "";
  std::string text = fmt::format(" reward={} mixed={:.2f} length={:.1f} entropy={:.3f}",
                                 p.reward ? fmt::format("{:.4f}", *p.reward) : "none", *p.mixed, p.length.value_or(0),
                                 p.entropy.value_or(0));
  return p.kl ? text + fmt::format(" kl={:.4f}", *p.kl) : text;
}

// "training toy (0.22 M parameters) from scratch on book.txt: 1000 steps, 1.19 epochs of 6750 rows"
std::string to_text(const runs::RunStart& s) {
  const auto model = parse_json<nlohmann::json>(s.model.text).at("name").get<std::string>();
  const double all = double(s.parameters) * 1e-6, trained = double(s.trained.value_or(s.parameters)) * 1e-6;
  std::string what = fmt::format("{} ({:.2f} M parameters)", model, all);
  if ((s.recipe == "lora" || s.recipe == "dpo" || s.recipe == "grpo" || s.recipe == "contrastive" ||
       s.recipe == "classify") &&
      trained < all)
    what = fmt::format("an adapter ({:.2f} M parameters) of {} ({:.2f} M)", trained, s.base.value_or(model), all);
  else if (s.recipe == "from-scratch")
    what += " from scratch";
  else if (trained < all)
    what = fmt::format("{:.2f} M of the {:.2f} M parameters of {}", trained, all, s.base.value_or(model));
  return fmt::format("training {} on {}: {}, {} epochs of {}{}", what, s.data.value_or("a text"),
                     counted(s.steps, "step"), epochs_text(s.epochs.value_or(0)), counted(s.windows_per_epoch, "row"),
                     s.ranks ? fmt::format(", {} ranks", *s.ranks) : "");
}

}  // namespace

Reporter::Reporter(Results& results, bool json, std::optional<int64_t> log_every, bool launched)
    : results_(results),
      json_(json),
      launched_(launched),
      log_every_(json ? 0 : log_every.value_or(progress_.on_terminal() && is_terminal(STDOUT_FILENO) ? 0 : 1)) {}

void Reporter::preparing(const std::string& what) { progress_.waiting(one_line(what)); }

bool Reporter::stop() { return results_.lost() || (interrupt_ && interrupt_->signal() != 0); }

void Reporter::event(const runs::Event& e) {
  if (const auto* start = e.as<runs::RunStart>()) {
    steps_ = start->steps;
    clear_status();
    say(one_line(to_text(*start)));
    say(fmt::format("{} training tokens, {} validation tokens, {} of memory planned", start->train_tokens,
                    start->validation_tokens, format_bytes(size_t(start->planned_bytes))));
    if (!at_start_.empty()) say(at_start_);
    interrupt_.emplace();  // before the first step there is nothing to save, and a signal ends the program at once
  } else if (e.as<runs::Resume>()) {
    say(fmt::format("resumed after step {}", *e.step));
  } else if (const auto* note = e.as<runs::Note>()) {
    say((note->warning ? "toy: " : "") + one_line(note->text));
  } else if (const auto* checkpoint = e.as<runs::Checkpoint>()) {
    say("checkpoint: " + one_line(checkpoint->path));
  } else if (const auto* step = e.as<runs::Step>()) {
    step_ = *e.step;
    show(*step, !last_ || step_ == steps_);
  } else if (const auto* v = e.as<runs::Eval>()) {
    clear_status();
    const std::string part = v->whole ? "" : " (on part of the text)", rewards = to_text(v->rewards);
    if (v->reward)
      say(fmt::format("step {}: validation reward {:.4f} +- {:.4f}{}", *e.step, *v->reward, v->reward_error.value_or(0),
                      v->whole ? "" : " (of a part of the questions)"));
    else if (v->top1)
      say(fmt::format("step {}: validation loss {:.4f} nats, top-1 {:.2f}% +- {:.2f}%{}{}", *e.step, v->loss,
                      100 * *v->top1, 100 * v->top1_error.value_or(0),
                      v->top5 ? fmt::format(", top-5 {:.2f}%", 100 * *v->top5) : "",
                      v->whole ? "" : " (of a part of the validation)"));
    else if (rewards.empty() && std::isfinite(v->nats_per_byte))
      say(fmt::format("step {}: validation loss {:.4f} nats per token, {:.4f} nats per byte{}", *e.step, v->loss,
                      v->nats_per_byte, part));
    else
      say(fmt::format("step {}: validation loss {:.4f}{}{}{}", *e.step, v->loss, rewards.empty() ? "" : ",", rewards,
                      part));
    if (v->average_loss)
      say(fmt::format("averaged weights: {:.4f}{}", *v->average_loss,
                      v->top1 ? " nats" : (rewards.empty() ? " nats per token" : "")));
    if (last_ && progress_.on_terminal()) show_progress(true);
  } else if (const auto* sample = e.as<runs::Sample>()) {
    if (sample->prompt) say("prompt: " + printable(*sample->prompt));
    say("sample: " + printable(sample->text) + (sample->wanted ? "" : "\n"));
    if (sample->wanted) say("wanted: " + printable(*sample->wanted) + "\n");
  } else if (const auto* end = e.as<runs::RunEnd>(); end && !end->error) {
    if (last_ && !last_is_printed_ && log_every_ > 0) print_loss();
    if (end->model && !json_) results_.put(*end->model + "\n");
  }
}

void Reporter::show(const runs::Step& s, bool at_once) {
  if (!first_loss_) first_loss_ = s.loss;
  last_ = s;
  last_is_printed_ = false;
  if (log_every_ > 0 && (at_once || step_ % log_every_ == 0)) print_loss();
  if (s.skipped)
    say(fmt::format("step {}: the {} is not finite; the step was skipped", step_, s.grad_norm ? "gradient" : "loss"));
  show_progress(at_once);
}

void Reporter::print_loss() {
  results_.put(
      fmt::format("step {}: loss={:.6f}{}\n", step_, last_->loss, to_text(last_->rewards) + to_text(last_->policy)));
  last_is_printed_ = true;
}

void Reporter::show_progress(bool at_once, bool with_time) {
  at_once &= progress_.on_terminal() || log_every_ == 0;  // else the loss of this step stands above it
  progress_.show({.label = "step",
                  .brief = "",
                  .done = step_,
                  .total = steps_,
                  .loss = last_->policy.reward.value_or(last_->loss),
                  .figure = last_->policy.reward ? "reward" : "loss",
                  .tokens_per_second = last_->tokens_per_second,
                  .seconds_left = with_time ? last_->seconds_left : std::nullopt},
                 at_once);
}

void Reporter::validating(int64_t batch, int64_t batches) {
  if (batch == 0) validation_began_ = steady_seconds();
  ProgressState s{.label = "validation", .brief = "val", .done = batch, .total = batches};
  if (batch > 0) s.seconds_left = (steady_seconds() - validation_began_) / double(batch) * double(batches - batch);
  progress_.show(s);
}

void Reporter::estimated(const RunEstimate& e, bool with_roles) {
  clear_status();
  if (with_roles && !json_) put_line(to_text(e.roles));
  if (!json_) return put_line(to_text(e));
  nlohmann::ordered_json j = to_json(e);
  if (with_roles) j["roles"] = to_json(e.roles);
  put_line(json_text(j) + "\n");
}

void Reporter::done(const TrainResult& r, const std::string& how_to_resume, const std::string& how_to_try) {
  if (last_ && progress_.on_terminal()) {
    show_progress(true, false);
    keep_status();
  }
  if (r.reason == TrainResult::patience) say("stopped: the validation loss no longer improves");
  if (r.reason == TrainResult::time) say("stopped: --time-limit is reached. To resume:\n  " + how_to_resume);
  if (!r.average_path.empty()) say("averaged weights: " + one_line(r.average_path));
  if (r.was_complete && !json_) results_.put(r.model_path + "\n");
  for (const std::string& remark : r.remarks) say("toy: " + one_line(remark));
  if (!r.peft_path.empty()) say("for PEFT: " + one_line(r.peft_path));
  const bool is_ruined = last_ && !last_->policy.reward && !(last_->loss < 3 * *first_loss_ + 2);
  if (is_ruined)
    say(fmt::format("toy: the loss rose from {:.4g} to {:.4g}, so the model is worse than before; use a smaller --lr",
                    *first_loss_, last_->loss));
  if (!how_to_try.empty() && !is_ruined) say("to try it: " + one_line(how_to_try));
  if (r.reason != TrainResult::stopped) return;
  std::error_code unknown;  // a folder that was removed has no name
  say(fmt::format("stopped after step {}{}; everything is in {}. To resume, in the folder {}:\n  {}", r.step,
                  results_.lost() ? ": stdout cannot be written" : "", one_line(r.checkpoint),
                  one_line(std::filesystem::current_path(unknown).string()), how_to_resume));
  if (constexpr int kSignalled = 128; launched_ && interrupt_->signal() != 0)
    throw Exit{kSignalled + interrupt_->signal()};
  interrupt_->end_by_signal();
}

}  // namespace toy::cli
