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

// "adamw 0.001, lion 0.0001": the usual values of each.
template <class Value>
std::string usual(const Value& value) {
  std::vector<std::string> list;
  for (const auto& [name, kind] : NamesOf<OptimizerOptions::Kind>::list)
    list.push_back(fmt::format("{} {:g}", name, value(OptimizerOptions::of(kind))));
  return fmt::format("{}", fmt::join(list, ", "));
}

// An option of the list whose default the optimizer decides.
template <class Options>
void add_with_usual(CLI::App& app, Options& options, std::string_view name, std::optional<double>& value,
                    const std::string& usual) {
  Options::fields(options, [&](const Option& option, const auto&) {
    if (option.name == name)
      add_option(app, option.flag(), value, fmt::format("{} (default: {})", option.help, usual), option.limits);
  });
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
  add_optimizer_option(app, optimizer_);
  const std::string rates = usual([&](const auto&u) { return u.usual_lr() * lr_part; }),
                    decay = decays ? usual([](const auto&u) { return u.weight_decay; }) : "0";
  add_with_usual(app, o, "lr", lr_, rates);
  add_with_usual(app, shared_, "weight_decay", weight_decay_, decay);
  add_listed(app, shared_);
  begin_group(app, "Optimizer");
  add_option(app, "--lr-for", lr_for_, "Learning rate factor of matching tensors, such as 'blk.0.*=0.5'")
      ->option_text("PATTERN=FACTOR");
  app.get_option("--no-decay")->option_text("PATTERN");
  begin_group(app, "Schedule");
  std::vector<std::string> names;
  for (const auto& [name, kind] : NamesOf<Schedule::Kind>::list) names.emplace_back(name);
  add_option(app, "--schedule", schedule_,
             fmt::format("Learning rate after the warmup: {}, such as wsd(decay=200)", alternatives(names)),
             suggested(names));
  add_option(app, "--time-limit", time_limit_, "Stop and save after this time, such as 90s, 10m or 2h")
      ->option_text("TIME");
}

void OptimizerChoice::apply(const CLI::App& app, RecipeOptions& o) const {
  const auto given = [&](const char* option) { return app.count(option) > 0; };
  set_schedule(o, schedule_, "--schedule");
  check(o.schedule != Schedule::constant || !given("--final-lr"),
        "--final-lr changes nothing with --schedule constant; remove one of them");
  check(given("--patience") || !given("--min-delta"), "--min-delta needs early stopping; add --patience");
  OptimizerOptions a = parse_optimizer(optimizer_, "--optimizer");
  a.clip = shared_.clip, a.no_decay = shared_.no_decay, a.ema = shared_.ema, a.lr_decay = shared_.lr_decay;
  a.weight_decay = weight_decay_.value_or(decays_ ? a.weight_decay : 0);
  for (const std::string& text : lr_for_) a.lr_for.push_back(pattern_and_factor(text));
  o.trainer.optimizer = a;
  o.lr = lr_.value_or(a.usual_lr() * lr_part_);
  if (given("--time-limit")) o.time_limit = seconds_of(time_limit_);
}

nlohmann::ordered_json OptimizerChoice::effective(const RecipeOptions& o) {
  RecipeOptions known = o;
  if (o.epochs > 0) known.steps = std::numeric_limits<int32_t>::max();  // until the rows say how many
  return {{"optimizer", optimizer_text(o.trainer.optimizer)},
          {"lr", o.lr},
          {"weight-decay", o.trainer.optimizer.weight_decay},
          {"warmup", known.rates().warmup},
          {"schedule", schedule_text(known)}};
}

}  // namespace toy::cli
