// toy eval: how well a model predicts a text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/eval.h"
#include "cli/model_file.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/prompts.h"
#include "toy/base/atomic_file.h"
#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/eval/score.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// As line_of() writes them.
bool begins_with_scores(std::string_view beginning) {
  const auto j = parse_json<ordered_json>(beginning.substr(0, beginning.find('\n')));
  return j.is_object() && j.contains("index") && j.contains("id") && j.contains("logprob");
}

struct Eval : Command {
  std::string model_path, logprobs_out;
  EvalOptions o;
  AdapterOptions adapters;
  bool json = false;

  void add(CLI::App& app) {
    app.require_subcommand(0, 1);
    add_model_option(app, model_path);
    adapters.add(app);
    o.add_text(app, false);
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    add_option(app, "--logprobs-out", logprobs_out, "File for the logprob of each token, as JSON Lines", file_name());
    add_option(app, "--top-logprobs", o.score.top_logprobs, "With --logprobs-out, also the N likeliest tokens",
               at_least(0));
    o.add_machine(app);
    show_in_help(app, {"--file", "--by-documents", "--ctx", "--stride", "--json", "--logprobs-out", "--threads"});
    app.footer(
        "Perplexity depends on the tokenizer; bits per byte compare any two models on the same text. Errors are "
        "standard errors over documents, or over blocks of 64 tokens. See docs/evaluation.md.\n\n"
        "Examples:\n"
        "  toy eval out/book --file test.txt\n"
        "  toy eval out/book --file test.txt --logprobs-out tokens.jsonl --top-logprobs 5");
    add_eval_kl(app);
    add_eval_choices(app);
    add_eval_lmc(app);
  }

  void run() {
    if (!parser->get_subcommands().empty()) return;
    check(!model_path.empty(), "model is missing: a GGUF file, or the folder of a run; see `toy eval --help`");
    check(!o.file.empty(), "--file is missing: the text to score; see `toy eval --help`");
    model_path = model_file(model_path);
    check(!given("--top-logprobs") || !logprobs_out.empty(), "--top-logprobs needs a file; add --logprobs-out FILE");
    if (!logprobs_out.empty()) {
      check(logprobs_out != "-", "--logprobs-out is '-', but stdout has the result; give a file");
      refuse_overwriting("logprobs-out", logprobs_out, {{"--file", o.file}, {"the model", model_path}});
      refuse_replacing("logprobs-out", logprobs_out, begins_with_scores);
    }
    const std::vector<std::string> documents = o.documents();
    const auto dev = o.device.make();
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    const EvalText ids = o.tokens(model, model_path, documents);
    std::optional<AtomicFile> lines;
    if (!logprobs_out.empty()) lines.emplace(logprobs_out);
    std::optional<EvalProgress> progress(std::in_place, scored_tokens(ids));
    double nats = 0;
    int64_t done = 0;
    const TextScore score = score_text(*dev, model, ids, o.score, [&](const TokenScore& t) {
      if (lines) lines->write(line_of(t));
      nats -= t.token.logprob;
      ++done;
      progress->show(done, nats / double(done));
    });
    progress.reset();  // before the result is printed
    if (lines) lines->commit();
    print(score, int64_t(documents.size()), model);
  }

  std::string line_of(const TokenScore& t) const {
    ordered_json j;
    if (o.by_documents) j["document"] = t.document;
    j["index"] = t.index;
    j["id"] = t.token.id;
    j["logprob"] = t.token.logprob;
    if (o.score.top_logprobs > 0) {
      j["top"] = ordered_json::array();
      for (const TokenLogprob& b : t.best) j["top"].push_back({{"id", b.id}, {"logprob", b.logprob}});
    }
    return json_text(j) + "\n";
  }

  void print(const TextScore& s, int64_t documents, const Model& model) const {
    const DecoderOptions options{.kv = o.score.kv, .exact = o.score.exact};
    if (json)
      return print_json({{"model", model_path},
                         {"file", o.file},
                         {"ctx", o.context(model)},
                         {"stride", o.stride(model)},
                         {"documents", documents},
                         {"tokens", s.tokens},
                         {"bytes", s.bytes},
                         {"nats_per_token", s.nats_per_token()},
                         {"nats_per_token_error", s.standard_error},
                         {"perplexity", s.perplexity()},
                         {"perplexity_error", s.perplexity_error()},
                         {"bits_per_byte", s.bits_per_byte()},
                         {"bits_per_byte_error", s.bits_per_byte_error()},
                         {"error_over", error_over(s.blocks_are_documents)},
                         {"error_blocks", s.blocks},
                         {"products", products_name(rounds_activations(model, options))},
                         {"kv", name_of(decode_shape(model, options).kv)}});
    fmt::print("perplexity {}\n{} nats per token\n{} bits per byte\n", with_error(s.perplexity(), s.perplexity_error()),
               with_error(s.nats_per_token(), s.standard_error),
               with_error(s.bits_per_byte(), s.bits_per_byte_error()));
    fmt::print("{} tokens, {} bytes, {} document{}, windows of {} at stride {}; {}\n", s.tokens, s.bytes, documents,
               documents == 1 ? "" : "s", o.context(model), o.stride(model),
               error_note(s.blocks_are_documents, s.blocks));
  }
};

}  // namespace

void EvalOptions::add_text(CLI::App& app, bool file_required) {
  begin_group(app, "Data");
  add_option(app, "--file", file, "Text to score; - reads standard input", file_name())->required(file_required);
  app.add_flag("--by-documents", by_documents, "Score documents, separated by blank lines, each from a fresh state");
  app.add_flag("--no-bos", no_bos, "Omit the beginning-of-sequence token");
  begin_group(app, "Batch");
  add_context_option(app, score.context, "Tokens per window; 0 takes the model's context");
  add_option(app, "--stride", score.stride, "Tokens between windows, at most --ctx; 0 takes half of it", at_least(0));
}

void EvalOptions::add_machine(CLI::App& app) {
  decoding.add(app);
  device.add(app);
  add_check_finite(app, score.check_finite);
}

std::vector<std::string> EvalOptions::documents() const {
  const std::string text = read_text(file);
  if (!by_documents) return {text};
  std::vector<std::string> parts = split_documents(text);
  check(!parts.empty(), "--by-documents: {} has only blank lines; give a text", file);
  return parts;
}

EvalText EvalOptions::tokens(const Model& model, const std::string& path, std::span<const std::string> documents) {
  require_tokenizer(model, path);
  print_warnings(path, model.warnings);
  model.spec.require_positions(score.context, "ctx");
  warn_of_long_context(path, model.spec, score.context);
  const EvalText ids = tokenize_for_eval(*model.tokenizer, documents, !no_bos);
  score.kv = decoding.type(), score.exact = decoding.exact;
  score.repack = decoding.repacks(model, 0, scored_tokens(ids));
  return ids;
}

int64_t scored_tokens(const EvalText& text) {
  int64_t n = 0;
  for (const std::vector<int32_t>& d : text.documents)
    n += std::max<int64_t>(0, int64_t(d.size()) - (text.bos ? 0 : 1));
  return n;
}

EvalProgress::EvalProgress(int64_t total, std::string_view label)
    : state_{.label = label, .brief = "", .done = 0, .total = total}, begin_(steady_seconds()) {}

void EvalProgress::show(int64_t done, std::optional<double> loss) {
  const double per_second = double(done) / (steady_seconds() - begin_);
  state_.done = done, state_.loss = loss;
  if (state_.label == "token") state_.tokens_per_second = per_second;
  state_.seconds_left = double(state_.total - done) / per_second;
  progress_.show(state_);
}

std::string with_error(double value, double error) {
  if (!std::isfinite(error) || error <= 0) return fmt::format("{:.4f}", value);
  const int digits = std::clamp(1 - int(std::floor(std::log10(error))), 0, 8);
  return fmt::format("{:.{}f} +- {:.{}f}", value, digits, error, digits);
}

std::string error_over(bool documents) {
  return documents ? "documents" : fmt::format("blocks of {} tokens", kScoreBlock);
}

std::string error_note(bool documents, int64_t blocks) {
  return blocks >= 2
             ? fmt::format("+- is the standard error over {} {}", blocks, error_over(documents))
             : fmt::format("no standard error: it needs at least two {} and has {}", error_over(documents), blocks);
}

void add_eval(CLI::App& app) {
  add_subcommand<Eval>(app, "eval", "Score text, answers to choices, or how two models differ");
}

}  // namespace toy::cli
