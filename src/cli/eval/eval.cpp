// toy eval: how well a model predicts a text.
#include "cli/eval/eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "bind/evaluate.h"
#include "bind/score_fields.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/run/classify.h"
#include "cli/run/prompts.h"
#include "cli/stray_words.h"
#include "toy/base/atomic_file.h"
#include "toy/base/clock.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/base/gguf_name.h"
#include "toy/base/json_text.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"
#include "toy/chat/builtin.h"
#include "toy/eval/score.h"
#include "toy/models/embedding_rule.h"

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
  EvalTextOptions text;
  DeviceOptions device;
  DecodingOptions decoding;
  AdapterOptions adapters;
  bool json = false;

  void add(CLI::App& app) {
    app.require_subcommand(0, 1);
    add_model_option(app, model_path);
    adapters.add(app);
    text.add(app, "Rows whose answers are scored, as training counts them; or a folder of pictures");
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    add_option(app, "--logprobs-out", logprobs_out, "File for the logprob of each token, as JSON Lines", file_name());
    add_option(app, "--top-logprobs", text.score.top_logprobs, "With --logprobs-out, also the N likeliest tokens",
               at_least(0));
    decoding.add(app, {"check_finite"});
    device.add(app);
    show_in_help(app,
                 {"--file", "--data", "--by-documents", "--ctx", "--stride", "--json", "--logprobs-out", "--threads"});
    app.footer(
        "Perplexity depends on the tokenizer; bits per byte compare any two models on the same text. Errors are "
        "standard errors over documents, or over blocks of 64 tokens.\n\n"
        "Examples:\n"
        "  toy eval out/book --file test.txt\n"
        "  toy eval out/pirate --data held-out.jsonl\n"
        "  toy eval out/digits --data digits --json\n"
        "  toy eval out/book --file test.txt --logprobs-out tokens.jsonl --top-logprobs 5\n"
        "  toy eval kl --base model.gguf --model small.gguf --file test.txt\n"
        "  toy eval choices model.gguf hellaswag_val.jsonl\n"
        "  toy eval generate model.gguf questions.jsonl\n"
        "  toy eval retrieval minilm.gguf pairs.jsonl\n"
        "  toy eval classify out/mood held-out.jsonl");
    add_eval_kl(app);
    add_eval_lmc(app);
    add_eval_choices(app);
    add_eval_generate(app);
    add_eval_sts(app);
    add_eval_retrieval(app);
    add_eval_classify(app);
  }

  void run() {
    if (!parser->get_subcommands().empty()) return;
    check(text.file.empty() || text.rows.empty(), "--file and --data exclude each other; give one of them");
    check(!model_path.empty(), "MODEL is missing; write toy eval MODEL --file TEXT");
    check(text.file.empty() != text.rows.empty(),
          "there is nothing to score; write toy eval {} --file TEXT, or --data for rows or pictures",
          shell_quoted(model_path));
    ScoreOptions& o = text.score;
    std::error_code error;
    check(
        is_model_file(model_path) || !is_model_file(text.file) || !std::filesystem::is_regular_file(model_path, error),
        "{0} is a model, and {1} is none; did you mean toy eval {0} --file {1}?", shell_quoted(text.file),
        shell_quoted(model_path));
    model_path = model_file(model_path);
    if (!text.rows.empty() && spec_from_gguf(gguf::File::open(model_path)).vision.there()) {
      refuse_options_of_text(*parser, "--data");
      return eval_images(*device.make(), model_path, text.rows, json);
    }
    check(!given("--top-logprobs") || !logprobs_out.empty(), "--top-logprobs needs a file; add --logprobs-out FILE");
    if (!logprobs_out.empty()) {
      check(logprobs_out != "-", "--logprobs-out is '-', but stdout has the result; give a file");
      refuse_overwriting("logprobs-out", logprobs_out,
                         {{"--file", text.file}, {"--data", text.rows}, {"the model", model_path}});
      refuse_replacing("logprobs-out", logprobs_out, begins_with_scores);
    }
    o.kv = decoding.decoder.kv, o.exact = decoding.decoder.exact, o.check_finite = decoding.decoder.check_finite;
    const auto dev = device.make();
    require_room_to_decode(*dev, model_path, {.context = kPagePositions});  // the least
    Model model = load_model(model_path, *dev);
    require_causal(model.spec);
    adapters.apply(model);
    const EvalText ids = text.read(model, model_path);
    std::optional<AtomicFile> lines;
    if (!logprobs_out.empty()) lines.emplace(logprobs_out);
    const int64_t total = bind::predicted_tokens(ids);
    o.repack = decoding.repacks(model, 0, total);
    EvalProgress progress("token", total);
    double nats = 0;
    int64_t done = 0;
    const TextScore score = with_sound_weights({model_path}, [&] {
      return score_text(
          *dev, model, ids, o,
          [&](const TokenScore& t) {
            if (lines) lines->write(line_of(t));
            nats -= t.token.logprob;
            if (++done, text.rows.empty()) progress.next(nats / double(done));
          },
          [&](int64_t read, int64_t all) {  // of rows, long parts may not count
            if (!text.rows.empty())
              progress.reached(read, all, done > 0 ? std::optional(nats / double(done)) : std::nullopt);
          });
    });
    progress.end();
    if (lines) lines->commit();
    print(score, text.documents(), model, *dev);
  }

  std::string line_of(const TokenScore& t) const {
    ordered_json j;
    if (text.by_documents || !text.rows.empty()) j["document"] = t.document;
    j["index"] = t.index;
    j["id"] = t.token.id;
    j["logprob"] = t.token.logprob;
    if (text.score.top_logprobs > 0) {
      j["top"] = ordered_json::array();
      for (const TokenLogprob& b : t.best) j["top"].push_back({{"id", b.id}, {"logprob", b.logprob}});
    }
    return json_text(j) + "\n";
  }

  void print(const TextScore& s, int64_t documents, const Model& model, const Device& dev) const {
    const ScoreOptions& o = text.score;
    const int64_t context = o.context > 0 ? o.context : model.spec.context;
    const DecoderOptions options{.kv = o.kv, .exact = o.exact};
    const int64_t stride = o.stride > 0 ? o.stride : std::max<int64_t>(1, context / 2);
    const std::string over =
        s.blocks_are_documents && !text.rows.empty() ? "rows" : bind::blocks_name(s.blocks_are_documents);
    if (json) {
      ordered_json all{
          {"model", model_path}, {text.source().first, text.source().second}, {"ctx", context}, {"stride", stride}};
      all[text.rows.empty() ? "documents" : "rows"] = documents;
      all.update(bind::score_fields(s));
      all.update({{"error_over", over},
                  {"error_blocks", s.blocks},
                  {"products", products_name(rounds_activations(dev, model, options))},
                  {"kv", name_of(decode_shape(model, options).kv)}});
      return print_json(all);
    }
    fmt::print("perplexity {}\n{} nats per token, {:.4f} per byte\n{} bits per byte\n",
               with_error(s.perplexity(), s.perplexity_error()), with_error(s.nats_per_token(), s.standard_error),
               s.nats_per_byte(), with_error(s.bits_per_byte(), s.bits_per_byte_error()));
    const std::string error =
        s.blocks >= 2 ? fmt::format("+- is the standard error over {} {}", s.blocks, over)
                      : fmt::format("no standard error: it needs at least two {} and has {}", over, s.blocks);
    fmt::print("{} tokens{}, {} bytes, {} {}{}, windows of {} at stride {}; {}\n", s.tokens,
               text.rows.empty() ? "" : " of answers", s.bytes, documents, text.rows.empty() ? "document" : "row",
               documents == 1 ? "" : "s", context, stride, error);
  }
};

}  // namespace

void EvalTextOptions::add(CLI::App& app, const char* data) {
  begin_group(app, "Data");
  add_option(app, "--file", file, "Text to score; - reads standard input", file_name());
  add_option(app, "--data", rows, data, file_name());
  add_listed(app, row_options, {"chat_template", "train_on", "bad_rows", "map"});
  app.add_flag("--by-documents", by_documents, "Score documents, separated by blank lines, each from a fresh state");
  app.add_flag("--no-bos", no_bos, "Omit the beginning-of-sequence token");
  add_parse_special(app, parse_special);
  begin_group(app, "Batch");
  add_context_option(app, score.context, "Tokens per window; 0 takes the model's context");
  add_option(app, "--stride", score.stride, "Tokens between windows, at most --ctx; 0 takes half of it", at_least(0));
  for (const char* name : {"--chat-template", "--train-on", "--bad-rows", "--map"})
    of_rows_.push_back(app.get_option(name));
  for (const char* name : {"--by-documents", "--no-bos", "--parse-special"}) of_text_.push_back(app.get_option(name));
}

// The answers of held-out rows, as the validation of a training sees them.
EvalText EvalTextOptions::read_rows(const Model& model, const std::string& path) {
  const auto chat = row_options.chat_template.empty()
                        ? load_chat_template(gguf::File::open(path))
                        : std::optional(chat_template_named(row_options.chat_template, *model.tokenizer));
  const ExampleMaker maker(*model.tokenizer, chat ? &*chat : nullptr, row_options.train_on,
                           {.renamed = parse_field_map(row_options.map)});
  std::vector<Example> examples;
  ExampleReading reading{.skip_bad_rows = row_options.bad_rows == DataOptions::skip};
  reading.warn = [](const std::string& text) { to_stderr(text + "\n"); };
  reading.take = [&](const ExampleRow& row, int64_t) {
    if (row.kind != RowKind::rated || row.good) examples.push_back(row.example);
    return true;
  };
  for (const TextFile& one : list_text_files(std::span(&rows, 1)).files) read_examples(one, maker, reading);
  check(!examples.empty(), "{}: there is no row to score", rows);
  documents_ = int64_t(examples.size());
  const int64_t context = score.context > 0 ? score.context : model.spec.context;
  const int64_t long_ones =
      std::ranges::count_if(examples, [&](const Example& e) { return int64_t(e.ids.size()) > context; });
  if (long_ones > 0)
    to_stderr(
        fmt::format("toy: {}: {} longer than the context of {} tokens, so the model does not see the beginning "
                    "when it reads the end\n",
                    one_line(rows), counted(long_ones, "row is", "rows are"), context));
  return examples_for_eval(*model.tokenizer, std::move(examples));
}

EvalText EvalTextOptions::read(const Model& model, const std::string& path) {
  for (const CLI::Option* o : rows.empty() ? of_rows_ : of_text_)
    check(o->count() == 0, "{} is about {}, which is not given; remove it", o->get_name(),
          rows.empty() ? "--data" : "--file");
  const std::string text = rows.empty() ? read_text(file) : "";
  require_tokenizer(model, path);
  print_warnings(path, model.warnings);
  model.spec.require_positions(score.context, "ctx");
  warn_of_long_context(path, model.spec, score.context);
  if (!rows.empty()) return read_rows(model, path);
  check(!is_utf16(text), "{}: {}", file, why_not_text(text));
  if (!is_utf8(text))
    to_stderr(
        fmt::format("toy: {}: it is not UTF-8, so single bytes are scored there, no letters; convert it, "
                    "such as with iconv -f latin1 -t utf-8\n",
                    one_line(file)));
  if (is_json_lines(text) || is_json_list(text))
    to_stderr(fmt::format("toy: {0}: these are rows of JSON, which are scored as text; --data {0} scores the answers\n",
                          one_line(file)));
  const std::vector<std::string> documents = by_documents ? split_documents(text) : std::vector<std::string>{text};
  check(!documents.empty(), "--by-documents: {} has only blank lines; give a text", file);
  documents_ = int64_t(documents.size());
  return tokenize_for_eval(*model.tokenizer, documents, !no_bos, {.parse_special = parse_special});
}

EvalProgress::EvalProgress(std::string_view label, int64_t total)
    : state_{.label = label, .brief = "", .total = total}, begin_(steady_seconds()), progress_(std::in_place) {}

void EvalProgress::next(std::optional<double> loss) { reached(state_.done + 1, state_.total, loss); }

void EvalProgress::reached(int64_t done, int64_t total, std::optional<double> loss) {
  state_.loss = loss;
  state_.done = done, state_.total = total;
  const double per_second = double(state_.done) / (steady_seconds() - begin_);
  if (loss) state_.tokens_per_second = per_second;
  state_.seconds_left = double(state_.total - state_.done) / per_second;
  progress_->show(state_);
}

std::string with_error(double value, double error) {
  constexpr double kMany = 1e9;  // a model that has diverged
  if (value > kMany) return fmt::format("{:.4g}", value);
  if (!std::isfinite(error) || error <= 0) return fmt::format("{:.4f}", value);
  const int digits = std::clamp(1 - int(std::floor(std::log10(error))), 0, 8);
  return fmt::format("{:.{}f} +- {:.{}f}", value, digits, error, digits);
}

std::string percent(const MeanError& m) {
  return (m.error > 0 ? with_error(100 * m.mean, 100 * m.error) : fmt::format("{:.4g}", 100 * m.mean)) + "%";
}

void add_eval(CLI::App& app) { add_subcommand<Eval>(app, "eval", "Score text or questions, or compare two models"); }

}  // namespace toy::cli
