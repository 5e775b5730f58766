// toy train: recipes that make a model.
#include <fmt/format.h>

#include "cli/train/recipe.h"

namespace toy::cli {
namespace {

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
    model = model_file(model);
    WarmStartOptions& further = o;
    if (donor.empty()) return recipe.run(*parser, further, train_warm_start, estimate_warm_start);
    o.init = donor;
    recipe.run(*parser, o, train_from_donor, estimate_from_donor);
  }
};

}  // namespace

void add_train(CLI::App& root) {
  CLI::App& app = add_command_group(root, "train", "Train a model on text and write it as GGUF");
  add_subcommand<FromScratch>(app, "from-scratch", "Train a new model on text");
  add_subcommand<WarmStart>(app, "warm-start", "Train a GGUF model further on text");
  add_fine_tunes(app);
}

}  // namespace toy::cli
