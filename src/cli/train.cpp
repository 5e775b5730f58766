// toy train: recipes that make a model.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "cli/command.h"
#include "cli/config.h"
#include "cli/console.h"
#include "cli/data_options.h"
#include "cli/optimizer_options.h"
#include "cli/options.h"
#include "cli/reporter.h"
#include "cli/resume.h"
#include "cli/run_files.h"
#include "toy/base/error.h"
#include "toy/base/folder_lock.h"
#include "toy/base/json_text.h"
#include "toy/runs/log.h"
#include "toy/train/from_scratch.h"
#include "toy/train/warm_start.h"

namespace toy::cli {
namespace {

// The last event of a run that is complete; "" where its log is lost.
std::string end_of_log(const std::string& out) {
  const std::filesystem::path file = std::filesystem::path(out) / runs::kEventsFile;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  const runs::Log log = runs::read_events(file.string());
  for (auto e = log.events.rbegin(); e != log.events.rend(); ++e)
    if (e->as<runs::RunEnd>()) return runs::to_json_line(*e) + "\n";
  return {};
}

// What all recipes take.
struct Recipe {
  DeviceOptions device;
  ComputeOptions compute;
  RunOptions run_options;
  MemoryOption memory;
  std::optional<int64_t> log_every;
  bool json = false, dry_run = false;
  std::string stored = "f32", update = "gathered";
  OptimizerChoice optimizer;

  // `lr_part`: see OptimizerChoice.
  void add(CLI::App& app, RecipeOptions& o, double lr_part = 1) {
    add_config_option(app);
    add_data_options(app, o.data);
    app.add_option("--batch", o.trainer.batch, "B, sequences a step")->capture_default_str();
    app.add_option("--tokens", o.trainer.tokens, "T, tokens a sequence")->capture_default_str();
    app.add_option("--accumulate", o.trainer.accumulate,
                   "batches of --batch sequences a step: their gradients are summed, weighted by tokens, then there is "
                   "one update. As --batch times as large, in the memory of one")
        ->capture_default_str();
    app.add_option("--steps", o.steps, "optimizer steps")->capture_default_str();
    optimizer.add(app, o, lr_part);
    app.add_option("--eval-every", o.eval_every, "steps between validations; 0: only at the end")
        ->capture_default_str();
    app.add_option("--eval-tokens", o.eval_tokens,
                   "validation tokens to read; with --eval-every the last validation reads all of them, too. 0: all")
        ->capture_default_str();
    app.add_option("--sample", o.sample_tokens, "tokens of a sample written at each validation")->capture_default_str();
    app.add_option("--dtype", stored, "matrices in the file: f32, f16 or bf16")->capture_default_str();
    app.add_option("--out", o.out,
                   "folder for the result (model.gguf, also as weights/latest.gguf), checkpoints/ and the run's files; "
                   "{arch}, {recipe}, {date}, {time} and {seq} (the next free number) are filled in, as in "
                   "runs/{arch}-{date}-{seq}")
        ->capture_default_str();
    add_checkpoints(app, o);
    add_check_finite(app, o.trainer.check_finite);
    app.add_option("--log-every", log_every,
                   "steps between lines on stdout, and the first and last step; 0: none. Default: 1, or 0 where a "
                   "terminal shows the bar. --json has every step");
    app.add_flag("--json", json, "the run's events as JSON Lines on stdout instead of text");
    run_options.add(app);
    compute.add(app);
    add_update_option(app, update);
    memory.add(app);
    app.add_flag(
        "--dry-run", dry_run,
        "do everything up to the first step and print what the run would take: peak memory with its parts, "
        "and time, from some steps that are made and forgotten. Nothing but the data cache is written; --json: one "
        "object");
    device.add(app);
  }

  void add_checkpoints(CLI::App& app, RecipeOptions& o) {
    app.add_option(
           "--checkpoint-every", o.checkpoint_every,
           "steps between checkpoints in OUT/checkpoints; also at the end and where validation finds a new best. "
           "0: only when the run is stopped (Ctrl-C, SIGTERM, SIGHUP, --time-limit)")
        ->capture_default_str();
    app.add_option("--keep", o.keep, "checkpoints to keep: the last ones, and the best beside them")
        ->capture_default_str();
    app.add_flag(
        "--resume", o.resume,
        "continue from the newest checkpoint in OUT, or start if there is none; with --out alone, use the options of "
        "OUT/config.json. Other options, texts or versions of toy are refused");
    app.add_flag("--allow-changes", o.allow_changes,
                 "with --resume: continue with the new options although options, texts or version differ");
  }

  template <class Options, class Train, class Estimate>
  void run(const CLI::App& app, Options& o, const Train& train, const Estimate& estimate) const {
    optimizer.apply(app, o);
    if (stored == "f16")
      o.stored = DType::f16;
    else if (stored == "bf16")
      o.stored = DType::bf16;
    else
      check(stored == "f32", "dtype '{}' is not one of f32, f16, bf16", stored);
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
    if (dry_run) {
      Reporter reporter(results, json, log_every);
      return reporter.estimated(estimate(o, *dev, reporter));
    }
    for (const char* fresh : {"{seq}", "{time}"})
      check(!o.resume || o.out.find(fresh) == std::string::npos,
            "resume: --out is '{}', and {} names a new folder each time; give the folder of the run that is to go on",
            o.out, fresh);
    const OutFolder folder(pattern, fields);
    o.out = folder.path();
    nlohmann::ordered_json config = options_json(app);
    for (const char* of_the_process : {"resume", "allow-changes"}) config.erase(of_the_process);
    Reporter reporter(results, json, log_every);
    const auto open = [&](const TrainObserver::Start& s, bool resumed) {
      return open_log(o.out, config, s.spec, o.trainer, run_options.tensorboard, json ? &results : nullptr, resumed);
    };
    const std::filesystem::path where = std::filesystem::weakly_canonical(o.out);
    const std::string id = (where.has_filename() ? where : where.parent_path()).filename().string();
    Recorder recorder({.run_id = id,
                       .toy = TOY_VERSION,
                       .recipe = app.get_name(),
                       .threads = dev->pool().size(),
                       .config = config,
                       .effective = optimizer.effective(o)},
                      o, *dev, open, reporter);
    try {
      const TrainResult result = train(o, *dev, recorder);
      const auto record = [&] { recorder.done(result, [&results] { return results.lost(); }); };
      const bool stopped = result.reason == TrainResult::stopped;
      if (stopped) record();  // done() may end the program by a signal
      reporter.done(result, how_to_resume(app, o.out));
      if (json && result.was_complete) results.put(end_of_log(o.out));
      if (!stopped) record();
    } catch (const Error& e) {
      recorder.failed(e.code() == ErrorCode::bad_input ? 2 : 1, e.what());
      throw;
    }
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
    constexpr std::string_view kModel = "model.gguf";
    const std::filesystem::path out(o.out);
    const auto there = [&](std::string_view name) { return std::filesystem::exists(out / name); };
    const bool of_a_run = there(runs::kEventsFile) || there("checkpoints");
    for (const std::string_view name :
         {kModel, std::string_view("model-ema.gguf"), std::string_view("config.json"), std::string_view("flow.json"),
          std::string_view(runs::kEventsFile), std::string_view("events.previous.jsonl"),
          std::string_view("finished.json"), std::string_view(kLockFile)}) {
      const std::string file = (out / name).string();
      refuse_overwriting_texts(file, o.data);
      bool is_init = false;
      if constexpr (requires { o.size; }) refuse_overwriting("out", file, {{"--size", o.size}});
      if constexpr (requires { o.init; }) {
        std::error_code not_there;
        is_init = name == kModel && std::filesystem::equivalent(file, o.init, not_there);
        if (!is_init) refuse_overwriting("out", file, {{"--init", o.init}});
      }
      check(of_a_run || is_init || name == kLockFile || !there(name),
            "out: '{}' is there, but no run ({}) that wrote it, and it would be lost; choose another folder", file,
            runs::kEventsFile);
    }
  }

  static std::string architecture_of(const FromScratchOptions& o) {
    constexpr int64_t kAnyVocabulary = 256;  // the tokenizer decides later
    return model_spec(o.size, kAnyVocabulary).architecture;
  }
  static std::string architecture_of(const WarmStartOptions& o) {
    return spec_from_gguf(gguf::File::open(o.init)).architecture;
  }
};

struct FromScratch {
  FromScratchOptions o;
  Recipe recipe;

  void add(CLI::App& app) {
    recipe.add(app, o);
    app.add_option("--size", o.size, fmt::format("{}, or a JSON file of dimensions", fmt::join(size_names(), ", ")))
        ->capture_default_str();
    app.add_option("--tokenizer", o.tokenizer,
                   "bytes, or spm:V or unigram:V (SentencePiece BPE or unigram of V tokens, trained on the corpus)")
        ->capture_default_str();
    add_tokenizer_bytes(app, o.data);
    app.add_option("--init-scale", o.init_scale, "matrices start as N(0, scale / sqrt(columns))")
        ->capture_default_str();
    add_seed_option(app, o.seed, "seed of weights and shuffling");
    app.add_option("--context", o.context, "positions that the model is made for; 0: the size's own")
        ->capture_default_str();
    app.add_option("--name", o.name, "name of the model, for its card (default: toy)");
    app.footer(
        "\nExample:\n  toy train from-scratch --corpus book.txt --size small --tokenizer spm:512 --steps 2000 --out "
        "out/book\n"
        "  toy train from-scratch --corpus books/ --corpus-weight 3 --corpus letters/ --corpus-weight 1 --documents "
        "files "
        "--pack --tokenizer spm:512\n"
        "docs/data.md explains corpora, documents and mixtures.\n"
        "A terminal shows a bar, validations and samples. stdout elsewhere has a line per step (--log-every) and ends "
        "with the path of the GGUF; progress is on stderr.\n"
        "\nCtrl-C, SIGTERM and SIGHUP finish the step, write a checkpoint, print the command that goes on, and end the "
        "program "
        "by that signal; a second one ends it at once, and the last checkpoint is whole all the same. A run that was "
        "killed, or whose disk was full, goes on from its last checkpoint:\n"
        "  toy train from-scratch --corpus book.txt --steps 2000 --checkpoint-every 100 --out out/book\n"
        "  toy train from-scratch --corpus book.txt --steps 2000 --checkpoint-every 100 --out out/book --resume");
    app.callback([this, &app] { recipe.run(app, o, train_from_scratch, estimate_from_scratch); });
  }
};

struct WarmStart {
  WarmStartOptions o;
  Recipe recipe;

  void add(CLI::App& app) {
    app.add_option("--init", o.init, "a GGUF file to go on from, with its tokenizer")->required();
    recipe.add(app, o, 0.1);  // a trained model is soon unlearnt
    add_seed_option(app, o.seed, "seed of shuffling");
    app.add_option("--context", o.context, "positions that the new file states; 0: as the old one")
        ->capture_default_str();
    app.add_option("--name", o.name, "name of the model, for its card (default: the old one)");
    app.footer(
        "\nAll weights are trained in f32, whatever the file stores; the optimizer begins anew. --init stays as it "
        "is, unless --out is its own folder and it is named model.gguf.\n"
        "\nExample:\n  toy train warm-start --init out/book/model.gguf --corpus letters.txt --steps 500 --out "
        "out/letters");
    app.callback([this, &app] { recipe.run(app, o, train_warm_start, estimate_warm_start); });
  }
};

}  // namespace

void add_train(CLI::App& app) {
  app.require_subcommand(1);
  add_subcommand<FromScratch>(app, "from-scratch", "a new model from a text");
  add_subcommand<WarmStart>(app, "warm-start", "go on from a GGUF with a text");
}

}  // namespace toy::cli
