// toy eval kl, lmc, choices: two models on one text, and questions with several answers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bind/evaluate.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/eval/eval.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/tables.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/eval/choices.h"
#include "toy/eval/compare.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

struct Kl : Command {
  std::string base_path, model_path, base_with, model_with;
  EvalTextOptions text;
  DeviceOptions device;
  DecodingOptions decoding;
  AdapterOptions adapters;
  bool json = false;

  void add(CLI::App& app) {
    begin_group(app, "Model");
    add_option(app, "--base", base_path, "Model to compare with")->required();
    add_option(app, "--model", model_path, "Model to judge; the base with --lora if not given");
    adapters.add(app);
    text.add(app);
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    decoding.add(app);
    add_option(app, "--base-with", base_with, "Settings of the base only, such as 'exact, kv(f32), repack(off)'");
    add_option(app, "--model-with", model_with, "Settings of the model only");
    device.add(app);
    show_in_help(app, {"--base", "--model", "--lora", "--file", "--data", "--ctx", "--json", "--threads"});
    app.footer(
        "The divergence is the sum of p log(p/q) over the vocabulary, with p of the base and q of the model, in nats "
        "per token. It is 0 where both predict alike.\n\n"
        "Examples:\n"
        "  toy eval kl --base model-f16.gguf --model model-q4.gguf --file test.txt\n"
        "  toy eval kl --base model.gguf --lora out/lora --file test.txt\n"
        "  toy eval kl --base model-q4.gguf --base-with exact --file test.txt");
  }

  void run() {
    check(text.file.empty() != text.rows.empty(), "give a text to compare on with --file, or rows with --data");
    check(!model_path.empty() || !adapters.lora.empty() || !base_with.empty() || !model_with.empty(),
          "there is nothing to compare with --base; give --model, --lora, --base-with or --model-with");
    const DecodingOptions of_base = decoding.with("--base-with", base_with),
                          of_model = decoding.with("--model-with", model_with);
    base_path = model_file(base_path);
    model_path = model_path.empty() ? base_path : model_file(model_path);
    const auto dev = device.make();
    const Model base = load_model(base_path, *dev);
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    bind::require_same_vocabulary(base, model);
    const EvalText ids = text.read(base, base_path);
    print_warnings(model_path, model.warnings);
    model.spec.require_positions(text.score.context, "ctx");
    const int64_t total = bind::predicted_tokens(ids);
    const auto options = [&](const DecodingOptions& with, const Model& m) {
      ScoreOptions o = text.score;
      o.kv = with.decoder.kv, o.exact = with.decoder.exact, o.repack = with.repacks(m, 0, total);
      return o;
    };
    EvalProgress progress("token", total);
    double nats = 0;
    int64_t done = 0;
    const Divergence d = with_sound_weights({base_path, model_path}, [&] {
      return compare_models(
          *dev, base, model, ids, options(of_model, model),
          [&](const DivergenceOfToken& t) {
            nats += t.kl;
            progress.next(nats / double(++done));
          },
          options(of_base, base));
    });
    progress.end();
    print(d);
  }

  void print(const Divergence& d) const {
    const std::string over = bind::blocks_name(d.blocks_are_documents);
    const double base = std::exp(d.base.mean), model = std::exp(d.model.mean), ratio = d.perplexity_ratio();
    if (json) {
      ordered_json j{{"base", base_path}, {"model", model_path}, {text.source().first, text.source().second}};
      j.update(bind::divergence_fields(d));
      return print_json(j);
    }
    fmt::print("KL divergence {} nats per token\n", with_error(d.kl.mean, d.kl.error));
    fmt::print("  median {:.3g}, 90% {:.3g}, 95% {:.3g}, 99% {:.3g}, 99.9% {:.3g}, largest {:.3g}\n", d.quantiles[0],
               d.quantiles[1], d.quantiles[2], d.quantiles[3], d.quantiles[4], d.quantiles[5]);
    fmt::print("same most likely token {}\n", percent(d.same_top));
    fmt::print("perplexity {:.4g} of the base, {:.4g} of the model, ratio {}\n", base, model,
               with_error(ratio, ratio * d.difference.error));
    fmt::print("probability of the text's tokens {}{}, root mean square {:.3g}%\n", d.probability.mean >= 0 ? "+" : "",
               percent(d.probability), 100 * d.probability_rms);
    fmt::print("{} tokens; +- is the standard error over {} {}\n", d.tokens, d.blocks, over);
    if (d.quantiles.back() == 0) fmt::print("the models are equal on this text: every prediction is the same\n");
  }
};

struct Lmc : Command {
  std::string a_path, b_path, alphas = "0,0.25,0.5,0.75,1";
  EvalTextOptions text;
  DeviceOptions device;
  bool json = false;

  void add(CLI::App& app) {
    begin_group(app, "Model");
    add_option(app, "--a", a_path, "Model at alpha 0")->required();
    add_option(app, "--b", b_path, "Model at alpha 1, with the same tensors")->required();
    add_option(app, "--alphas", alphas, "Where on the line to measure, separated by commas");
    text.add(app);
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object per alpha");
    device.add(app);
    show_in_help(app, {"--a", "--b", "--alphas", "--file", "--data", "--ctx", "--json", "--threads"});
    app.footer(
        "Linear mode connectivity (Frankle et al. 2020): the loss of the weights (1 - alpha) a + alpha b, in f32. The "
        "barrier is the most that it lies above the line between both ends; two models in one valley have none.\n\n"
        "Example:\n  toy eval lmc --a out/one --b out/two --alphas 0,0.5,1 --file test.txt");
  }

  std::vector<double> parsed() const {
    std::vector<double> list;
    for (size_t begin = 0; begin <= alphas.size();) {
      const size_t end = std::min(alphas.find(',', begin), alphas.size());
      const std::string word = alphas.substr(begin, end - begin);
      size_t used = 0;
      double value = NAN;
      try {
        value = std::stod(word, &used);
      } catch (const std::exception&) {
      }
      check(!word.empty() && used == word.size() && std::isfinite(value),
            "--alphas is '{}'; '{}' is no number, use e.g. 0,0.5,1", alphas, word);
      list.push_back(value);
      begin = end + 1;
    }
    return list;
  }

  void run() {
    const std::vector<double> list = parsed();
    check(text.file.empty() != text.rows.empty(), "give a text to score with --file, or rows with --data");
    a_path = model_file(a_path), b_path = model_file(b_path);
    const auto dev = device.make();
    const Model a = load_model(a_path, *dev), b = load_model(b_path, *dev);
    require_same_shape(a.spec, b.spec);
    bind::require_same_vocabulary(a, b);
    Model mixed = load_model(a_path, *dev, LoadMode::trainable);
    const EvalText ids = text.read(a, a_path);
    print_warnings(b_path, b.warnings);
    EvalProgress progress("token", bind::predicted_tokens(ids) * int64_t(list.size()));
    std::vector<TextScore> scores;
    for (const double alpha : list) {
      interpolate(a, b, alpha, mixed);
      scores.push_back(with_sound_weights({a_path, b_path}, [&] {
        return score_text(*dev, mixed, ids, text.score, [&](const TokenScore& t) { progress.next(-t.token.logprob); });
      }));
    }
    progress.end();
    print(list, scores);
  }

  void print(const std::vector<double>& list, const std::vector<TextScore>& scores) const {
    if (json) {
      ordered_json j{{"a", a_path}, {"b", b_path}, {text.source().first, text.source().second}};
      j.update(bind::line_fields(list, scores));
      return print_json(j);
    }
    std::vector<std::vector<std::string>> rows{{"alpha", "nats per token", "perplexity"}};
    for (size_t i = 0; i < list.size(); ++i)
      rows.push_back({fmt::format("{}", list[i]), with_error(scores[i].nats_per_token(), scores[i].standard_error),
                      fmt::format("{:.4g}", scores[i].perplexity())});
    fmt::print("{}", table(rows, {true, true, true}, 1000));
    if (const auto most = bind::barrier_of(list, scores)) fmt::print("barrier {:.4f} nats per token\n", *most);
  }
};

struct Choices : Command {
  std::string model_path, file;
  ChoicesOptions o;
  DeviceOptions device;
  DecodingOptions decoding;
  AdapterOptions adapters;
  int64_t limit = 0;
  bool json = false;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    adapters.add(app);
    begin_group(app, "Data");
    add_option(app, "file", file, "Questions, one JSON object per line", file_name())->required();
    add_option(app, "--limit", limit, "Read only the first questions; 0 reads all", at_least(0));
    add_parse_special(app, o.parse_special);
    begin_group(app, "Batch");
    add_context_option(app, o.context, "Tokens of a question at most; 0 takes the model's context");
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    decoding.add(app);
    device.add(app);
    show_in_help(app, {"--lora", "--limit", "--ctx", "--json", "--threads"});
    app.footer(
        "A row is one of HellaSwag, ARC, PIQA or WinoGrande as published, or {\"prompt\": ..., \"choices\": [...], "
        "\"answer\": N}. The model answers with the choice that it finds most likely; the normalized score divides by "
        "the number of characters.\n\n"
        "Example:\n  toy eval choices model.gguf hellaswag_val.jsonl --limit 1000");
  }

  void run() {
    model_path = model_file(model_path, file);
    const std::vector<std::string> paths{file};
    std::vector<Question> questions = read_questions(list_text_files(paths).files.at(0));
    if (limit > 0) questions.resize(std::min(questions.size(), size_t(limit)));
    o.kv = decoding.decoder.kv, o.exact = decoding.decoder.exact;
    const auto dev = device.make();
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    require_tokenizer(model, model_path);
    print_warnings(model_path, model.warnings);
    model.spec.require_positions(o.context, "ctx");
    o.repack = decoding.repacks(model, 0, 100 * int64_t(questions.size()));
    EvalProgress progress("question", int64_t(questions.size()));
    const ChoicesScore s = with_sound_weights({model_path}, [&] {
      return score_choices(*dev, model, questions, o,
                           [&](const Question&, const AnsweredQuestion&) { progress.next(); });
    });
    progress.end();
    if (json) {
      ordered_json j{{"model", model_path}, {"file", file}};
      j.update(bind::choices_fields(s));
      return print_json(j);
    }
    fmt::print("accuracy {}\nnormalized by length {}\n", percent(s.accuracy), percent(s.accuracy_normalized));
    fmt::print("{} question{}{}\n", s.questions, s.questions == 1 ? "" : "s",
               s.cut ? fmt::format(", {} of them cut at their beginning to fit the context", s.cut) : "");
  }
};

}  // namespace

void add_eval_kl(CLI::App& app) { add_subcommand<Kl>(app, "kl", "Compare a model's predictions with those of a base"); }
void add_eval_lmc(CLI::App& app) { add_subcommand<Lmc>(app, "lmc", "Measure the loss on the line between two models"); }
void add_eval_choices(CLI::App& app) {
  add_subcommand<Choices>(app, "choices", "Answer questions by the likeliest choice");
}

}  // namespace toy::cli
