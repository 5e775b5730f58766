#include "cli/optimizer_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "toy/base/error.h"

namespace toy::cli {
namespace {

// A number of the optimizer: its option is --name.
struct Number {
  std::string_view name;
  double OptimizerOptions::*field;
  const char* help;
};
constexpr Number kNumbers[] = {
    {"weight-decay", &OptimizerOptions::weight_decay,
     "decay of the weights, on matrices only; sgd adds it to the gradient, the others take lr times it of a weight"},
    {"beta1", &OptimizerOptions::beta1, "decay of the first moment, 0 to below 1"},
    {"beta2", &OptimizerOptions::beta2, "decay of the second moment (lion: of the moment), 0 to below 1"},
    {"eps", &OptimizerOptions::eps, "added to the root of the second moment (adafactor: its smallest value)"},
    {"momentum", &OptimizerOptions::momentum, "0 (none) to below 1"},
    {"decay-rate", &OptimizerOptions::decay_rate, "the second moment's decay is 1 - t^-R at step t"},
    {"update-clip", &OptimizerOptions::update_clip, "limit of an update's root mean square"},
    {"adamw-factor", &OptimizerOptions::adamw_factor,
     "learning rate of embedding, output, norms and biases, which AdamW updates, as a part of --lr"},
};

// "adamw 0.9, lion 0.9": the usual values of the optimizers that read the option.
template <class Value>
std::string usual(std::string_view option, const Value& value) {
  std::vector<std::string> list;
  for (const OptimizerInfo& info : optimizers()) {
    const bool all = option == "lr" || option == "weight-decay";
    if (all || std::find(info.options.begin(), info.options.end(), option) != info.options.end())
      list.push_back(fmt::format("{} {:g}", info.name, value(OptimizerOptions::of(info.kind))));
  }
  return fmt::format("{}", fmt::join(list, ", "));
}

// "90s", "10m", "1.5h" in seconds.
double seconds_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double scale = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  check(end != text.c_str() && scale > 0 && number > 0 && std::isfinite(number),
        "time-limit is '{}', expected a positive number and s, m or h, like 90s, 10m or 2h", text);
  return number * scale;
}

// "PATTERN=FACTOR", cut at the last '='.
std::pair<std::string, double> pattern_and_factor(const std::string& text) {
  const size_t at = text.rfind('=');
  check(at != std::string::npos && at > 0, "lr-for is '{}', expected PATTERN=FACTOR, like 'token_embd.*=0.1'", text);
  const char* begin = text.c_str() + at + 1;
  char* end = nullptr;
  const double factor = std::strtod(begin, &end);
  check(end != begin && *end == 0, "lr-for is '{}': '{}' is not a number", text, begin);
  return {text.substr(0, at), factor};
}

}  // namespace

void OptimizerChoice::add(CLI::App& app, RecipeOptions& o, double lr_part) {
  lr_part_ = lr_part;
  OptimizerOptions& a = o.trainer.optimizer;
  CLI::Option* name = add_optimizer_option(app, optimizer_);
  name->description(name->get_description() + "; docs/training.md says which is for what");
  app.add_option("--lr", lr_, fmt::format("peak learning rate (default: {})", usual("lr", [&](const auto& u) {
                                            return u.usual_lr() * lr_part;
                                          })));
  numbers_.assign(std::size(kNumbers), std::nullopt);
  for (size_t i = 0; i < std::size(kNumbers); ++i) {
    const Number& n = kNumbers[i];
    app.add_option(fmt::format("--{}", n.name), numbers_[i],
                   fmt::format("{} (default: {})", n.help, usual(n.name, [&](const auto& u) { return u.*n.field; })));
  }
  app.add_flag("--nesterov,!--no-nesterov", nesterov_,
               "of sgd and muon: step along gradient + momentum * velocity (default: muon)");
  app.add_flag(
      "--relative-step", relative_step_,
      "of adafactor: steps of min(lr, 1/sqrt(t)) times the root mean square of the weights; --lr is then 0.01");
  app.add_option("--muon-scale", muon_scale_,
                 "of muon, on a matrix [R,C]. original: sqrt(max(1, R/C)) (Jordan); match-rms: 0.2 sqrt(max(R, C)) "
                 "(Moonlight), steps as large as AdamW's: --lr is then 0.001 and --adamw-factor 1")
      ->capture_default_str();
  app.add_option("--clip", a.clip, "limit of the gradients' global norm; 0: none")->capture_default_str();
  app.add_option("--dropout", o.trainer.dropout,
                 "part of the outputs of embedding, attention and ffn that each step zeroes, 0 to below 1")
      ->capture_default_str();
  add_groups(app);
  add_schedule(app, o);
}

void OptimizerChoice::add_groups(CLI::App& app) {
  app.add_option("--lr-for", lr_for_,
                 "PATTERN=FACTOR: tensors whose name fits the glob have FACTOR times the learning rate; may be given "
                 "several times, the last one that fits counts. --lr-for 'blk.0.*=0.5'")
      ->allow_extra_args(false);
  app.add_option("--no-decay", no_decay_, "PATTERN: tensors without weight decay; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--ema", ema_,
                 "keep an exponential average of the weights with this decay, like 0.999; it is validated too, and "
                 "saved as model-ema.gguf. 0: none")
      ->capture_default_str();
}

void OptimizerChoice::add_schedule(CLI::App& app, RecipeOptions& o) {
  app.add_option("--schedule", schedule_,
                 "of the learning rate behind the warmup: constant, linear, cosine, or wsd (constant, then a line down "
                 "over the last --decay-steps)")
      ->capture_default_str();
  app.add_option("--warmup", o.warmup, "steps of linear warmup; -1: a twentieth of all, at most 200")
      ->capture_default_str();
  app.add_option("--decay-steps", o.decay_steps, "of wsd: the last steps, in which the rate falls; -1: a fifth of all")
      ->capture_default_str();
  app.add_option("--final-lr", o.final_lr, "last learning rate as a fraction of the peak")->capture_default_str();
  app.add_option("--max-skipped", o.max_skipped,
                 "a step whose gradient is not finite changes nothing; so many in a row end the run with exit code 1")
      ->capture_default_str();
  app.add_option("--patience", o.patience,
                 "stop when so many validations in a row (--eval-every) were no better than the best; 0: never")
      ->capture_default_str();
  app.add_option("--min-delta", o.min_delta, "of --patience: nats a token that count as better")->capture_default_str();
  app.add_option("--time-limit", time_limit_,
                 "stop after the step in which this time has passed, and save as always: 90s, 10m, 2h. The schedule "
                 "does not know of it");
}

// An option that the chosen optimizer or schedule does not read would change nothing.
void OptimizerChoice::refuse_unread(const CLI::App& app) const {
  const auto given = [&](std::string_view option) { return app.count(fmt::format("--{}", option)) > 0; };
  const OptimizerInfo& mine = optimizer_of(optimizer_);
  for (const OptimizerInfo& other : optimizers())
    for (const std::string_view option : other.options) {
      if (!given(option) || std::find(mine.options.begin(), mine.options.end(), option) != mine.options.end()) continue;
      std::vector<std::string_view> readers;
      for (const OptimizerInfo& info : optimizers())
        if (std::find(info.options.begin(), info.options.end(), option) != info.options.end())
          readers.push_back(info.name);
      fail("--{} is an option of the optimizer {}, this is {}", option, fmt::join(readers, ", "), optimizer_);
    }
  check(schedule_ == "wsd" || !given("decay-steps"), "--decay-steps is an option of the schedule wsd, this is {}",
        schedule_);
  check(schedule_ != "constant" || !given("final-lr"),
        "--final-lr is an option of the schedules linear, cosine and wsd, this is constant");
  check(given("patience") || !given("min-delta"), "--min-delta is an option of early stopping; give --patience too");
}

void OptimizerChoice::apply(const CLI::App& app, RecipeOptions& o) const {
  const OptimizerInfo& info = optimizer_of(optimizer_);
  o.schedule = schedule_of(schedule_);
  refuse_unread(app);
  check(muon_scale_ == "original" || muon_scale_ == "match-rms", "muon-scale '{}' is not one of original, match-rms",
        muon_scale_);
  OptimizerOptions a = OptimizerOptions::of(info.kind);
  a.clip = o.trainer.optimizer.clip;
  if (muon_scale_ == "match-rms") a.muon_scale = OptimizerOptions::match_rms, a.adamw_factor = 1;
  a.relative_step = relative_step_;
  if (app.count("--nesterov") > 0) a.nesterov = nesterov_;
  for (size_t i = 0; i < std::size(kNumbers); ++i)
    if (numbers_[i]) a.*kNumbers[i].field = *numbers_[i];
  if (a.momentum == 0 && app.count("--nesterov") == 0) a.nesterov = false;
  a.ema = ema_;
  a.no_decay = no_decay_;
  for (const std::string& text : lr_for_) a.lr_for.push_back(pattern_and_factor(text));
  o.trainer.optimizer = a;
  o.lr = lr_.value_or(a.usual_lr() * lr_part_);
  if (app.count("--time-limit") > 0) o.time_limit = seconds_of(time_limit_);
}

nlohmann::ordered_json OptimizerChoice::effective(const RecipeOptions& o) const {
  const OptimizerOptions& a = o.trainer.optimizer;
  const std::vector<std::string_view>& mine = optimizer_of(optimizer_).options;
  const auto reads = [&](std::string_view name) { return std::find(mine.begin(), mine.end(), name) != mine.end(); };
  const Schedule rates = o.rates();
  nlohmann::ordered_json j{{"lr", o.lr}, {"warmup", rates.warmup}, {"decay-steps", nullptr}, {"nesterov", nullptr}};
  for (const Number& n : kNumbers) {
    if (n.name == "weight-decay" || reads(n.name))
      j[std::string(n.name)] = a.*n.field;
    else
      j[std::string(n.name)] = nullptr;
  }
  if (o.schedule == Schedule::wsd) j["decay-steps"] = rates.decay;
  if (reads("nesterov")) j["nesterov"] = a.nesterov;
  return j;
}

}  // namespace toy::cli
