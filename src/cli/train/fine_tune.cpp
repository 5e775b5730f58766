// toy train full-finetune, lora and dpo: recipes that change a model which people have.
#include <fmt/format.h>

#include "cli/train/recipe.h"

namespace toy::cli {
namespace {

struct FullFineTune : Command {
  FineTuneOptions o;
  Recipe recipe;

  void add(CLI::App& app) {
    begin_group(app, "Model");
    add_option(app, "--model", o.init, "GGUF file, name in `toy list`, or a run, with a tokenizer", file_name())
        ->required();
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
    o.init = model_file(o.init);
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
    add_option(app, "--model", o.init, "GGUF file, name in `toy list`, or a run, with a tokenizer", file_name())
        ->required();
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
    o.init = model_file(o.init);
    o.lora = lora;
    recipe.run(*parser, o, train_fine_tune, estimate_fine_tune);
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

void add_fine_tunes(CLI::App& train) {
  add_subcommand<FullFineTune>(train, "full-finetune", "Train all or some tensors of a GGUF model");
  add_subcommand<Lora>(train, "lora", "Train a small adapter of a GGUF model, quantized or not");
  add_subcommand<Dpo>(train, "dpo", "Train an adapter from preferences: DPO, IPO, KTO or ORPO");
}

}  // namespace toy::cli
