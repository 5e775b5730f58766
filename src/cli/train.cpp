// toy train: recipes that make a model.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/train/from_scratch.h"
#include "toy/train/warm_start.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

ordered_json number(double v) { return std::isfinite(v) ? ordered_json(v) : ordered_json(nullptr); }

// stdout: results alone, the same bytes for the same options. stderr: for people.
class Reporter final : public TrainObserver {
 public:
  explicit Reporter(bool json) : json_(json) {}

  void preparing(const std::string& what) override { progress_.waiting(what); }
  void warned(const std::string& text) override { progress_.note("toy: " + text); }
  bool stop() override { return interrupt_ && interrupt_->signal() != 0; }

  void started(const Start& s) override {
    if (json_) {
      line({{"kind", "run_start"},
            {"schema", "toy/v1"},
            {"parameters", s.parameters},
            {"train_tokens", s.train_tokens},
            {"validation_tokens", s.validation_tokens},
            {"planned_bytes", s.planned_bytes},
            {"model", to_json(s.spec)}});
    }
    progress_.note(fmt::format(
        "{}: {:.2f} M parameters, {} training tokens ({} windows an epoch), {} validation tokens, {} planned",
        s.spec.name, double(s.parameters) * 1e-6, s.train_tokens, s.windows_per_epoch, s.validation_tokens,
        format_bytes(s.planned_bytes)));
    for (const std::string& note : s.plan.notes) progress_.note("plan: " + note);
    interrupt_.emplace();  // before the first step there is nothing to save, and a signal ends the program at once
  }

  void resumed(int64_t step) override {
    if (json_) line({{"kind", "resume"}, {"step", step}});
    progress_.note(fmt::format("resumed behind step {}", step));
  }

  void checkpointed(const std::string& path, int64_t step) override {
    if (json_) line({{"kind", "checkpoint"}, {"step", step}, {"path", path}});
    progress_.note("checkpoint: " + path);
  }

  void stepped(const Step& s) override {
    if (json_) {
      line({{"kind", "step"},
            {"step", s.step},
            {"loss", number(s.loss)},
            {"lr", s.lr},
            {"grad_norm", s.grad_norm ? number(*s.grad_norm) : ordered_json(nullptr)},
            {"tokens_per_second", s.tokens_per_second}});
    } else {
      progress_.clear();
      put(fmt::format("step {}: loss={:.6f}\n", s.step, s.loss));
    }
    if (s.skipped)
      progress_.note(fmt::format("step {}: the {} is not finite; the step was skipped", s.step,
                                 s.grad_norm ? "gradient" : "loss"));
    progress_.update(s);
  }

  void evaluated(const Eval& e) override {
    if (json_) {
      line({{"kind", "eval"},
            {"step", e.step},
            {"loss", number(e.loss)},
            {"nats_per_byte", number(e.nats_per_byte)},
            {"whole", e.whole}});
      if (!e.sample.empty()) line({{"kind", "sample"}, {"step", e.step}, {"text", e.sample}});
    }
    progress_.note(fmt::format("step {}: validation loss {:.4f} nats a token, {:.4f} nats a byte{}", e.step, e.loss,
                               e.nats_per_byte, e.whole ? "" : " (a part of the text)"));
    if (!e.sample.empty()) progress_.note("sample: " + e.sample + "\n");
  }

  // Ends the program by the signal that stopped the run, if one did.
  void done(const TrainResult& r, const std::string& how_to_resume) {
    progress_.finish();
    const bool stopped = r.model_path.empty();
    if (json_) {
      ordered_json j{{"kind", "run_end"},
                     {"reason", stopped ? "stopped" : "done"},
                     {"final_loss", number(r.final_loss)},
                     {"seconds", r.seconds}};
      if (!stopped) j["model"] = r.model_path;
      if (!r.checkpoint.empty()) j["checkpoint"] = r.checkpoint;
      j["peak_rss_bytes"] = peak_resident_memory();
      if (r.eval) j["nats_per_byte"] = number(r.eval->nats_per_byte);
      line(j);
    } else if (!stopped) {
      put(r.model_path + "\n");
    }
    if (!stopped) return;
    to_stderr(fmt::format("stopped after step {}; everything is in {}. To go on:\n  {}\n", r.step, r.checkpoint,
                          how_to_resume));
    interrupt_->end_by_signal();
  }

 private:
  static void line(const ordered_json& j) {
    put(j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  }
  // A reader that has gone away ends the run: nobody would see its results.
  static void put(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      fail_internal("stdout: the output could not be written");
  }
  bool json_;
  Progress progress_;
  std::optional<Interrupt> interrupt_;
};

// The command line that goes on with this run.
std::string how_to_resume(const CLI::App& app) {
  std::string line = "toy train " + app.get_name();
  for (const CLI::Option* o : app.get_options()) {
    if (o->count() == 0 || o->get_name() == "--resume") continue;
    line += " " + o->get_name();
    if (o->get_items_expected_max() == 0) continue;  // a flag
    for (const std::string& value : o->results()) line += " " + shell_quoted(value);
  }
  return line + " --resume";
}

// What all recipes take.
struct Recipe {
  DeviceOptions device;
  ComputeOptions compute;
  bool json = false;
  std::string stored = "f32", optimizer = "adamw", update = "gathered";

  void add(CLI::App& app, RecipeOptions& o) {
    app.add_option("--corpus", o.corpus, "a text file to learn from")->required();
    app.add_option("--val", o.validation, "a text file to validate on (default: the end of the corpus)");
    app.add_option("--val-fraction", o.validation_fraction, "part of the corpus kept for validation")
        ->capture_default_str();
    app.add_option("--batch", o.trainer.batch, "B, sequences a step")->capture_default_str();
    app.add_option("--tokens", o.trainer.tokens, "T, tokens a sequence")->capture_default_str();
    app.add_option("--accumulate", o.trainer.accumulate,
                   "batches of --batch sequences a step: their gradients are summed, weighted by tokens, then there is "
                   "one update. As --batch times as large, in the memory of one")
        ->capture_default_str();
    app.add_option("--steps", o.steps, "optimizer steps")->capture_default_str();
    add_optimizer(app, o);
    app.add_option("--eval-every", o.eval_every, "steps between validations; 0: only at the end")
        ->capture_default_str();
    app.add_option("--eval-tokens", o.eval_tokens, "validation tokens read before the last validation; 0: all")
        ->capture_default_str();
    app.add_option("--sample", o.sample_tokens, "tokens of a sample written at each validation")->capture_default_str();
    app.add_option("--dtype", stored, "matrices in the file: f32, f16 or bf16")->capture_default_str();
    app.add_option("--out", o.out, "folder for the result: model.gguf, also as weights/latest.gguf, and checkpoints/")
        ->capture_default_str();
    add_checkpoints(app, o);
    add_check_finite(app, o.trainer.check_finite);
    app.add_flag("--json", json, "JSON Lines on stdout instead of text");
    compute.add(app);
    add_update_option(app, update);
    device.add(app);
  }

  void add_checkpoints(CLI::App& app, RecipeOptions& o) {
    app.add_option(
           "--checkpoint-every", o.checkpoint_every,
           "steps between checkpoints in OUT/checkpoints; also at the end and where validation finds a new best. "
           "0: only when the run is stopped (Ctrl-C, SIGTERM)")
        ->capture_default_str();
    app.add_option("--keep", o.keep, "checkpoints to keep: the last ones, and the best beside them")
        ->capture_default_str();
    app.add_flag(
        "--resume", o.resume,
        "go on from the newest whole checkpoint in OUT, to the same bytes as a run that was never stopped; begin "
        "if there is none. Other options, texts or another version of toy are refused, with the difference");
    app.add_flag("--allow-changes", o.allow_changes,
                 "with --resume: go on although options, texts or version differ, from the checkpoint's weights, "
                 "optimizer state and place in the data, with the new options");
  }

  void add_optimizer(CLI::App& app, RecipeOptions& o) {
    OptimizerOptions& a = o.trainer.optimizer;
    app.add_option("--optimizer", optimizer, "adamw or sgd")->capture_default_str();
    app.add_option("--lr", o.lr, "peak learning rate")->capture_default_str();
    app.add_option("--warmup", o.warmup, "steps of linear warmup; -1: a twentieth of all, at most 200")
        ->capture_default_str();
    app.add_option("--final-lr", o.final_lr, "last learning rate as a fraction of the peak (cosine)")
        ->capture_default_str();
    app.add_option("--weight-decay", a.weight_decay,
                   "decay of the weights, on matrices only; sgd adds it to the gradient")
        ->capture_default_str();
    app.add_option("--clip", a.clip, "limit of the gradients' global norm; 0: none")->capture_default_str();
    app.add_option("--beta1", a.beta1, "AdamW's decay of the first moment, 0 to below 1")->capture_default_str();
    app.add_option("--beta2", a.beta2, "AdamW's decay of the second moment, 0 to below 1")->capture_default_str();
    app.add_option("--dropout", o.trainer.dropout,
                   "part of the outputs of embedding, attention and ffn that each step zeroes, 0 to below 1")
        ->capture_default_str();
    app.add_option("--eps", a.eps, "AdamW's epsilon, added to the root of the second moment")->capture_default_str();
    app.add_option("--momentum", a.momentum, "of sgd, 0 (none) to below 1")->capture_default_str();
    app.add_flag("--nesterov", a.nesterov, "of sgd: Nesterov's step");
  }

  // An option of the other optimizer would change nothing.
  void choose_optimizer(const CLI::App& app, RecipeOptions& o) const {
    check(optimizer == "adamw" || optimizer == "sgd", "optimizer '{}' is not one of adamw, sgd", optimizer);
    const bool sgd = optimizer == "sgd";
    o.trainer.optimizer.kind = sgd ? OptimizerOptions::sgd : OptimizerOptions::adamw;
    for (const auto& [name, of_sgd] :
         {std::pair("--beta1", false), std::pair("--beta2", false), std::pair("--eps", false),
          std::pair("--momentum", true), std::pair("--nesterov", true)})
      check(of_sgd == sgd || app.count(name) == 0, "{} is an option of the optimizer {}, this is {}", name,
            of_sgd ? "sgd" : "adamw", optimizer);
  }

  template <class Options, class Train>
  void run(const CLI::App& app, Options& o, const Train& train) const {
    choose_optimizer(app, o);
    if (stored == "f16")
      o.stored = DType::f16;
    else if (stored == "bf16")
      o.stored = DType::bf16;
    else
      check(stored == "f32", "dtype '{}' is not one of f32, f16, bf16", stored);
    const auto dev = device.make();
    o.trainer.compute = compute_of(o, *dev);
    o.trainer.updates = updates_of(update);
    refuse_overwriting("out", o.out + "/model.gguf", {{"--corpus", o.corpus}, {"--val", o.validation}});
    Reporter reporter(json);
    reporter.done(train(o, *dev, reporter), how_to_resume(app));
  }

  // A choice that was measured stays what it was: the run would not be the same.
  DType compute_of(const RecipeOptions& o, Device& dev) const {
    if (o.resume && compute.compute == "auto")
      if (const std::optional<DType> before = checkpoint_compute(o.out)) return *before;
    return compute.choose(dev);
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
    app.add_option("--init-scale", o.init_scale, "matrices start as N(0, scale / sqrt(columns))")
        ->capture_default_str();
    add_seed_option(app, o.seed, "seed of weights and shuffling");
    app.add_option("--context", o.context, "positions that the model is made for; 0: the size's own")
        ->capture_default_str();
    app.add_option("--name", o.name, "name of the model, for its card (default: toy)");
    app.footer(
        "\nExample:\n  toy train from-scratch --corpus book.txt --size small --tokenizer spm:512 --steps 2000 --out "
        "out/book\n"
        "stdout has one line a step and ends with the path of the GGUF; progress is on stderr.\n"
        "\nCtrl-C and SIGTERM finish the step, write a checkpoint, print the command that goes on, and end the program "
        "by that signal; a second one ends it at once, and the last checkpoint is whole all the same. A run that was "
        "killed, or whose disk was full, goes on from its last checkpoint:\n"
        "  toy train from-scratch --corpus book.txt --steps 2000 --checkpoint-every 100 --out out/book\n"
        "  toy train from-scratch --corpus book.txt --steps 2000 --checkpoint-every 100 --out out/book --resume");
    app.callback([this, &app] { recipe.run(app, o, train_from_scratch); });
  }
};

struct WarmStart {
  WarmStartOptions o;
  Recipe recipe;

  void add(CLI::App& app) {
    o.lr = 1e-4;  // a trained model is soon unlearnt
    app.add_option("--init", o.init, "a GGUF file (architecture llama) to go on from, with its tokenizer")->required();
    recipe.add(app, o);
    add_seed_option(app, o.seed, "seed of shuffling");
    app.add_option("--context", o.context, "positions that the new file states; 0: as the old one")
        ->capture_default_str();
    app.add_option("--name", o.name, "name of the model, for its card (default: the old one)");
    app.footer(
        "\nAll weights are trained in f32, whatever the file stores; the optimizer begins anew. --init stays as it "
        "is, unless --out is its own folder and it is named model.gguf.\n"
        "\nExample:\n  toy train warm-start --init out/book/model.gguf --corpus letters.txt --steps 500 --out "
        "out/letters");
    app.callback([this, &app] { recipe.run(app, o, train_warm_start); });
  }
};

}  // namespace

void add_train(CLI::App& app) {
  app.require_subcommand(1);
  add_subcommand<FromScratch>(app, "from-scratch", "a new model from a text");
  add_subcommand<WarmStart>(app, "warm-start", "go on from a GGUF with a text");
}

}  // namespace toy::cli
