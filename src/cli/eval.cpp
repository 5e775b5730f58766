// toy eval: how well a model predicts a text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/console.h"
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

// A value with the digits that its error leaves, "2.5128 +- 0.0041".
std::string with_error(double value, double error) {
  if (!std::isfinite(error) || error <= 0) return fmt::format("{:.4f}", value);
  const int digits = std::clamp(1 - int(std::floor(std::log10(error))), 0, 8);
  return fmt::format("{:.{}f} +- {:.{}f}", value, digits, error, digits);
}

// As line_of() writes them.
bool begins_with_scores(std::string_view beginning) {
  const auto j = parse_json<ordered_json>(beginning.substr(0, beginning.find('\n')));
  return j.is_object() && j.contains("index") && j.contains("id") && j.contains("logprob");
}

struct Eval : Command {
  std::string model_path, file, logprobs_out;
  ScoreOptions o;
  DeviceOptions device;
  DecodingOptions decoding;
  AdapterOptions adapters;
  bool by_documents = false, no_bos = false, json = false;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    adapters.add(app);
    begin_group(app, "Data");
    add_option(app, "--file", file, "Text to score; - reads standard input", file_name())->required();
    app.add_flag("--by-documents", by_documents, "Score documents, separated by blank lines, each from a fresh state");
    app.add_flag("--no-bos", no_bos, "Omit the beginning-of-sequence token");
    begin_group(app, "Batch");
    add_context_option(app, o.context, "Tokens per window; 0 takes the model's context");
    add_option(app, "--stride", o.stride, "Tokens between windows, at most --ctx; 0 takes half of it", at_least(0));
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    add_option(app, "--logprobs-out", logprobs_out, "File for the logprob of each token, as JSON Lines", file_name());
    add_option(app, "--top-logprobs", o.top_logprobs, "With --logprobs-out, also the N likeliest tokens", at_least(0));
    decoding.add(app);
    device.add(app);
    add_check_finite(app, o.check_finite);
    show_in_help(app, {"--file", "--by-documents", "--ctx", "--stride", "--json", "--logprobs-out", "--threads"});
    app.footer(
        "Perplexity depends on the tokenizer; bits per byte compare any two models on the same text. Errors are "
        "standard errors over documents, or over blocks of 64 tokens.\n\n"
        "Examples:\n"
        "  toy eval out/book --file test.txt\n"
        "  toy eval out/book --file test.txt --logprobs-out tokens.jsonl --top-logprobs 5");
  }

  void run() {
    model_path = model_file(model_path);
    check(!given("--top-logprobs") || !logprobs_out.empty(), "--top-logprobs needs a file; add --logprobs-out FILE");
    if (!logprobs_out.empty()) {
      check(logprobs_out != "-", "--logprobs-out is '-', but stdout has the result; give a file");
      refuse_overwriting("logprobs-out", logprobs_out, {{"--file", file}, {"the model", model_path}});
      refuse_replacing("logprobs-out", logprobs_out, begins_with_scores);
    }
    o.kv = decoding.type(), o.exact = decoding.exact;
    const std::string text = read_text(file);
    const auto dev = device.make();
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    require_tokenizer(model, model_path);
    print_warnings(model_path, model.warnings);
    model.spec.require_positions(o.context, "ctx");
    warn_of_long_context(model_path, model.spec, o.context);
    const std::vector<std::string> documents = by_documents ? split_documents(text) : std::vector<std::string>{text};
    check(!documents.empty(), "--by-documents: {} has only blank lines; give a text", file);
    const EvalText ids = tokenize_for_eval(*model.tokenizer, documents, !no_bos);
    std::optional<AtomicFile> lines;
    if (!logprobs_out.empty()) lines.emplace(logprobs_out);
    ProgressState state{.label = "token", .brief = "", .loss = 0};
    for (const std::vector<int32_t>& document : ids.documents)
      state.total += std::max<int64_t>(0, int64_t(document.size()) - (ids.bos ? 0 : 1));
    std::optional<Progress> progress(std::in_place);
    o.repack = decoding.repacks(model, 0, state.total);
    const double begin = steady_seconds();
    double nats = 0;
    const auto take = [&](const TokenScore& t) {
      if (lines) lines->write(line_of(t));
      nats -= t.token.logprob;
      state.loss = nats / double(++state.done);
      state.tokens_per_second = double(state.done) / (steady_seconds() - begin);
      state.seconds_left = double(state.total - state.done) / state.tokens_per_second;
      progress->show(state);
    };
    TextScore score;
    try {
      score = score_text(*dev, model, ids, o, take);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::failure) refuse_broken_weights(model_path);
      throw;
    }
    progress.reset();  // before the result is printed
    if (lines) lines->commit();
    print(score, int64_t(documents.size()), model);
  }

  std::string line_of(const TokenScore& t) const {
    ordered_json j;
    if (by_documents) j["document"] = t.document;
    j["index"] = t.index;
    j["id"] = t.token.id;
    j["logprob"] = t.token.logprob;
    if (o.top_logprobs > 0) {
      j["top"] = ordered_json::array();
      for (const TokenLogprob& b : t.best) j["top"].push_back({{"id", b.id}, {"logprob", b.logprob}});
    }
    return json_text(j) + "\n";
  }

  void print(const TextScore& s, int64_t documents, const Model& model) const {
    const int64_t context = o.context > 0 ? o.context : model.spec.context;
    const DecoderOptions options{.kv = o.kv, .exact = o.exact};
    const int64_t stride = o.stride > 0 ? o.stride : std::max<int64_t>(1, context / 2);
    const std::string over = s.blocks_are_documents ? "documents" : fmt::format("blocks of {} tokens", kScoreBlock);
    if (json)
      return print_json({{"model", model_path},
                         {"file", file},
                         {"ctx", context},
                         {"stride", stride},
                         {"documents", documents},
                         {"tokens", s.tokens},
                         {"bytes", s.bytes},
                         {"nats_per_token", s.nats_per_token()},
                         {"nats_per_token_error", s.standard_error},
                         {"perplexity", s.perplexity()},
                         {"perplexity_error", s.perplexity_error()},
                         {"bits_per_byte", s.bits_per_byte()},
                         {"bits_per_byte_error", s.bits_per_byte_error()},
                         {"error_over", over},
                         {"error_blocks", s.blocks},
                         {"products", products_name(rounds_activations(model, options))},
                         {"kv", name_of(decode_shape(model, options).kv)}});
    fmt::print("perplexity {}\n{} nats per token\n{} bits per byte\n", with_error(s.perplexity(), s.perplexity_error()),
               with_error(s.nats_per_token(), s.standard_error),
               with_error(s.bits_per_byte(), s.bits_per_byte_error()));
    const std::string error =
        s.blocks >= 2 ? fmt::format("+- is the standard error over {} {}", s.blocks, over)
                      : fmt::format("no standard error: it needs at least two {} and has {}", over, s.blocks);
    fmt::print("{} tokens, {} bytes, {} document{}, windows of {} at stride {}; {}\n", s.tokens, s.bytes, documents,
               documents == 1 ? "" : "s", context, stride, error);
  }
};

}  // namespace

void add_eval(CLI::App& app) { add_subcommand<Eval>(app, "eval", "Score text: perplexity, bits per byte, logprobs"); }

}  // namespace toy::cli
