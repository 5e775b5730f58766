// toy data: examples for fine-tuning as a model sees them.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/train/contact_sheet.h"
#include "cli/train/data_check.h"
#include "toy/base/error.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"
#include "toy/chat/builtin.h"
#include "toy/train/data.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// What counts in the loss stands between these.
struct Marks {
  std::string begin = "[[", end = "]]";
};

std::string shown(const Tokenizer& tokenizer, const Example& e, const Marks& marks) {
  std::string out, part;
  bool trained = false;
  const auto flush = [&] {
    if (part.empty()) return;
    out += trained ? marks.begin + printable(part) + marks.end : printable(part);
    part.clear();
  };
  for (size_t i = 0; i < e.ids.size(); ++i) {
    if (bool(e.trained[i]) != trained) flush();
    trained = e.trained[i];
    part += tokenizer.written(e.ids[i]);
  }
  flush();
  return out;
}

ordered_json to_json(const Tokenizer& tokenizer, const Example& e) {
  std::string text;
  for (const int32_t id : e.ids) text += tokenizer.written(id);
  return {{"tokens", e.ids.size()},
          {"counted", e.counted()},
          {"ids", e.ids},
          {"trained", e.trained},
          {"text", valid_utf8(text)}};
}

struct Show : Command {
  std::string file, model;
  DataOptions data;
  ContactSheet sheet;
  int64_t rows = 10;
  bool json = false;

  void add(CLI::App& app) {
    add_option(
        app, "file", file,
        "File of examples: JSON Lines, a JSON list, .csv or .tsv; - reads standard input. With --augment a folder "
        "of pictures",
        file_name())
        ->required();
    begin_group(app, "Model");
    CLI::Option* with_model =
        add_option(app, "--model", model, "GGUF file with the tokenizer and the chat template", file_name());
    add_listed(app, data, {"chat_template", "train_on", "bad_rows", "map"});
    begin_group(app, "Pictures");
    add_option(app, "--augment", sheet.out, "Draw pictures and what training makes of them: PNG file to write",
               file_name())
        ->excludes(with_model);
    add_option(app, "--image-size", sheet.size, "Side of the pictures in pixels; 0 takes that of the data",
               from_to(0, 4096));
    add_option(app, "--seed", sheet.seed, "Seed of the run");
    add_listed(app, sheet.augment);
    begin_group(app, "Output");
    add_option(app, "--rows,-n", rows, "Rows to show; 0 shows all, of pictures at most 100", at_least(0));
    app.add_flag("--json", json, "Print a JSON object per row");
    show_in_help(app,
                 {"--model", "--chat-template", "--train-on", "--bad-rows", "--map", "--augment", "--rows", "--json"});
    app.footer(
        "Prints each row as the model sees it. What counts in the loss is colored, or stands in [[ ]]. See "
        "toy help data.md.\n\n"
        "Examples:\n"
        "  toy data show chats.jsonl --model out/book/model.gguf\n"
        "  toy data show pictures --augment sheet.png --rand-augment 2");
  }

  // What belongs to examples means nothing for pictures, and the other way round.
  void run_on_pictures() const {
    for (const char* option : {"--chat-template", "--train-on", "--bad-rows", "--map", "--json"})
      check(!given(option), "{} is about texts, and --augment about pictures; remove one of them", option);
    ContactSheet s = sheet;
    s.data = file, s.rows = rows;
    fmt::print("{}", draw_contact_sheet(s));
    to_stderr(fmt::format("toy: {}: each row is a picture, and then seven changes of it as in training\n", s.out));
  }

  void run() const {
    if (!sheet.out.empty()) return run_on_pictures();
    bool of_pictures = given("--image-size") || given("--seed");
    AugmentOptions::fields(sheet.augment,
                           [&](const Option& option, const auto&) { of_pictures |= given(option.flag().c_str()); });
    check(!of_pictures, "the options of pictures need --augment with a PNG file to write");
    check(!model.empty(), "--model is required; give a GGUF file with a tokenizer, or --augment for pictures");
    const gguf::File source = gguf::File::open(model_file(model, file));
    check(
        !spec_from_gguf(source).score.classifies(),
        "{0}: it is a classifier, and rows are shown as models that write learn them; toy eval classify {0} {1} scores "
        "rows with labels",
        shell_quoted(model), shell_quoted(file));
    const auto tokenizer = load_tokenizer(source);
    check(tokenizer != nullptr, "{}: the file has no tokenizer; give a model that has one", source.path());
    std::optional<ChatTemplate> chat =
        data.chat_template.empty() ? load_chat_template(source) : chat_template_named(data.chat_template, *tokenizer);
    const ExampleMaker maker(*tokenizer, chat ? &*chat : nullptr, data.train_on,
                             {.renamed = parse_field_map(data.map)});
    const Marks marks = has_color(STDOUT_FILENO) ? Marks{"\x1b[32m", "\x1b[0m"} : Marks{};
    const TextFiles files = list_text_files(std::span(&file, 1));
    int64_t done = 0;
    for (const TextFile& one : files.files) {
      ExampleReading reading{.skip_bad_rows = data.bad_rows == DataOptions::skip};
      reading.warn = [](const std::string& text) { to_stderr(text + "\n"); };
      reading.take = [&](const ExampleRow& row, int64_t line) {
        print(*tokenizer, one.path, line, row, marks);
        return ++done != rows;
      };
      read_examples(one, maker, reading);
      if (rows > 0 && done == rows) return;
    }
    check(done > 0, "{}: there is no row to show", file);
  }

  void print(const Tokenizer& tokenizer, const std::string& path, int64_t line, const ExampleRow& row,
             const Marks& marks) const {
    if (json) {
      ordered_json j{{"file", path}, {"line", line}, {"kind", name_of(row.kind)}};
      j.update(to_json(tokenizer, row.example));
      if (row.kind == RowKind::rated) j["label"] = row.good;
      if (row.rejected) j["rejected"] = to_json(tokenizer, *row.rejected);
      return print_json(j);
    }
    const auto one = [&](std::string_view what, const Example& e) {
      fmt::print("{}:{}: {}, {} tokens, {} in the loss\n{}\n\n", path, line, what, e.ids.size(), e.counted(),
                 shown(tokenizer, e, marks));
    };
    const bool preference = row.rejected || row.kind == RowKind::rated;
    one(!preference ? name_of(row.kind) : row.good ? "chosen" : "rejected", row.example);
    if (row.rejected) one("rejected", *row.rejected);
  }
};

}  // namespace

void add_data(CLI::App& root) {
  CLI::App& app = add_command_group(root, "data", "Show and check examples for fine-tuning");
  add_subcommand<Show>(app, "show", "Print rows of a file with their loss mask");
  add_subcommand<DataCheck>(app, "check", "Say which rows of files cannot be used, and why");
}

}  // namespace toy::cli
