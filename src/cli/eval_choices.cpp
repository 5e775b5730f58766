// toy eval choices: questions with a few given answers.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/eval.h"
#include "cli/model_file.h"
#include "cli/prompts.h"
#include "toy/base/error.h"
#include "toy/eval/choices.h"

namespace toy::cli {
namespace {

struct Choices : Command {
  std::string model_path, file;
  ChoiceOptions o;
  int64_t limit = 0;
  bool no_bos = false, json = false;
  DeviceOptions device;
  DecodingOptions decoding;
  AdapterOptions adapters;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    add_option(app, "file", file, "JSON Lines file of questions; - reads standard input", file_name())->required();
    adapters.add(app);
    begin_group(app, "Data");
    add_option(app, "--limit", limit, "Score only the first N questions; 0 scores all", at_least(0));
    app.add_flag("--no-bos", no_bos, "Omit the beginning-of-sequence token");
    add_context_option(app, o.context, "Tokens that the model sees; 0 takes the model's context");
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    decoding.add(app);
    device.add(app);
    add_check_finite(app, o.check_finite);
    show_in_help(app, {"--lora", "--limit", "--ctx", "--json", "--threads"});
    app.footer(
        "Takes files of HellaSwag, ARC and WinoGrande as they are published, and rows with prompt, choices and answer. "
        "Prompts are those of lm-evaluation-harness, without examples. See docs/evaluation.md.\n\n"
        "Examples:\n"
        "  toy eval choices model.gguf hellaswag_val.jsonl --limit 1000\n"
        "  toy eval choices base.gguf questions.jsonl --lora out/letters");
  }

  void run() {
    model_path = model_file(model_path);
    const std::vector<ChoiceQuestion> questions = read_questions();
    const auto dev = device.make();
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    require_tokenizer(model, model_path);
    print_warnings(model_path, model.warnings);
    model.spec.require_positions(o.context, "ctx");
    warn_of_long_context(model_path, model.spec, o.context);
    o.bos = !no_bos, o.kv = decoding.type(), o.exact = decoding.exact;
    int64_t bytes = 0;
    for (const ChoiceQuestion& q : questions)
      for (const Choice& c : q.choices) bytes += int64_t(c.text.size());
    o.repack = decoding.repacks(model, 0, bytes / 4);  // about as many tokens
    std::optional<EvalProgress> progress(std::in_place, int64_t(questions.size()), "question");
    const ChoiceScore score = score_choices(*dev, model, questions, o,
                                            [&](size_t i, const ChoiceResult&) { progress->show(int64_t(i) + 1); });
    progress.reset();
    print(score);
  }

  std::vector<ChoiceQuestion> read_questions() const {
    const std::string text = read_text(file);
    std::vector<ChoiceQuestion> questions;
    int64_t number = 0;
    for (size_t begin = 0; begin < text.size() && (limit == 0 || int64_t(questions.size()) < limit);) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      begin = end + 1;
      ++number;
      if (line.find_first_not_of(" \t\r") != line.npos)
        questions.push_back(parse_choice_question(fmt::format("{}:{}", file, number), line));
    }
    check(!questions.empty(), "{}: it has no questions, only blank lines", file);
    return questions;
  }

  void print(const ChoiceScore& s) const {
    const double raw = s.accuracy(), normalized = s.accuracy_by_character();
    if (json)
      return print_json({{"model", model_path},
                         {"lora", adapters.lora},
                         {"file", file},
                         {"questions", s.questions},
                         {"acc", raw},
                         {"acc_stderr", s.error(raw)},
                         {"acc_norm", normalized},
                         {"acc_norm_stderr", s.error(normalized)},
                         {"chance", s.chance},
                         {"truncated", s.truncated},
                         {"tokens", s.tokens},
                         {"shared_tokens", s.shared}});
    fmt::print("accuracy {}\n", with_error(raw, s.error(raw)));
    fmt::print("accuracy by character {}\n", with_error(normalized, s.error(normalized)));
    fmt::print("{} question{}, guessing gives {:.4f}; +- is the standard error over questions\n", s.questions,
               s.questions == 1 ? "" : "s", s.chance);
    if (s.truncated > 0)
      to_stderr(
          fmt::format("toy: {} questions lost the beginning of their context; use a larger --ctx\n", s.truncated));
  }
};

}  // namespace

void add_eval_choices(CLI::App& app) {
  add_subcommand<Choices>(app, "choices", "Accuracy on questions with given answers");
}

}  // namespace toy::cli
