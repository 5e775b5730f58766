// What all recipes of toy train take, and what they refuse.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

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
#include "toy/base/folder_lock.h"
#include "toy/models/save_as.h"
#include "toy/runs/log.h"
#include "toy/train/fine_tune.h"
#include "toy/train/from_scratch.h"
#include "toy/train/warm_start.h"

namespace toy::cli {

inline constexpr std::string_view kModel = "model.gguf", kSecondName = "weights/latest.gguf", kConfig = "config.json",
                                  kCheckpoints = "checkpoints", kPreviousLog = "events.previous.jsonl", kPeft = "peft";
// The files that a run writes next to its checkpoints.
inline constexpr std::string_view kFiles[] = {
    kModel,      kSecondName,       "model-ema.gguf", "adapter.gguf",  "adapter-ema.gguf", kConfig,
    "flow.json", runs::kEventsFile, kPreviousLog,     "finished.json", kLockFile};

/// The last event of a run that is complete; "" where its log is lost.
std::string end_of_log(const std::string& out);
/// Whether a run has written into this folder. One that was killed at its very start leaves an empty log, and no model.
bool is_of_a_run(const std::filesystem::path& out);
/// Whether `path` is `folder`, or lies in it.
bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder);
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
    add_option(app, "--batch", o.trainer.batch, "Sequences per step", at_least(1));
    add_option(app, "--tokens", o.trainer.tokens,
               preferences ? "Tokens per sequence" : "Tokens per sequence; by default what rows of --data take",
               at_least(1));
    add_option(app, "--accumulate", o.trainer.accumulate, "Batches per step whose gradients are summed", at_least(1));
    begin_group(app, "Schedule");
    CLI::Option* steps =
        add_option(app, "--steps", o.steps, "Optimizer steps; by default 3 epochs of --data", at_least(1));
    add_option(app, "--epochs", epochs, "Instead of --steps: how often each row is learned", above(0))->excludes(steps);
    optimizer.add(app, o, lr_part, decays);
    add_option(app, "--eval-every", o.eval_every, "Steps between validations; 0 validates only at the end",
               at_least(0));
    add_option(app, "--eval-tokens", o.eval_tokens, "Validation tokens to read per validation; 0 reads all",
               at_least(0));
    begin_group(app, "Output");
    add_option(app, "--out", o.out, "Folder for the model and the run; may contain {arch}, {date}, {time} and {seq}",
               folder_name());
    add_option(app, "--sample", o.sample_tokens, "Tokens to generate as a sample at each validation", at_least(0));
    add_option(app, "--dtype", stored,
               adapts ? "Type of the matrices in the file" : "Type of the matrices in the file, as of `toy quantize`",
               adapts ? one_of({"f32", "f16", "bf16"}) : suggested(stored_names()));
    app.add_flag("--json", json, "Print the run's events as JSON Lines");
    begin_group(app, "Checkpoints");
    add_option(app, "--checkpoint-every", o.checkpoint_every,
               "Steps between checkpoints; 0 saves only when interrupted", at_least(0));
    add_option(app, "--keep", o.keep, "Recent checkpoints to keep, besides the best", at_least(1));
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
    const std::map<std::string, std::string> fields{
        {"arch", o.out.find("{arch}") == std::string::npos ? "" : architecture_of(o)}, {"recipe", app.get_name()}};
    const std::string pattern = o.out;
    o.out = OutFolder::settled(pattern, fields);  // where a run that goes on is already
    o.trainer.compute = compute_of(o, *dev);
    o.trainer.updates = updates_of(update);
    o.watch = run_options.watch();
    o.memory = memory.bytes();
    Results results;
    refuse_losses(o);
    refuse_tensorboard_at_files(o.out);
    if (dry_run || explain) {
      Reporter reporter(results, json, log_every);
      return reporter.estimated(estimate(o, *dev, reporter), explain);
    }
    for (const char* fresh : {"{seq}", "{time}"})
      check(!o.resume || o.out.find(fresh) == std::string::npos,
            "resume: --out is '{}', and {} names a new folder each time; give the folder of the run to resume", o.out,
            fresh);
    const OutFolder folder(o.out, fields);
    o.out = folder.path();
    nlohmann::ordered_json config = options_json(app);
    if (o.epochs > 0) config["steps"] = nullptr;  // the rows decide
    if (o.fit_tokens) config["tokens"] = nullptr;
    for (const char* of_the_process : {"resume", "allow-changes"}) config.erase(of_the_process);
    const std::filesystem::path where = std::filesystem::weakly_canonical(o.out);
    o.record = {.run_id = (where.has_filename() ? where : where.parent_path()).filename().string(),
                .config = config,
                .effective = optimizer.effective(o)};
    const auto open = [&](const ModelSpec& spec, bool resumed) {
      return open_log(o.out, config, spec, o.trainer, run_options.tensorboard, json ? &results : nullptr, resumed);
    };
    Reporter reporter(results, json, log_every, open);
    reporter.on_settled = [&](int64_t steps, int64_t tokens) { o.steps = steps, o.trainer.tokens = tokens; };
    const TrainResult result = train(o, *dev, reporter);
    if (result.was_complete) tell_of_no_effect(o.out, config);
    reporter.done(result, how_to_resume(app, o.out));
    if (json && result.was_complete) results.put(end_of_log(o.out));
  }

  // A choice that was measured stays what it was: the run would not be the same.
  DType compute_of(const RecipeOptions& o, Device& dev) const {
    if (o.resume && compute.compute == "auto")
      if (const std::optional<DType> before = checkpoint_compute(o.out)) return *before;
    return compute.choose(dev);
  }

  // A run must not write over what it reads, nor over what no run wrote. (A model that --init reads may be replaced by
  // its successor: see the footer.)
  template <class Options>
  static void refuse_losses(const Options& o) {
    const std::filesystem::path out(o.out);
    const auto there = [&](std::string_view name) { return std::filesystem::exists(out / name); };
    const bool of_a_run = is_of_a_run(out);
    for (const char* name : {"adapter_config.json", "adapter_model.safetensors", "chat_template.jinja"})
      check(of_a_run || !std::filesystem::exists(out / kPeft / name),
            "out: '{}' exists without a run ({}) that wrote it, and would be lost; choose another folder",
            (out / kPeft / name).string(), runs::kEventsFile);
    for (const std::string_view name : kFiles) {
      const std::string file = (out / name).string();
      check(!std::filesystem::is_directory(file), "out: '{}' is a folder; the run writes a file of this name", file);
      refuse_overwriting_texts(file, o.data);
      bool is_init = false;
      if constexpr (requires { o.size; }) refuse_overwriting("out", file, {{"--size", o.size}});
      if constexpr (requires { o.init; }) {
        const char* base = "--init";
        if constexpr (requires { o.roles; }) base = "--model";
        if constexpr (requires { o.copy_blocks; }) base = "--donor";
        std::error_code not_there;
        // The second name is replaced, not written to: a file that it shares stays as it is under its other names.
        const bool by_this_name = name != kSecondName || std::filesystem::canonical(file, not_there) ==
                                                             std::filesystem::canonical(o.init, not_there);
        is_init = (name == kModel || name == kSecondName) && std::filesystem::equivalent(file, o.init, not_there) &&
                  (!by_this_name || std::filesystem::equivalent(out / kModel, o.init, not_there));
        // Resuming needs the base of a fine-tune and the donor, so these are never replaced.
        if (!is_init || base != std::string_view("--init")) refuse_overwriting("out", file, {{base, o.init}});
      }
      check(of_a_run || is_init || name == kLockFile || !there(name),
            "out: '{}' exists without a run ({}) that wrote it, and would be lost; choose another folder", file,
            runs::kEventsFile);
    }
  }

  // TensorBoard's folder would take the place of a file that the run writes later.
  void refuse_tensorboard_at_files(const std::filesystem::path& out) const {
    std::vector<std::filesystem::path> taken{out / kCheckpoints};
    for (const std::string_view name : kFiles) taken.push_back(out / name);
    for (const std::filesystem::path& path : taken)
      check(run_options.tensorboard.empty() || !is_below(run_options.tensorboard, path),
            "tensorboard: '{}' is where the run writes {}; choose another folder", run_options.tensorboard,
            path.string());
  }

  static std::string architecture_of(const FromScratchOptions& o) {
    constexpr int64_t kAnyVocabulary = 256;  // the tokenizer decides later
    ModelSpec spec = model_spec(o.size, kAnyVocabulary);
    if (!o.layers.empty()) set_layers(spec, o.layers);
    return spec.architecture;
  }
  static std::string architecture_of(const GrowOptions& o) { return model_spec(o.size, 1).architecture; }
  static std::string architecture_of(const WarmStartOptions& o) {
    return spec_from_gguf(gguf::File::open(o.init)).architecture;
  }
};

/// full-finetune, lora and dpo.
void add_fine_tunes(CLI::App& train);

}  // namespace toy::cli
