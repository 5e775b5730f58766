// toy eval kl and toy eval lmc: two models and a text.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/eval.h"
#include "cli/model_file.h"
#include "toy/base/error.h"
#include "toy/eval/compare.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// Both models read the same tokens, which is only fair where both would make them of this text.
void require_same_tokens(const EvalText& a, const Model& other, const std::string& path,
                         std::span<const std::string> documents, bool bos) {
  require_tokenizer(other, path);
  const EvalText b = tokenize_for_eval(*other.tokenizer, documents, bos);
  check(a.bos == b.bos && a.documents == b.documents,
        "{}: its tokenizer gives other tokens for this text; compare models with bits per byte (toy eval) instead",
        path);
}

std::string percent(MeanWithError m) { return with_error(100 * m.mean, 100 * m.error) + " %"; }

ordered_json to_json(MeanWithError m) { return {{"mean", m.mean}, {"error", m.error}}; }

struct Kl : Command {
  std::string base_path, model_path;
  EvalOptions o;
  AdapterOptions adapters;
  bool json = false;

  void add(CLI::App& app) {
    begin_group(app, "Model");
    add_option(app, "--base", base_path, "Model to compare with: what was quantized or trained on", file_name())
        ->required();
    add_option(app, "--model", model_path, "Model to compare; with --lora the base, if not given", file_name());
    adapters.add(app);
    o.add_text(app);
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    o.add_machine(app);
    show_in_help(app, {"--base", "--model", "--lora", "--file", "--by-documents", "--ctx", "--json", "--threads"});
    app.footer(
        "Reads the text with both models side by side. KL divergence is that of the model's predictions from the "
        "base's, in nats per token. See docs/evaluation.md.\n\n"
        "Examples:\n"
        "  toy eval kl --base model.gguf --model small.gguf --file test.txt\n"
        "  toy eval kl --base model.gguf --lora out/letters --file test.txt");
  }

  void run() {
    check(!model_path.empty() || !adapters.lora.empty(), "--model is missing: the model to compare; or give --lora");
    base_path = model_file(base_path);
    model_path = model_path.empty() ? base_path : model_file(model_path);
    const std::vector<std::string> documents = o.documents();
    const auto dev = o.device.make();
    const Model base = load_model(base_path, *dev);
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    const EvalText ids = o.tokens(base, base_path, documents);
    if (model_path != base_path) {
      model.spec.require_positions(o.context(base), "ctx");
      require_same_tokens(ids, model, model_path, documents, !o.no_bos);
      print_warnings(model_path, model.warnings);
    }
    std::optional<EvalProgress> progress(std::in_place, scored_tokens(ids));
    const Divergence d = compare_models(*dev, base, model, ids, o.score, [&](int64_t done) { progress->show(done); });
    progress.reset();
    if (json) return print_object(d, base);
    print(d, base);
  }

  void print_object(const Divergence& d, const Model& base) const {
    ordered_json kl = to_json(d.kl), change = to_json(d.change);
    kl["percentiles"] = percentiles(d.kl_percentiles);
    change["rms"] = d.rms_change;
    change["percentiles"] = percentiles(d.change_percentiles);
    const MeanWithError ratio = as_ratio(d.log_ratio);
    print_json({{"base", base_path},
                {"model", model_path},
                {"lora", adapters.lora},
                {"file", o.file},
                {"ctx", o.context(base)},
                {"stride", o.stride(base)},
                {"tokens", d.tokens},
                {"bytes", d.bytes},
                {"kl", kl},
                {"same_top", to_json(d.same_top)},
                {"base_nats_per_token", to_json(d.base_nats)},
                {"nats_per_token", to_json(d.nats)},
                {"base_perplexity", as_ratio(d.base_nats).mean},
                {"perplexity", as_ratio(d.nats).mean},
                {"log_perplexity_ratio", to_json(d.log_ratio)},
                {"perplexity_ratio", ratio.mean},
                {"perplexity_ratio_error", ratio.error},
                {"probability_change", change},
                {"error_over", error_over(d.blocks_are_documents)},
                {"error_blocks", d.blocks}});
  }

  void print(const Divergence& d, const Model& base) const {
    const auto line = [](const char* name, const std::string& value) { fmt::print("{:<24}{}\n", name, value); };
    const auto both = [](MeanWithError m) { return with_error(m.mean, m.error); };
    line("KL divergence", both(d.kl));
    line("same likeliest token", percent(d.same_top));
    line("perplexity", both(as_ratio(d.nats)));
    line("perplexity of base", both(as_ratio(d.base_nats)));
    line("ratio", both(as_ratio(d.log_ratio)));
    line("change of probability", percent(d.change) + fmt::format(", rms {:.3f} %", 100 * d.rms_change));
    fmt::print("\npercentile  KL divergence  change of probability\n");
    for (size_t i = 0; i < kPercentiles.size(); ++i)
      fmt::print("{:>9}{}  {:13.6f}  {:19.3f} %\n", name_of_percentile(i), "", d.kl_percentiles[i],
                 100 * d.change_percentiles[i]);
    fmt::print("\n{} tokens, {} bytes, windows of {} at stride {}; {}\n", d.tokens, d.bytes, o.context(base),
               o.stride(base), error_note(d.blocks_are_documents, d.blocks));
  }

  // exp of a mean, its error to first order.
  static MeanWithError as_ratio(MeanWithError m) { return {std::exp(m.mean), std::exp(m.mean) * m.error}; }

  static std::string name_of_percentile(size_t i) {
    const double p = kPercentiles[i];
    return p == 100 ? "maximum" : p == 50 ? "median" : p == 0 ? "minimum" : fmt::format("{} %", p);
  }

  static ordered_json percentiles(const std::array<double, kPercentiles.size()>& values) {
    ordered_json j;
    for (size_t i = 0; i < values.size(); ++i) j[fmt::format("{}", kPercentiles[i])] = values[i];
    return j;
  }
};

// "0,0.25,1" as numbers.
std::vector<double> parse_alphas(const std::string& text) {
  std::vector<double> list;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    char* rest = nullptr;
    const double alpha = std::strtod(item.c_str(), &rest);
    check(!item.empty() && *rest == 0 && std::isfinite(alpha),
          "--alphas is '{}', and '{}' is no number; use numbers such as 0,0.25,0.5,0.75,1", text, item);
    list.push_back(alpha);
    begin = end + 1;
  }
  return list;
}

struct Lmc : Command {
  std::string a_path, b_path, alphas = "0,0.25,0.5,0.75,1";
  EvalOptions o;
  bool json = false;

  void add(CLI::App& app) {
    begin_group(app, "Model");
    add_option(app, "--a", a_path, "Model at alpha 0", file_name())->required();
    add_option(app, "--b", b_path, "Model at alpha 1, with the same tensors", file_name())->required();
    add_option(app, "--alphas", alphas, "Places on the line, separated by commas");
    o.add_text(app);
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    o.add_machine(app);
    show_in_help(app, {"--a", "--b", "--alphas", "--file", "--by-documents", "--ctx", "--json", "--threads"});
    app.footer(
        "Weights are (1 - alpha) A + alpha B, in f32. The barrier is the highest loss above the line between the "
        "losses at 0 and 1 (Frankle et al. 2020). See docs/evaluation.md.\n\n"
        "Example:\n"
        "  toy eval lmc --a out/first --b out/second --file test.txt");
  }

  void run() {
    const std::vector<double> places = parse_alphas(alphas);
    a_path = model_file(a_path), b_path = model_file(b_path);
    const std::vector<std::string> documents = o.documents();
    const auto dev = o.device.make();
    const Model a = load_model(a_path, *dev), b = load_model(b_path, *dev);
    Model between = load_model(a_path, *dev, LoadMode::trainable);
    LineOfModels line(a, b, between, dev->threads());
    const EvalText ids = o.tokens(between, a_path, documents);
    require_same_tokens(ids, b, b_path, documents, !o.no_bos);
    const int64_t each = scored_tokens(ids);
    std::optional<EvalProgress> progress(std::in_place, each * int64_t(places.size()));
    std::vector<TextScore> scores;
    int64_t done = 0;
    for (const double alpha : places) {
      line.move_to(alpha);
      double nats = 0;
      const int64_t before = done;
      scores.push_back(score_text(*dev, between, ids, o.score, [&](const TokenScore& t) {
        nats -= t.token.logprob;
        ++done;
        progress->show(done, nats / double(done - before));
      }));
    }
    progress.reset();
    print(places, scores, between);
  }

  // The highest loss above the line between those at 0 and 1; none unless both are there.
  static std::optional<double> barrier(const std::vector<double>& places, const std::vector<TextScore>& scores) {
    const auto at = [&](double alpha) -> std::optional<double> {
      const auto found = std::ranges::find(places, alpha);
      if (found == places.end()) return std::nullopt;
      return scores[size_t(found - places.begin())].nats_per_token();
    };
    const std::optional<double> first = at(0), last = at(1);
    if (!first || !last) return std::nullopt;
    double highest = 0;
    for (size_t i = 0; i < places.size(); ++i)
      highest = std::max(highest, scores[i].nats_per_token() - ((1 - places[i]) * *first + places[i] * *last));
    return highest;
  }

  void print(const std::vector<double>& places, const std::vector<TextScore>& scores, const Model& model) const {
    const std::optional<double> highest = barrier(places, scores);
    if (json) {
      ordered_json list = ordered_json::array();
      for (size_t i = 0; i < places.size(); ++i)
        list.push_back({{"alpha", places[i]},
                        {"nats_per_token", scores[i].nats_per_token()},
                        {"nats_per_token_error", scores[i].standard_error},
                        {"perplexity", scores[i].perplexity()},
                        {"bits_per_byte", scores[i].bits_per_byte()}});
      return print_json({{"a", a_path},
                         {"b", b_path},
                         {"file", o.file},
                         {"ctx", o.context(model)},
                         {"stride", o.stride(model)},
                         {"tokens", scores[0].tokens},
                         {"line", list},
                         {"barrier", highest ? ordered_json(*highest) : ordered_json()}});
    }
    fmt::print("   alpha  nats per token      perplexity\n");
    for (size_t i = 0; i < places.size(); ++i)
      fmt::print("{:>8}  {:<18}  {}\n", fmt::format("{}", places[i]),
                 with_error(scores[i].nats_per_token(), scores[i].standard_error),
                 with_error(scores[i].perplexity(), scores[i].perplexity_error()));
    if (highest) fmt::print("barrier {:.4f} nats per token\n", *highest);
    fmt::print("{} tokens, windows of {} at stride {}; {}\n", scores[0].tokens, o.context(model), o.stride(model),
               error_note(scores[0].blocks_are_documents, scores[0].blocks));
  }
};

}  // namespace

void add_eval_kl(CLI::App& app) { add_subcommand<Kl>(app, "kl", "How predictions of two models differ on a text"); }
void add_eval_lmc(CLI::App& app) {
  add_subcommand<Lmc>(app, "lmc", "Loss on the line between the weights of two models");
}

}  // namespace toy::cli
