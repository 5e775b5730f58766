// toy eval: how well a model predicts a text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
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

ordered_json number(double v) { return std::isfinite(v) ? ordered_json(v) : ordered_json(nullptr); }

// A value with the digits that its error leaves, "2.5128 +- 0.0041".
std::string with_error(double value, double error) {
  if (!std::isfinite(error) || error <= 0) return fmt::format("{:.4f}", value);
  const int digits = std::clamp(1 - int(std::floor(std::log10(error))), 0, 8);
  return fmt::format("{:.{}f} +- {:.{}f}", value, digits, error, digits);
}

// How far scoring is, and the loss so far.
class Scored {
 public:
  explicit Scored(const EvalText& text) {
    for (const std::vector<int32_t>& ids : text.documents)
      state_.total += std::max<int64_t>(0, int64_t(ids.size()) - (text.bos ? 0 : 1));
  }
  void count(double nats) {
    nats_ += nats;
    const double gone = steady_seconds() - begin_, per_token = gone / double(++state_.done);
    state_.loss = nats_ / double(state_.done);
    state_.tokens_per_second = 1 / per_token;
    state_.seconds_left = per_token * double(state_.total - state_.done);
    progress_.show(state_);
  }

 private:
  Progress progress_;
  ProgressState state_{.label = "token", .brief = ""};
  double begin_ = steady_seconds(), nats_ = 0;
};

// As line_of() writes them.
bool begins_with_scores(std::string_view beginning) {
  const auto j = parse_json<ordered_json>(beginning.substr(0, beginning.find('\n')));
  return j.is_object() && j.contains("index") && j.contains("id") && j.contains("logprob");
}

struct Eval {
  std::string model_path, file, logprobs_out;
  ScoreOptions o;
  DeviceOptions device;
  bool by_documents = false, no_bos = false, json = false;
  CLI::Option *out_option = nullptr, *top_option = nullptr;

  void add(CLI::App& app) {
    app.add_option("model", model_path, "a GGUF file")->required();
    app.add_option("--file", file, "the text to score; -: standard input")->required();
    app.add_flag("--by-documents", by_documents,
                 "blank lines separate documents, each is read from a fresh state; the line breaks around them do not "
                 "count");
    app.add_option("--ctx", o.context, "tokens of a window; 0: what the model was made for")->capture_default_str();
    app.add_option("--stride", o.stride,
                   "tokens from one window to the next, 1 to --ctx; 0: half of it. Every token is scored once, from at "
                   "least ctx - stride tokens before it where the text has them; smaller is better and slower")
        ->capture_default_str();
    app.add_flag("--no-bos", no_bos,
                 "no beginning-of-sequence token at the beginning of each window or document, whatever the tokenizer "
                 "says. The first token of a text without one is not scored");
    out_option = app.add_option("--logprobs-out", logprobs_out,
                                "a file for JSON Lines, one for each scored token: document, index, id, logprob, top");
    top_option = app.add_option("--top-logprobs", o.top_logprobs, "with --logprobs-out: the K likeliest tokens there")
                     ->capture_default_str();
    add_check_finite(app, o.check_finite);
    app.add_flag("--json", json, "a JSON object on stdout");
    device.add(app);
    app.footer(
        "\nPerplexity is exp of the mean of -log p over the tokens: it depends on the tokenizer. Bits a byte do not, "
        "and\n"
        "compare any two models on the same text. The error is one standard error: of the mean over documents with\n"
        "--by-documents, else over blocks of 64 consecutive tokens.\n"
        "\nExamples:\n"
        "  toy eval out/model.gguf --file test.txt --ctx 128 --stride 32\n"
        "  toy eval out/model.gguf --file stories.txt --by-documents --logprobs-out tokens.jsonl --top-logprobs 5\n"
        "`toy train` validates in windows of its --tokens T at stride T/4, without a beginning-of-sequence token.");
    app.callback([this] { run(); });
  }

  void run() {
    check_context(o.context);
    check(top_option->count() == 0 || out_option->count() > 0,
          "top-logprobs: there is no file for them; give --logprobs-out FILE too");
    if (out_option->count()) {
      check(logprobs_out != "-", "logprobs-out is '-'; stdout has the result, so give a file");
      refuse_overwriting("logprobs-out", logprobs_out, {{"--file", file}, {"the model", model_path}});
      refuse_replacing("logprobs-out", logprobs_out, begins_with_scores);
    }
    const std::string text = read_text(file);
    const auto dev = device.make();
    const Model model = load_model(model_path, *dev);
    print_warnings(model_path, model.warnings);
    check(model.tokenizer != nullptr, "{}: the file has no tokenizer, so it cannot read a text", model_path);
    model.spec.require_positions(o.context, "ctx");
    warn_of_long_context(model_path, model.spec, o.context);
    const std::vector<std::string> documents = by_documents ? split_documents(text) : std::vector<std::string>{text};
    check(!documents.empty(), "by-documents: {} holds no document, only blank lines", file);
    const EvalText ids = tokenize_for_eval(*model.tokenizer, documents, !no_bos);
    std::optional<AtomicFile> lines;
    if (out_option->count()) lines.emplace(logprobs_out);
    std::optional<Scored> scored(ids);
    const TextScore score = score_text(*dev, model, ids, o, [&](const TokenScore& t) {
      if (lines) lines->write(line_of(t));
      scored->count(-t.token.logprob);
    });
    scored.reset();  // before the result is printed
    if (lines) lines->commit();
    print(score, int64_t(documents.size()), model.spec.context);
  }

  std::string line_of(const TokenScore& t) const {
    ordered_json j;
    if (by_documents) j["document"] = t.document;
    j["index"] = t.index;
    j["id"] = t.token.id;
    j["logprob"] = number(t.token.logprob);
    if (o.top_logprobs > 0) {
      j["top"] = ordered_json::array();
      for (const TokenLogprob& b : t.best) j["top"].push_back({{"id", b.id}, {"logprob", number(b.logprob)}});
    }
    return json_text(j) + "\n";
  }

  void print(const TextScore& s, int64_t documents, int64_t model_context) const {
    const int64_t context = o.context > 0 ? o.context : model_context;
    const int64_t stride = o.stride > 0 ? o.stride : std::max<int64_t>(1, context / 2);
    const std::string over = s.blocks_are_documents ? "documents" : fmt::format("blocks of {} tokens", kScoreBlock);
    if (json) {
      const ordered_json j{{"model", model_path},
                           {"file", file},
                           {"ctx", context},
                           {"stride", stride},
                           {"documents", documents},
                           {"tokens", s.tokens},
                           {"bytes", s.bytes},
                           {"nats_per_token", number(s.nats_per_token())},
                           {"nats_per_token_error", number(s.standard_error)},
                           {"perplexity", number(s.perplexity())},
                           {"perplexity_error", number(s.perplexity_error())},
                           {"bits_per_byte", number(s.bits_per_byte())},
                           {"bits_per_byte_error", number(s.bits_per_byte_error())},
                           {"error_over", over},
                           {"error_blocks", s.blocks}};
      fmt::print("{}\n", json_text(j));
      return;
    }
    fmt::print("perplexity {}\n{} nats a token\n{} bits a byte\n", with_error(s.perplexity(), s.perplexity_error()),
               with_error(s.nats_per_token(), s.standard_error),
               with_error(s.bits_per_byte(), s.bits_per_byte_error()));
    const std::string error =
        s.blocks >= 2 ? fmt::format("+- is the standard error over {} {}", s.blocks, over)
                      : fmt::format("no standard error: it needs at least two {}, there is {}", over, s.blocks);
    fmt::print("{} tokens, {} bytes, {} document{}, windows of {} at stride {}; {}\n", s.tokens, s.bytes, documents,
               documents == 1 ? "" : "s", context, stride, error);
  }
};

}  // namespace

void add_eval(CLI::App& app) {
  auto command = std::make_shared<Eval>();
  command->add(app);
  app.parse_complete_callback([command] {});
}

}  // namespace toy::cli
