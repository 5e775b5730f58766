// toy train: recipes that make a model.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/train/config.h"
#include "cli/train/reporter.h"
#include "cli/train/run_files.h"
#include "toy/base/communicator.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/run_files.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"
#include "toy/data/text_files.h"
#include "toy/formats/gguf.h"
#include "toy/runs/log.h"
#include "toy/runs/run.h"
#include "toy/train/recipes.h"

namespace toy::cli {
namespace {

// What the help says of a recipe.
struct About {
  Recipe::Kind kind;
  const char* summary;
  std::vector<const char*> common;  // of its own options, which --help shows
  const char* footer;
};
const About kRecipes[] = {
    {Recipe::from_scratch,
     "Train a new model on text",
     {"--size", "--layers", "--tokenizer", "--context"},
     "Ctrl-C saves a checkpoint and prints the command that resumes. See toy help "
     "training.md, data.md, checkpoints.md and memory.md.\n\n"
     "Examples:\n"
     "  toy train from-scratch --corpus book.txt --size small --tokenizer spm:512 --out out/book\n"
     "  toy train from-scratch --corpus book.txt --steps 2000 --checkpoint-every 100 --out out/long"},
    {Recipe::warm_start,
     "Train a GGUF model further on text",
     {"--init", "--donor", "--size", "--lens"},
     "With --init, trains all weights of a model in f32. With --donor, trains a model of another width or depth, "
     "which begins with the donor's embeddings and blocks. See toy help warm-start.md.\n\n"
     "Examples:\n"
     "  toy train warm-start --init out/book/model.gguf --corpus letters.txt --out out/letters\n"
     "  toy train warm-start --donor base.gguf --size small --lens pca --corpus book.txt --out out/small"},
    {Recipe::full_finetune,
     "Train all or some tensors of a GGUF model",
     {"--model", "--train", "--freeze", "--explain"},
     "Frozen tensors stay in the file, as quantized as they are; trained ones are held in f32. --lr-for sets learning "
     "rates by pattern. See toy help fine-tuning.md.\n\n"
     "Example:\n"
     "  toy train full-finetune --model base.gguf --corpus letters.txt --freeze 'token_embd.*' --out out/letters"},
    {Recipe::lora,
     "Train a small adapter of a GGUF model, quantized or not",
     {"--model", "--rank", "--alpha", "--targets", "--explain"},
     "Trains two small matrices for each linear map; the model stays in its file, as quantized as it is. The result, "
     "adapter.gguf, is for `toy infer MODEL --lora`, llama.cpp and Ollama. See toy help fine-tuning.md.\n\n"
     "Example:\n"
     "  toy train lora --model base.gguf --corpus letters.txt --rank 16 --out out/letters\n"
     "  toy infer base.gguf --lora out/letters --prompt \"Dear\""},
    {Recipe::dpo,
     "Train an adapter from preferences: DPO, IPO, KTO or ORPO",
     {"--model", "--loss", "--beta", "--rank", "--alpha", "--targets", "--explain"},
     "Trains an adapter to prefer chosen answers over rejected ones. What it is compared with is the model without the "
     "adapter. See toy help preferences.md.\n\n"
     "Example:\n"
     "  toy train dpo --model chat.gguf --data preferences.jsonl --out out/polite\n"
     "  toy infer chat.gguf --lora out/polite --prompt \"Dear\""},
    {Recipe::grpo,
     "Train an adapter from rewards of the model's own answers",
     {"--model", "--reward", "--group", "--questions", "--max-tokens", "--full", "--loss", "--rank", "--explain"},
     "Draws several answers to each question, judges them, and makes the better ones likelier (GRPO). Questions are "
     "rows "
     "of `toy eval generate`. A program that judges answers is no sandbox. --dry-run shows what the rewards give right "
     "and wrong answers. See toy help grpo.md.\n\n"
     "Example:\n"
     "  toy train grpo --model chat.gguf --data questions.jsonl --reward exact --max-tokens 32 --out out/better\n"
     "  toy eval generate chat.gguf held-out.jsonl --lora out/better"},
    {Recipe::vit,
     "Train a classifier of pictures",
     {"--data", "--size", "--image-size", "--patch", "--flip", "--mixup", "--rand-augment"},
     "A folder of pictures has a subfolder for each class. PNG, JPEG, PGM and PPM are read, and the binary files of "
     "CIFAR-10, CIFAR-100 and MNIST. See toy help images.md.\n\n"
     "Example:\n"
     "  toy corpus shapes --out shapes\n"
     "  toy train vit --data shapes --size vit-micro --epochs 10 --out out/shapes\n"
     "  toy infer out/shapes --image shapes/test/star/00007.ppm"},
    {Recipe::contrastive,
     "Train embeddings on pairs of texts that belong together",
     {"--model", "--data", "--temperature", "--adapter", "--anchor-prefix", "--passage-prefix"},
     "Each anchor learns to be nearer to its positive than to all other texts of the batch (InfoNCE). The validation "
     "says how often the positive is the nearest of all texts. See toy help embeddings.md.\n\n"
     "Example:\n"
     "  toy train contrastive --model minilm.gguf --data pairs.jsonl --out out/search\n"
     "  toy eval retrieval out/search held-out.jsonl"},
    {Recipe::classify,
     "Train a classifier of texts",
     {"--model", "--data", "--text-tokens", "--label-smoothing", "--adapter"},
     "A row is {\"text\": ..., \"label\": ...}. The model is an encoder such as MiniLM, BERT or ModernBERT, which gets "
     "a "
     "new head, or a classifier. See toy help classifiers.md.\n\n"
     "Example:\n"
     "  toy train classify --model minilm.gguf --data reviews.jsonl --out out/mood\n"
     "  toy eval classify out/mood held-out.jsonl\n"
     "  toy infer out/mood --prompt \"what a lovely film\""}};

// "adamw 0.001, lion 0.0001": what an option is by default with each optimizer.
std::string usual(const Recipe& recipe, std::string_view option) {
  std::vector<std::string> list;
  for (const auto& [name, kind] : NamesOf<OptimizerOptions::Kind>::list) {
    const OptimizerOptions o = OptimizerOptions::of(kind);
    list.push_back(fmt::format("{} {:g}", name, option == "lr" ? recipe.usual_lr(o) : recipe.usual_weight_decay(o)));
  }
  return option == "weight_decay" && recipe.adapts() ? "0" : fmt::format("{}", fmt::join(list, ", "));
}

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

// A complete run is not trained again: says which of these options, which ask for a look at it, are ignored. Those that
// it had itself come again from its config.json.
void tell_of_no_effect(const std::string& out, const nlohmann::ordered_json& options) {
  const std::filesystem::path file = std::filesystem::path(out) / runs::kConfigFile;
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

// The command that shows what a run has made: a conversation where a template says how it is written.
std::string how_to_try(const Recipe& recipe, const std::string& base, const std::string& base_file,
                       const TrainResult& result) {
  const auto converses = [](const std::string& file) {
    return !file.empty() && !gguf::File::open(file).get_string("tokenizer.chat_template", "").empty();
  };
  if (recipe.kind == Recipe::vit) return fmt::format("toy infer {} --image FILE", shell_quoted(result.out));
  const bool adapts = recipe.adapts();
  if (recipe.kind == Recipe::contrastive)
    return fmt::format(
        "toy embed {} TEXT --json",
        adapts ? fmt::format("{} --lora {}", shell_quoted(base), shell_quoted(result.out)) : shell_quoted(result.out));
  if (recipe.kind == Recipe::classify)
    return fmt::format("toy infer {}{} --prompt TEXT", shell_quoted(adapts ? base : result.out),
                       adapts ? fmt::format(" --lora {}", shell_quoted(result.out)) : "");
  if (!adapts && spec_from_gguf(gguf::File::open(result.model_path)).mask_head)
    return fmt::format("toy train classify --model {} --data FILE", shell_quoted(result.out));
  const std::string model =
      adapts ? fmt::format("{} --lora {}", shell_quoted(base), shell_quoted(result.out)) : shell_quoted(result.out);
  if (converses(result.model_path) || (adapts && converses(base_file))) return "toy chat " + model;
  return fmt::format("toy infer {} --prompt TEXT", model);
}

struct Train : Command {
  Train(const About& a, Communicator* r) : recipe(a.kind), about(a), ranks(r) {}

  Recipe recipe;  // until run(): the defaults
  const About& about;
  Communicator* ranks;
  DeviceOptions device;
  std::optional<int64_t> log_every;
  bool json = false, dry_run = false, explain = false;

  void add(CLI::App& app) {
    add_config_option(app);
    Recipe::fields(recipe, [&](const Option& option, auto& value) {
      add_listed_option(app, option, value);
      if (CLI::Option* added = app.get_option(option.flag()); option.derived)
        added->description(fmt::format("{} (default: {})", option.help, usual(recipe, option.name)));
      else if (about.kind == Recipe::vit && option.name == "size")
        added->description(fmt::format("Size or JSON file of dimensions: {}", fmt::join(image_size_names(), ", ")));
    });
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print the run's events as JSON Lines");
    add_option(app, "--log-every", log_every,
               "Steps between lines on stdout; 0 prints none (default: 1, 0 on a terminal)", at_least(0));
    begin_group(app, "Debugging");
    app.add_flag("--dry-run", dry_run, "Print time and memory of the run, from a few real steps that change nothing");
    app.add_flag("--explain", explain, "Print which tensors are trained, and what --dry-run prints, without training");
    device.add(app);
    std::vector<const char*> shown = about.common;
    for (const char* name :
         {"--corpus",           "--config",    "--data",   "--val",      "--batch",      "--tokens",     "--steps",
          "--epochs",           "--optimizer", "--lr",     "--schedule", "--eval-every", "--out",        "--sample",
          "--checkpoint-every", "--resume",    "--memory", "--threads",  "--seed",       "--time-limit", "--dry-run"})
      if (app.get_option_no_throw(name)) shown.push_back(name);
    show_in_help(app, shown);
    app.footer(about.footer);
  }

  void run() {
    std::vector<GivenOption> given;
    Recipe::fields(recipe, [&](const Option& option, const auto&) {
      const CLI::Option* o = parser->get_option(option.flag());
      if (o->count() > 0) given.push_back({o->get_name(), o->reduced_results()});
    });
    recipe = parse_recipe(about.kind, given);
    std::string base, base_file;  // as it was given, and where it is
    RecipeOptions& o = recipe.common();
    if (std::string* init = recipe.init()) {
      base = *init;
      base_file = *init = o.resume ? finder().model_of_resumed(*init, o.out) : model_file(*init);
    }
    if (auto* from = std::get_if<FromScratchOptions>(&recipe.options))
      from->tokenizer = finder().tokenizer(from->tokenizer);
    if (const double usual = recipe.usual_lr(o.trainer.optimizer); o.lr > 300 * usual)  // 1e3 is soon typed for 1e-3
      to_stderr(fmt::format("toy: --lr {:g} is so large that a model is ruined with {}; {:g} is usual here\n", o.lr,
                            name_in_list(o.trainer.optimizer.kind), usual));
    if (o.trainer.tokens == 1 && parser->get_option_no_throw("--tokens") && this->given("--tokens"))
      to_stderr("toy: --tokens 1 shows the model one token at a time, so it learns no more than pairs; 128 is usual\n");
    std::error_code error;
    const bool is_run = std::filesystem::exists(std::filesystem::path(o.out) / runs::kEventsFile, error);
    if (!is_run && this->given("--out") && std::filesystem::is_directory(o.out, error) &&
        !runs::find_runs(o.out).empty())
      to_stderr(fmt::format("toy: {0} has other runs in it; --out {0}/NAME keeps this one apart\n", one_line(o.out)));
    else if (const std::string other = this->given("--out") ? other_file_in(o.out) : ""; !other.empty())
      to_stderr(fmt::format("toy: {0} has other files in it, such as {1}; --out {0}/NAME keeps this one apart\n",
                            one_line(o.out), one_line(other)));
    o.trainer.ranks = ranks;
    if (ranks && !this->given("--shards")) o.trainer.shards = ranks->size();
    const auto dev = device.make();
    Results results;
    Reporter reporter(results, json, log_every, ranks != nullptr);
    if (std::holds_alternative<FromScratchOptions>(recipe.options) && !this->given("--tokenizer") && !o.resume)
      reporter.say_at_start("the tokens are single bytes; --tokenizer spm:512 learns longer ones from the text");
    if (dry_run || explain) return reporter.estimated(recipe.estimate(*dev, reporter), explain);
    nlohmann::ordered_json config = options_json(*parser);
    config["shards"] = o.trainer.shards;
    if (o.epochs) config["steps"] = nullptr;  // the rows decide
    if (o.fit_tokens) config["tokens"] = nullptr;
    for (const char* of_the_process : {"resume", "allow-changes", "overwrite"}) config.erase(of_the_process);
    o.record.config = {json_text(config)};
    const TrainResult result = recipe.train(*dev, reporter);
    if (result.was_complete) tell_of_no_effect(result.out, config);
    const bool is_done = result.reason != TrainResult::stopped && !json;
    reporter.done(result, how_to_resume(*parser, result.out),
                  is_done ? how_to_try(recipe, base, base_file, result) : "");
    if (json && result.was_complete) results.put(end_of_log(result.out));
  }
};

}  // namespace

void add_train(CLI::App& root, Communicator* ranks) {
  CLI::App& app = add_command_group(root, "train", "Train a model on text and write it as GGUF");
  for (const About& about : kRecipes) add_subcommand<Train>(app, name_in_list(about.kind), about.summary, about, ranks);
}

}  // namespace toy::cli
