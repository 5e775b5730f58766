// What all recipes of toy train take, and what they refuse.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/train/config.h"
#include "cli/train/reporter.h"
#include "cli/train/run_files.h"
#include "cli/train/train_options.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/models/save_as.h"
#include "toy/train/fine_tune.h"
#include "toy/train/from_scratch.h"
#include "toy/train/warm_start.h"

namespace toy::cli {

/// The last event of a run that is complete; "" where its log is lost.
std::string end_of_log(const std::string& out);
/// A complete run is not trained again: says which options of these, that ask for a look at it, are ignored. Those that
/// it had itself come again from its config.json.
void tell_of_no_effect(const std::string& out, const nlohmann::ordered_json& options);

/// What all recipes take.
struct Recipe {
  DeviceOptions device;
  ComputeOptions compute;
  RunOptions run_options;
  MemoryOption memory;
  std::optional<int64_t> log_every;
  std::optional<double> epochs;
  bool json = false, dry_run = false, explain = false;
  std::string stored = "f32", update = "gathered";
  OptimizerChoice optimizer;
  bool preferences = false;  // the data are rows of them
  bool adapts = false;       // the result is an adapter

  // `lr_part`, `decays`: see OptimizerChoice.
  void add(CLI::App& app, RecipeOptions& o, double lr_part = 1, bool decays = true) {
    add_config_option(app);
    preferences ? add_preference_data_options(app, o.data) : add_data_options(app, o.data);
    begin_group(app, "Batch");
    add_option(app, "--tokens", o.trainer.tokens,
               preferences ? "Tokens per sequence" : "Tokens per sequence; by default what rows of --data take",
               at_least(1));
    add_listed(app, o.trainer);
    add_listed(app, o, {"steps"});
    add_option(app, "--epochs", epochs, "Instead of --steps: how often each row is learned", above(0))
        ->excludes(app.get_option("--steps"));
    optimizer.add(app, o, lr_part, decays);
    begin_group(app, "Output");
    add_option(app, "--out", o.out, "Folder for the model and the run; may contain {arch}, {date}, {time} and {seq}",
               folder_name());
    add_listed(app, o);
    begin_group(app, "Output");
    add_option(app, "--dtype", stored,
               adapts ? "Type of the matrices in the file" : "Type of the matrices in the file, as of `toy quantize`",
               adapts ? one_of({"f32", "f16", "bf16"}) : suggested(stored_names()));
    app.add_flag("--json", json, "Print the run's events as JSON Lines");
    begin_group(app, "Checkpoints");
    app.add_flag("--resume", o.resume, "Resume from the newest checkpoint in --out");
    app.add_flag("--allow-changes", o.allow_changes, "With --resume, accept other options, texts or toy versions");
    add_check_finite(app, o.trainer.check_finite);
    begin_group(app, "Output");
    add_option(app, "--log-every", log_every,
               "Steps between lines on stdout without --json; 0 prints none (default: 1, or 0 on a terminal)",
               at_least(0));
    begin_group(app, "Debugging");
    app.add_flag("--dry-run", dry_run, "Print time and memory of the run, from a few real steps that change nothing");
    app.add_flag("--explain", explain, "Print which tensors are trained, and what --dry-run prints, without training");
    run_options.add(app);
    compute.add(app);
    add_update_option(app, update);
    memory.add(app);
    device.add(app);
  }

  // --help shows these, and `own` of the recipe.
  static void show_common(CLI::App& app, std::vector<const char*> own) {
    if (app.get_option_no_throw("--corpus")) own.push_back("--corpus");
    own.insert(
        own.end(),
        {"--config",    "--data",   "--val",      "--batch",      "--tokens",     "--steps",  "--epochs",
         "--optimizer", "--lr",     "--schedule", "--eval-every", "--out",        "--sample", "--checkpoint-every",
         "--resume",    "--memory", "--threads",  "--seed",       "--time-limit", "--dry-run"});
    show_in_help(app, own);
  }

  template <class Options, class Train, class Estimate>
  void run(const CLI::App& app, Options& o, const Train& train, const Estimate& estimate) const {
    if (epochs)
      o.epochs = *epochs;
    else if (!o.data.examples.empty() && app.count("--steps") == 0)
      o.epochs = 3;
    o.fit_tokens = !preferences && !o.data.examples.empty() && app.count("--tokens") == 0;
    optimizer.apply(app, o);
    const StoredAs as = parse_stored_as("--dtype", stored);
    o.stored = as.plain, o.mix = as.mix;
    const auto dev = device.make();
    // A choice that was measured stays what it was when the run is resumed: it would not be the same.
    if (compute.compute == "auto")
      o.choose_compute = [&] { return compute.choose(*dev); };
    else
      o.trainer.compute = compute.choose(*dev);
    o.trainer.updates = updates_of(update);
    o.tensorboard = run_options.tensorboard, o.watch = run_options.watch();
    o.memory = memory.bytes();
    Results results;
    Reporter reporter(results, json, log_every);
    if (dry_run || explain) return reporter.estimated(estimate(o, *dev, reporter), explain);
    nlohmann::ordered_json config = options_json(app);
    if (o.epochs > 0) config["steps"] = nullptr;  // the rows decide
    if (o.fit_tokens) config["tokens"] = nullptr;
    for (const char* of_the_process : {"resume", "allow-changes"}) config.erase(of_the_process);
    o.record = {.config = {json_text(config)}, .effective = {{json_text(optimizer.effective(o))}}};
    const TrainResult result = train(o, *dev, reporter);
    if (result.was_complete) tell_of_no_effect(result.out, config);
    reporter.done(result, how_to_resume(app, result.out));
    if (json && result.was_complete) results.put(end_of_log(result.out));
  }
};

/// full-finetune, lora and dpo.
void add_fine_tunes(CLI::App& train);

}  // namespace toy::cli
