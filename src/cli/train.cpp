// toy train: recipes that make a model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "cli/command.h"
#include "cli/config.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/model_file.h"
#include "cli/options.h"
#include "cli/reporter.h"
#include "cli/run_files.h"
#include "cli/train_options.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/folder_lock.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/data/text_files.h"
#include "toy/formats/checkpoint.h"
#include "toy/hf/peft.h"
#include "toy/models/save_as.h"
#include "toy/runs/log.h"
#include "toy/train/fine_tune.h"
#include "toy/train/from_scratch.h"
#include "toy/train/warm_start.h"

namespace toy::cli {
namespace {

constexpr std::string_view kModel = "model.gguf", kSecondName = "weights/latest.gguf", kConfig = "config.json",
                           kCheckpoints = "checkpoints", kPreviousLog = "events.previous.jsonl", kPeft = "peft";
// The files that a run writes next to its checkpoints.
constexpr std::string_view kFiles[] = {kModel,   kSecondName, "model-ema.gguf",  "adapter.gguf", "adapter-ema.gguf",
                                       kConfig,  "flow.json", runs::kEventsFile, kPreviousLog,   "finished.json",
                                       kLockFile};

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

// Whether a file begins as the log of a run does, if torn.
bool begins_as_log(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;
  std::ifstream lines(file, std::ios::binary);
  std::string line;
  while (line.empty() && std::getline(lines, line)) {
  }
  if (line.starts_with(R"({"kind":"run_start")")) return true;
  try {
    runs::parse_event(line);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Whether a run has written into this folder. One that was killed at its very start leaves an empty log, and no model.
bool is_of_a_run(const std::filesystem::path& out) {
  const std::filesystem::path log = out / runs::kEventsFile;
  std::error_code error;
  return begins_as_log(log) || begins_as_log(out / kPreviousLog) ||
         !checkpoint_steps((out / kCheckpoints).string()).empty() ||
         (std::filesystem::is_regular_file(log, error) && std::filesystem::is_empty(log, error) &&
          !std::filesystem::exists(out / kModel, error));
}

// Whether `path` is `folder`, or lies in it.
bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  std::error_code error;
  const auto below = std::filesystem::weakly_canonical(std::filesystem::absolute(path), error),
             above = std::filesystem::weakly_canonical(std::filesystem::absolute(folder), error);
  return !error && std::mismatch(above.begin(), above.end(), below.begin(), below.end()).first == above.end();
}

// A complete run is not trained again: options that ask for a look at it would be ignored. Those that it had itself
// come again from its config.json.
void tell_of_no_effect(const std::string& out, const nlohmann::ordered_json& options) {
  const std::filesystem::path file = std::filesystem::path(out) / kConfig;
  std::error_code error;
  nlohmann::ordered_json before;
  if (std::filesystem::exists(file, error)) before = parse_json<nlohmann::ordered_json>(read_text_file(file.string()));
  std::vector<std::string> without;
  for (const char* name : {"tensorboard", "tap", "grads", "drift", "op-timing"})
    if (const auto& value = options.at(name); !value.is_null())
      if (!before.is_object() || !before.contains(name) || before.at(name) != value)
        without.push_back(std::string("--") + name);
  if (!without.empty())
    to_stderr(fmt::format("nothing is trained, so these have no effect: {}\n", fmt::join(without, ", ")));
}

// What all recipes take.
struct Recipe {
  DeviceOptions device;
  ComputeOptions compute;
  RunOptions run_options;
  MemoryOption memory;
  std::optional<int64_t> log_every;
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
    add_option(app, "--tokens", o.trainer.tokens, "Tokens per sequence", at_least(1));
    add_option(app, "--accumulate", o.trainer.accumulate, "Batches per step whose gradients are summed", at_least(1));
    begin_group(app, "Schedule");
    add_option(app, "--steps", o.steps, "Optimizer steps", at_least(1));
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
    app.add_flag("--dry-run", dry_run, "Print the time and memory that the run needs, without running it");
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
    own.insert(own.end(), {"--config", "--data", "--val", "--batch", "--tokens", "--steps", "--optimizer", "--lr",
                           "--schedule", "--eval-every", "--out", "--sample", "--checkpoint-every", "--resume",
                           "--memory", "--threads", "--seed", "--time-limit", "--dry-run"});
    show_in_help(app, own);
  }

  template <class Options, class Train, class Estimate>
  void run(const CLI::App& app, Options& o, const Train& train, const Estimate& estimate) const {
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
    for (const char* of_the_process : {"resume", "allow-changes"}) config.erase(of_the_process);
    const std::filesystem::path where = std::filesystem::weakly_canonical(o.out);
    o.record = {.run_id = (where.has_filename() ? where : where.parent_path()).filename().string(),
                .config = config,
                .effective = optimizer.effective(o)};
    const auto open = [&](const ModelSpec& spec, bool resumed) {
      return open_log(o.out, config, spec, o.trainer, run_options.tensorboard, json ? &results : nullptr, resumed);
    };
    Reporter reporter(results, json, log_every, open);
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
    for (const char* name : {"adapter_config.json", "adapter_model.safetensors"})
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

struct FromScratch : Command {
  FromScratchOptions o;
  Recipe recipe;

  void add(CLI::App& app) {
    recipe.add(app, o);
    begin_group(app, "Model");
    add_option(app, "--size", o.size, fmt::format("Size or JSON file of dimensions: {}", fmt::join(size_names(), ", ")),
               suggested(size_names(), true));
    add_option(app, "--layers", o.layers, "Mixers of the layers, like gdn*3,attn (docs/training.md lists them)");
    add_option(app, "--tokenizer", o.tokenizer, "bytes, or bpe:V, spm:V or unigram:V with V tokens",
               suggested({"bytes", "bpe:", "spm:", "unigram:"}));
    add_option(app, "--tokenizer-bytes", o.data.tokenizer_bytes,
               "Bytes of the corpus to train the tokenizer on, at most", at_least(1));
    add_option(app, "--context", o.context, "Positions of the model; 0 takes the size's own", at_least(0));
    add_option(app, "--name", o.name, "Name of the model (default: toy)");
    add_option(app, "--init-scale", o.init_scale, "Scale of the initial weights, N(0, scale / sqrt(columns))",
               above(0));
    add_option(app, "--seed", o.seed, "Seed of weights and shuffling");
    Recipe::show_common(app, {"--size", "--layers", "--tokenizer", "--context"});
    app.footer(
        "Ctrl-C saves a checkpoint and prints the command that resumes. See docs/training.md, docs/data.md, "
        "docs/checkpoints.md and docs/memory.md.\n\n"
        "Examples:\n"
        "  toy train from-scratch --corpus book.txt --size small --tokenizer spm:512 --out out/book\n"
        "  toy train from-scratch --corpus book.txt --steps 2000 --checkpoint-every 100 --out out/long");
  }
  void run() { recipe.run(*parser, o, train_from_scratch, estimate_from_scratch); }
};

struct WarmStart : Command {
  GrowOptions o;
  std::string donor, blocks = "copy";
  Recipe recipe;

  void add(CLI::App& app) {
    begin_group(app, "Model");
    add_option(app, "--init", o.init, "GGUF file, or name in `toy list`, to train further", file_name());
    add_option(app, "--donor", donor, "GGUF file, or name in `toy list`, to begin a model of --size with", file_name());
    recipe.add(app, o, 0.1);  // a trained model is soon unlearnt
    begin_group(app, "Model");
    add_option(app, "--size", o.size,
               fmt::format("With --donor: size or JSON file of dimensions: {}", fmt::join(size_names(), ", ")),
               suggested(size_names(), true));
    add_option(app, "--lens", o.lens, "With --donor: how the map behind its embeddings begins; none copies them",
               one_of({"random", "pca", "none"}));
    add_option(app, "--blocks", blocks, "With --donor: begin with its blocks, or with random ones",
               one_of({"copy", "random"}));
    add_option(app, "--context", o.context, "Positions of the new model; 0 keeps those of --init, or of --size",
               at_least(0));
    add_option(app, "--name", o.name, "Name of the model (default: that of --init, or toy)");
    add_option(app, "--seed", o.seed, "Seed of shuffling, and of weights that begin at random");
    Recipe::show_common(app, {"--init", "--donor", "--size", "--lens"});
    app.footer(
        "With --init, trains all weights of a model in f32. With --donor, trains a model of another width or depth, "
        "which begins with the donor's embeddings and blocks. See docs/training.md and docs/warm-start.md.\n\n"
        "Examples:\n"
        "  toy train warm-start --init out/book/model.gguf --corpus letters.txt --out out/letters\n"
        "  toy train warm-start --donor base.gguf --size small --lens pca --corpus book.txt --out out/small");
  }
  void run() {
    check(o.init.empty() != donor.empty(),
          "warm-start: {}; use --init to train a model further, or --donor to begin a model of another size",
          donor.empty() ? "there is no model to begin with" : "there are both --init and --donor");
    for (const char* of_donor : {"--size", "--lens", "--blocks"})
      check(!donor.empty() || parser->count(of_donor) == 0,
            "{} belongs to --donor, or to toy train from-scratch; with --init, leave it out", of_donor);
    o.copy_blocks = blocks == "copy";
    std::string& model = donor.empty() ? o.init : donor;
    if (const std::string listed = listed_model(model); !listed.empty()) model = listed;
    WarmStartOptions& further = o;
    if (donor.empty()) return recipe.run(*parser, further, train_warm_start, estimate_warm_start);
    o.init = donor;
    recipe.run(*parser, o, train_from_donor, estimate_from_donor);
  }
};

// Recipes that change a model which people have.
struct FullFineTune : Command {
  FineTuneOptions o;
  Recipe recipe;

  void add(CLI::App& app) {
    begin_group(app, "Model");
    add_option(app, "--model", o.init, "GGUF file, or name in `toy list`, with a tokenizer", file_name())->required();
    recipe.add(app, o, 0.1);
    begin_group(app, "Model");
    add_option(app, "--train", o.roles.train, "Train only matching tensors, such as 'blk.2[0-9].*' (default: all)")
        ->option_text("PATTERN");
    add_option(app, "--freeze", o.roles.freeze, "Leave matching tensors as they are, such as 'token_embd.*'")
        ->option_text("PATTERN");
    add_option(app, "--context", o.context, "Positions of the new model; 0 keeps those of --model", at_least(0));
    add_option(app, "--name", o.name, "Name of the model (default: that of --model)");
    add_option(app, "--seed", o.seed, "Seed of shuffling");
    Recipe::show_common(app, {"--model", "--train", "--freeze", "--explain"});
    app.footer(
        "Frozen tensors stay in the file, as quantized as they are; trained ones are held in f32. --lr-for sets "
        "learning "
        "rates by pattern. See docs/fine-tuning.md.\n\n"
        "Example:\n"
        "  toy train full-finetune --model base.gguf --corpus letters.txt --freeze 'token_embd.*' --out out/letters");
  }
  void run() {
    if (const std::string listed = listed_model(o.init); !listed.empty()) o.init = listed;
    recipe.run(*parser, o, train_fine_tune, estimate_fine_tune);
  }
};

struct Lora : Command {
  FineTuneOptions o;
  LoraOptions lora;
  Recipe recipe;

  void add(CLI::App& app) {
    add_options(app, 0.2);
    Recipe::show_common(app, {"--model", "--rank", "--alpha", "--targets", "--explain"});
    app.footer(
        "Trains two small matrices for each linear map; the model stays in its file, as quantized as it is. The "
        "result, "
        "adapter.gguf, is for `toy infer MODEL --lora`, llama.cpp and Ollama. See docs/fine-tuning.md.\n\n"
        "Example:\n"
        "  toy train lora --model base.gguf --corpus letters.txt --rank 16 --out out/letters\n"
        "  toy infer base.gguf --lora out/letters --prompt \"Dear\"");
  }
  // `lr_part`: see OptimizerChoice.
  void add_options(CLI::App& app, double lr_part) {
    begin_group(app, "Model");
    add_option(app, "--model", o.init, "GGUF file, or name in `toy list`, with a tokenizer", file_name())->required();
    recipe.adapts = true;
    recipe.add(app, o, lr_part, false);
    begin_group(app, "Adapter");
    add_option(app, "--rank", lora.rank, "Rank of the adapter: columns of B and rows of A", at_least(1));
    add_option(app, "--alpha", lora.alpha, "What the adapter adds is multiplied by alpha / rank", above(0));
    add_option(app, "--targets", lora.targets, "Maps to adapt: all-linear, or patterns such as 'attn_[qv]=8:16'")
        ->delimiter(',')
        ->option_text("PATTERN[=RANK[:ALPHA]]");
    add_option(app, "--lora-plus", lora.lr_ratio, "Learning rate of B as a multiple of A's", above(0));
    add_option(app, "--lora-dropout", lora.dropout, "Dropout rate of the adapter's input", from_to_below(0, 1));
    app.add_flag("--dora", lora.dora, "Also train a magnitude for each row of a map (DoRA); slower");
    app.add_flag("--pissa", lora.pissa, "Begin A and B with the largest singular values of each map (PiSSA)");
    app.add_flag("--rslora", lora.rslora, "Multiply by alpha / sqrt(rank) instead");
    begin_group(app, "Model");
    add_option(app, "--name", o.name, "Name of the adapter (default: that of --model)");
    add_option(app, "--seed", o.seed, "Seed of the adapter's weights and of shuffling");
  }
  void run() {
    if (const std::string listed = listed_model(o.init); !listed.empty()) o.init = listed;
    o.lora = lora;
    recipe.run(*parser, o, train_fine_tune, estimate_fine_tune);
    if (!recipe.dry_run && !recipe.explain) write_others();
  }

  // The same adapter for PEFT, where transformers has the model; and what llama.cpp needs instead.
  void write_others() const {
    const auto dev = recipe.device.make();
    Model model = load_model(o.init, *dev);
    load_adapter(model, o.out + "/adapter.gguf");
    if (const std::string unknown = unknown_to_llama_cpp(model.spec, model.spec.adapters[0]); !unknown.empty())
      to_stderr(fmt::format("toy: {}; for it, make one model: toy merge {} --lora {} --out FILE\n", unknown,
                            one_line(o.init), one_line(o.out)));
    const std::string folder = (std::filesystem::path(o.out) / kPeft).string();
    remove_leftovers(folder);  // of a process that was killed while it wrote
    try {
      hf::save_peft(model, 0, folder);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::bad_input) throw;
      std::error_code none;  // of an earlier adapter here
      for (const char* name : {"adapter_config.json", "adapter_model.safetensors"})
        std::filesystem::remove(std::filesystem::path(folder) / name, none);
      return to_stderr(fmt::format("toy: not written for PEFT: {}\n", e.what()));
    }
    to_stderr(fmt::format("for PEFT: {}\n", one_line(folder)));
  }
};

struct Dpo : Lora {
  std::string loss = "dpo";
  PreferenceOptions preference;

  void add(CLI::App& app) {
    recipe.preferences = true;
    o.trainer.batch = 4, o.trainer.tokens = 512;  // a row has both answers
    add_options(app, 0.05);
    begin_group(app, "Preferences");
    add_option(app, "--loss", loss, "How answers are compared; kto also takes rows with one answer and a label",
               one_of({"dpo", "ipo", "kto", "orpo"}));
    add_option(app, "--beta", preference.beta, "Factor of rewards; of orpo the weight of the odds ratio", above(0));
    Recipe::show_common(app, {"--model", "--loss", "--beta", "--rank", "--alpha", "--targets", "--explain"});
    app.footer(
        "Trains an adapter to prefer chosen answers over rejected ones. What it is compared with is the model without "
        "the adapter. See docs/preferences.md.\n\n"
        "Example:\n"
        "  toy train dpo --model chat.gguf --data preferences.jsonl --out out/polite\n"
        "  toy infer chat.gguf --lora out/polite --prompt \"Dear\"");
  }
  void run() {
    preference.loss = parse_preference_loss(loss);
    o.trainer.preference = preference;
    o.data.preferences = takes_pairs(preference.loss) ? Preferences::pairs : Preferences::rated;
    Lora::run();
  }
};

}  // namespace

void add_train(CLI::App& root) {
  CLI::App& app = add_command_group(root, "train", "Train a model on text and write it as GGUF");
  add_subcommand<FromScratch>(app, "from-scratch", "Train a new model on text");
  add_subcommand<WarmStart>(app, "warm-start", "Train a GGUF model further on text");
  add_subcommand<FullFineTune>(app, "full-finetune", "Train all or some tensors of a GGUF model");
  add_subcommand<Lora>(app, "lora", "Train a small adapter of a GGUF model, quantized or not");
  add_subcommand<Dpo>(app, "dpo", "Train an adapter from preferences: DPO, IPO, KTO or ORPO");
}

}  // namespace toy::cli
