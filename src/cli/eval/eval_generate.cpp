// toy eval generate: questions whose answers a model writes.
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
#include "cli/run/chat_template_option.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/eval/open_questions.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

struct EvalGenerate : Command {
  std::string model_path, file;
  OpenOptions o;
  AdapterOptions adapters;
  ChatTemplateOption chat_template;
  DeviceOptions device;
  DecodingOptions decoding;
  int64_t limit = 0, parallel = 16;
  bool json = false, rows = false;

  EvalGenerate() { o.generate.max_tokens = 256; }

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    adapters.add(app);
    begin_group(app, "Data");
    add_option(app, "file", file, "Questions, one JSON object per line", file_name())->required();
    add_option(app, "--limit", limit, "Read only the first questions; 0 reads all", at_least(0));
    add_parse_special(app, o.parse_special);
    chat_template.add(app);
    begin_group(app, "Sampling");
    add_listed(app, o.generate.sampler, {"temperature", "top_p"});
    add_option(app, "--seed", o.generate.sampler.seed, "Seed of the first answer; the next ones have the next numbers");
    begin_group(app, "Output");
    add_option(app, "-n,--n", o.generate.max_tokens, "Tokens of an answer (default: 256, or half of the context)",
               at_least(1));
    add_text_option(app, "--stop", o.stops, "End an answer before this string");
    app.add_flag("--ignore-case", o.match.ignore_case, "Compare answers without regard to case");
    app.add_flag("--ignore-punctuation", o.match.ignore_punctuation, "Compare answers without ASCII punctuation");
    app.add_flag("--json", json, "Print a JSON object");
    app.add_flag("--rows", rows, "With --json, also print every answer");
    begin_group(app, "Machine");
    add_context_option(app, o.context, "Positions of prompt and answer; 0 takes the model's context");
    add_option(app, "--parallel", parallel, "Answers to write at once", from_to(1, 1024));
    decoding.add(app);
    device.add(app);
    show_in_help(app, {"--lora", "--limit", "--n", "--stop", "--ignore-case", "--ignore-punctuation", "--json",
                       "--rows", "--threads"});
    app.footer(
        "A row is {\"prompt\": ..., \"answer\": ...}, or has \"messages\" for a prompt and \"answers\" for several "
        "right "
        "ones, and a \"kind\" to group by. An answer is right if it equals one of them, apart from white space at both "
        "ends.\n\n"
        "Example:\n  toy eval generate model.gguf questions.jsonl --n 32 --stop \".\" --ignore-case");
  }

  void run() {
    check(json || !rows, "--rows needs JSON; add --json");
    model_path = model_file(model_path, file);
    const std::vector<std::string> paths{file};
    std::vector<OpenQuestion> questions = read_open_questions(list_text_files(paths).files.at(0));
    if (limit > 0) questions.resize(std::min(questions.size(), size_t(limit)));
    const StopFilter stops_are_sound(o.stops);
    o.kv = decoding.decoder.kv, o.exact = decoding.decoder.exact, o.sequences = int(parallel);
    const auto dev = device.make();
    require_room_to_decode(*dev, model_path, {.context = kPagePositions});  // the least
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    require_tokenizer(model, model_path);
    const std::optional<ChatTemplate> chat = chat_template.load(model, model_path);
    print_warnings(model_path, model.warnings);
    model.spec.require_positions(o.context, "ctx");
    warn_of_long_context(model_path, model.spec, o.context);
    if (!given("--n")) o.generate.max_tokens = bind::usual_answer_tokens(model, o.context);
    o.repack = decoding.repacks(model, o.generate.max_tokens * int64_t(questions.size()), 0);
    o.warn = [](const std::string& text) { to_stderr(text + "\n"); };
    EvalProgress progress("question", int64_t(questions.size()));
    const OpenScore score = with_sound_weights({model_path}, [&] {
      return score_open_questions(*dev, model, chat, questions, o, [&](size_t, const OpenAnswer&) { progress.next(); });
    });
    progress.end();
    json ? print_report(questions, score) : print(score);
  }

  void print_report(const std::vector<OpenQuestion>& questions, const OpenScore& s) const {
    ordered_json j{{"model", model_path}, {"file", file}};
    j.update(bind::answers_fields(questions, s, o, rows));
    print_json(j);
  }

  void print(const OpenScore& s) const {
    fmt::print("accuracy {}\n{} question{}", percent(s.accuracy), s.answers.size(), s.answers.size() == 1 ? "" : "s");
    if (s.unfinished > 0)
      fmt::print("; {} answer{} cut after {} tokens (--n)", s.unfinished, s.unfinished == 1 ? " was" : "s were",
                 o.generate.max_tokens);
    if (s.cut > 0) fmt::print("; {} cut at their beginning to fit the context", s.cut);
    fmt::print("\n");
    for (const auto& [kind, k] : s.kinds)
      fmt::print("{:<16} {:>14}  {} question{}\n", kind, percent(k.accuracy), k.questions, k.questions == 1 ? "" : "s");
  }
};

}  // namespace

void add_eval_generate(CLI::App& app) {
  add_subcommand<EvalGenerate>(app, "generate", "Answer questions in writing; exact matches are right");
}

}  // namespace toy::cli
