#include "cli/train/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "cli/run/chat_template_option.h"
#include "toy/base/error.h"

namespace toy::cli {
namespace {

// A number of the optimizer: its option is --name.
struct Number {
  std::string_view name;
  double OptimizerOptions::*field;
  const char* help;
  CLI::Validator accepts;
};
const std::vector<Number>& numbers() {
  static const std::vector<Number> list{
      {"weight-decay", &OptimizerOptions::weight_decay, "Weight decay of matrices", at_least(0)},
      {"beta1", &OptimizerOptions::beta1, "Decay of the first moment", from_to_below(0, 1)},
      {"beta2", &OptimizerOptions::beta2, "Decay of the second moment", from_to_below(0, 1)},
      {"eps", &OptimizerOptions::eps, "Epsilon of the denominator", above(0)},
      {"momentum", &OptimizerOptions::momentum, "Momentum", from_to_below(0, 1)},
      {"decay-rate", &OptimizerOptions::decay_rate, "Exponent R of the second moment's decay 1 - t^-R", above(0)},
      {"update-clip", &OptimizerOptions::update_clip, "Limit of an update's root mean square", above(0)},
      {"adamw-factor", &OptimizerOptions::adamw_factor, "Fraction of --lr for AdamW's tensors under muon", at_least(0)},
  };
  return list;
}

bool reads(const OptimizerInfo& optimizer, std::string_view option) {
  const auto& own = optimizer.options;
  return option == "lr" || option == "weight-decay" || std::find(own.begin(), own.end(), option) != own.end();
}

// "adamw 0.9, lion 0.9": the usual values of the optimizers that read the option.
template <class Value>
std::string usual(std::string_view option, const Value& value) {
  std::vector<std::string> list;
  for (const OptimizerInfo& info : optimizers())
    if (reads(info, option)) list.push_back(fmt::format("{} {:g}", info.name, value(OptimizerOptions::of(info.kind))));
  return fmt::format("{}", fmt::join(list, ", "));
}

// "90s", "10m", "1.5h" in seconds.
double seconds_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double scale = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  check(end != text.c_str() && scale > 0 && number > 0 && std::isfinite(number),
        "--time-limit is '{}'; use a positive number with s, m or h, such as 90s, 10m or 2h", text);
  return number * scale;
}

// "PATTERN=FACTOR", cut at the last '='.
std::pair<std::string, double> pattern_and_factor(const std::string& text) {
  const size_t at = text.rfind('=');
  check(at != std::string::npos && at > 0, "--lr-for is '{}'; use PATTERN=FACTOR, such as 'token_embd.*=0.1'", text);
  const char* begin = text.c_str() + at + 1;
  char* end = nullptr;
  const double factor = std::strtod(begin, &end);
  check(end != begin && *end == 0, "--lr-for is '{}'; use a number instead of '{}'", text, begin);
  return {text.substr(0, at), factor};
}

}  // namespace

namespace {

void add_example_options(CLI::App& app, DataOptions& data) {
  add_option(app, "--bad-rows", data.bad_rows, "What to do with rows of --data that cannot be used",
             one_of({"fail", "skip"}));
  add_option(app, "--map", data.map, "Fields of --data with other names, such as prompt=question,completion=reply");
  add_chat_template(app, data.chat_template, "Chat template of --data");
}

}  // namespace

void add_data_options(CLI::App& app, DataOptions& data) {
  begin_group(app, "Data");
  CLI::Option* corpus =
      add_option(app, "--corpus", data.corpus, "Text file or folder to train on; - reads standard input", file_name());
  add_option(app, "--data", data.examples, "JSON Lines file of examples to train on", file_name())->excludes(corpus);
  add_option(app, "--corpus-weight", data.weights, "Share of each --corpus or --data, such as 3 and 1 for 75/25",
             at_least(0));
  add_option(app, "--train-on", data.train_on, "Targets of --data that count in the loss",
             one_of({"assistant", "all"}));
  add_example_options(app, data);
  CLI::Option* texts = add_option(app, "--val", data.validation,
                                  "Text file or folder to validate on (default: the end of each corpus)", file_name());
  add_option(app, "--val-fraction", data.validation_fraction, "Fraction of each corpus to validate on",
             from_to_below(0, 1))
      ->excludes(texts);
  add_option(app, "--documents", data.documents, "How texts split: none, files, blank-lines or separator:TEXT",
             suggested({"none", "files", "blank-lines", "separator:"}));
  app.add_flag("--pack", data.pack, "Fill rows with complete documents that do not see each other");
  app.add_flag("--binary", data.binary, "Also train on binary files, which have NUL bytes");
  add_option(app, "--data-cache", data.cache, "Folder for tokenized text, or none (default: ~/.cache/toy above 64 MiB)",
             folder_name());
}

void add_preference_data_options(CLI::App& app, DataOptions& data) {
  begin_group(app, "Data");
  add_option(app, "--data", data.examples, "JSON Lines file of chosen and rejected answers", file_name())->required();
  add_option(app, "--corpus-weight", data.weights, "Share of each --data, such as 3 and 1 for 75/25", at_least(0));
  add_example_options(app, data);
  CLI::Option* rows = add_option(app, "--val", data.validation,
                                 "JSON Lines file to validate on (default: the end of --data)", file_name());
  add_option(app, "--val-fraction", data.validation_fraction, "Fraction of the rows to validate on",
             from_to_below(0, 1))
      ->excludes(rows);
}

void OptimizerChoice::add(CLI::App& app, RecipeOptions& o, double lr_part, bool decays) {
  lr_part_ = lr_part, decays_ = decays;
  OptimizerOptions& a = o.trainer.optimizer;
  add_optimizer_option(app, optimizer_);
  const std::string rates = usual("lr", [&](const auto& u) { return u.usual_lr() * lr_part; });
  add_option(app, "--lr", lr_, fmt::format("Peak learning rate (default: {})", rates), above(0));
  numbers_.resize(numbers().size());
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const Number& n = numbers()[i];
    const bool no_decay = !decays && n.field == &OptimizerOptions::weight_decay;
    const std::string values = no_decay ? "0" : usual(n.name, [&](const auto& u) { return u.*n.field; });
    add_option(app, fmt::format("--{}", n.name), numbers_[i], fmt::format("{} (default: {})", n.help, values),
               n.accepts);
  }
  app.add_flag("--nesterov,!--no-nesterov", nesterov_, "Use Nesterov momentum with sgd or muon (default: muon)");
  app.add_flag("--relative-step", relative_step_, "Let adafactor scale its steps by the weights (--lr is then 0.01)");
  add_option(app, "--muon-scale", muon_scale_, "Scale of muon's updates; match-rms takes AdamW's step size",
             one_of({"original", "match-rms"}));
  add_option(app, "--clip", a.clip, "Limit of the gradients' global norm; 0 turns clipping off", at_least(0));
  add_option(app, "--dropout", o.trainer.dropout, "Dropout rate of embedding, attention and feed-forward outputs",
             from_to_below(0, 1));
  add_option(app, "--lr-for", lr_for_, "Learning rate factor of matching tensors, such as 'blk.0.*=0.5'")
      ->option_text("PATTERN=FACTOR");
  add_option(app, "--lr-decay", lr_decay_, "Learning rate factor from each layer to the one below it", above(0));
  add_option(app, "--no-decay", no_decay_, "Exclude matching tensors from weight decay")->option_text("PATTERN");
  add_option(app, "--ema", ema_, "Decay of averaged weights, such as 0.999, for model-ema.gguf; 0 turns them off",
             from_to_below(0, 1));
  begin_group(app, "Schedule");
  add_option(app, "--schedule", schedule_, "Learning rate after the warmup: constant, linear, cosine or wsd",
             one_of({"constant", "linear", "cosine", "wsd"}));
  add_option(app, "--warmup", o.warmup, "Steps of linear warmup; -1 takes 5% of --steps, at most 200", at_least(-1));
  add_option(app, "--decay-steps", o.decay_steps, "Final steps in which wsd lowers the rate; -1 takes 20% of --steps",
             at_least(-1));
  add_option(app, "--final-lr", o.final_lr, "Final learning rate as a fraction of the peak", from_to(0, 1));
  add_option(app, "--max-skipped", o.max_skipped, "Abort after N consecutive steps with a non-finite gradient",
             at_least(1));
  add_option(app, "--patience", o.patience, "Stop after N validations without improvement; 0 never stops", at_least(0));
  add_option(app, "--min-delta", o.min_delta, "Improvement in nats per token that --patience counts", at_least(0));
  add_option(app, "--time-limit", time_limit_, "Stop and save after this time, such as 90s, 10m or 2h")
      ->option_text("TIME");
}

// An option that the chosen optimizer or schedule does not read would change nothing.
void OptimizerChoice::refuse_unread(const CLI::App& app) const {
  const auto given = [&](std::string_view option) { return app.count(fmt::format("--{}", option)) > 0; };
  const OptimizerInfo& mine = optimizer_of(optimizer_);
  for (const OptimizerInfo& other : optimizers())
    for (const std::string_view option : other.options) {
      if (!given(option) || reads(mine, option)) continue;
      std::vector<std::string_view> readers;
      for (const OptimizerInfo& info : optimizers())
        if (reads(info, option)) readers.push_back(info.name);
      fail("--{} belongs to the optimizer {}, and --optimizer is {}; remove one of them", option,
           fmt::join(readers, " or "), optimizer_);
    }
  check(schedule_ == "wsd" || !given("decay-steps"),
        "--decay-steps belongs to --schedule wsd, which is {}; remove one of them", schedule_);
  check(schedule_ != "constant" || !given("final-lr"),
        "--final-lr changes nothing with --schedule constant; remove one of them");
  check(given("patience") || !given("min-delta"), "--min-delta needs early stopping; add --patience");
}

void OptimizerChoice::apply(const CLI::App& app, RecipeOptions& o) const {
  const OptimizerInfo& info = optimizer_of(optimizer_);
  o.schedule = schedule_of(schedule_);
  refuse_unread(app);
  OptimizerOptions a = OptimizerOptions::of(info.kind);
  a.clip = o.trainer.optimizer.clip;
  if (muon_scale_ == "match-rms") a.muon_scale = OptimizerOptions::match_rms, a.adamw_factor = 1;
  a.relative_step = relative_step_;
  if (app.count("--nesterov") > 0) a.nesterov = nesterov_;
  if (!decays_) a.weight_decay = 0;
  for (size_t i = 0; i < numbers().size(); ++i)
    if (numbers_[i]) a.*numbers()[i].field = *numbers_[i];
  if (a.momentum == 0 && app.count("--nesterov") == 0) a.nesterov = false;
  a.ema = ema_;
  a.no_decay = no_decay_;
  a.lr_decay = lr_decay_;
  for (const std::string& text : lr_for_) a.lr_for.push_back(pattern_and_factor(text));
  o.trainer.optimizer = a;
  o.lr = lr_.value_or(a.usual_lr() * lr_part_);
  if (app.count("--time-limit") > 0) o.time_limit = seconds_of(time_limit_);
}

nlohmann::ordered_json OptimizerChoice::effective(const RecipeOptions& o) const {
  const OptimizerOptions& a = o.trainer.optimizer;
  const OptimizerInfo& mine = optimizer_of(optimizer_);
  RecipeOptions known = o;
  if (o.epochs > 0) known.steps = std::numeric_limits<int32_t>::max();  // until the rows say how many
  const Schedule rates = known.rates();
  nlohmann::ordered_json j{{"lr", o.lr}, {"warmup", rates.warmup}, {"decay-steps", nullptr}, {"nesterov", nullptr}};
  for (const Number& n : numbers()) {
    nlohmann::ordered_json& value = j[std::string(n.name)];
    if (reads(mine, n.name)) value = a.*n.field;
  }
  if (o.schedule == Schedule::wsd) j["decay-steps"] = rates.decay;
  if (reads(mine, "nesterov")) j["nesterov"] = a.nesterov;
  return j;
}

}  // namespace toy::cli
