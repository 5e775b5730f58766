// toy corpus: texts to train on whose exact probability is known, and yardsticks for a model's loss on them.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "toy/base/error.h"
#include "toy/data/text_files.h"
#include "toy/synth/chats.h"
#include "toy/synth/ngram.h"
#include "toy/synth/questions.h"
#include "toy/synth/shapes.h"
#include "toy/synth/stories.h"

namespace toy::cli {
namespace {

void print(bool json, const nlohmann::ordered_json& rate) {
  if (json) return print_json(rate);
  fmt::print("{:.6f} nats/byte\n", rate.at("nats_per_byte").get<double>());
}

int64_t lines_of(std::string_view text) { return std::max<int64_t>(1, std::ranges::count(text, '\n')); }

struct Stories : Command {
  StoryOptions o;
  std::string out;
  bool overwrite = false;
  void add(CLI::App& app) {
    o.bytes = 1'000'000;
    add_option(app, "--bytes", o.bytes, "Length of the text, rounded up to the end of a story",
               from_to(1, double(int64_t(1) << 34)));
    add_option(app, "--seed", o.seed, "Seed of the stories");
    add_option(app, "--out", out, "File to write (default: stdout)", file_name());
    app.add_flag("--overwrite", overwrite, "Replace a text of this name");
  }
  void run() const {
    if (!out.empty())
      refuse_losing("--out", out, overwrite, begins_as_text, [&](std::string_view there) {
        return write_stories({.seed = o.seed, .bytes = int64_t(there.size())});
      });
    const std::string text = write_stories(o);
    if (out.empty()) return (void)std::fwrite(text.data(), 1, text.size(), stdout);
    write_file(out, text);
    fmt::print("{}\n", out);
  }
};

struct Chats : Command {
  int64_t rows = 2000;
  uint64_t seed = 0;
  std::string out;
  bool overwrite = false;
  void add(CLI::App& app) {
    add_option(app, "--rows", rows, "Conversations to write", from_to(1, 1e7));
    add_option(app, "--seed", seed, "Seed of the conversations");
    add_option(app, "--out", out, "File to write (default: stdout)", file_name());
    app.add_flag("--overwrite", overwrite, "Replace a text of this name");
    app.footer(
        "Questions about animals, sums, opposites and names, with their answers. See toy help chat-from-scratch.md.\n\n"
        "Example:\n"
        "  toy corpus chats --rows 4000 --out chats.jsonl");
  }
  void run() const {
    if (!out.empty())
      refuse_losing("--out", out, overwrite, begins_as_text,
                    [&](std::string_view there) { return write_chats(seed, lines_of(there)); });
    const std::string text = write_chats(seed, rows);
    if (out.empty()) return (void)std::fwrite(text.data(), 1, text.size(), stdout);
    write_file(out, text);
    fmt::print("{}\n", out);
  }
};

struct Qa : Command {
  QuestionOptions o;
  int64_t rows = 2000;
  std::string form{name_in_list(o.form)}, out;
  bool overwrite = false;
  void add(CLI::App& app) {
    std::vector<std::string> kinds, forms;
    for (const auto& kind : question_kinds()) kinds.emplace_back(kind.first);
    for (const auto& [name, value] : NamesOf<QuestionForm>::list) forms.emplace_back(name);
    add_option(app, "--rows", rows, "Questions to write", from_to(1, 1e7));
    add_option(app, "--kind", o.kinds, "Kind of question, such as add, or add:3 with its level (default: all)",
               suggested(kinds), not_empty());
    add_option(app, "--level", o.level, "How hard they are, of kinds without a level", from_to(1, 3));
    add_option(app, "--form", form, "Rows to train on, or questions with their answers", one_of(forms));
    app.add_flag("--mixed", o.mixed, "Of chats: a third are the answer alone, others sentences, a tenth are wrong");
    app.add_flag("--held-out", o.held_out, "Write only questions that no rows without --held-out have");
    add_option(app, "--seed", o.seed, "Seed of the questions");
    add_option(app, "--out", out, "File to write (default: stdout)", file_name());
    app.add_flag("--overwrite", overwrite, "Replace a text of this name");
    std::string about;
    for (const auto& [name, what] : question_kinds()) about += fmt::format("\n  {:<10}{}", name, what);
    app.footer("Each question has one right answer. Kinds, which take turns:" + about +
               "\n\nSee toy help evaluation.md.\n\nExamples:\n"
               "  toy corpus qa --rows 100000 --kind add:1 --kind copy --out train.jsonl\n"
               "  toy corpus qa --rows 200 --held-out --form questions --out held.jsonl");
  }
  void run() {
    read_value(form, {}, o.form);
    if (!out.empty())
      refuse_losing("--out", out, overwrite, begins_as_text,
                    [&](std::string_view there) { return write_questions(o, lines_of(there)); });
    const std::string text = write_questions(o, rows);
    if (out.empty()) return (void)std::fwrite(text.data(), 1, text.size(), stdout);
    write_file(out, text);
    fmt::print("{}\n", out);
  }
};

struct Shapes : Command {
  ShapeOptions o;
  std::string out;
  void add(CLI::App& app) {
    add_option(app, "--images", o.images, "Pictures to train on", from_to(10, 1e6));
    add_option(app, "--test", o.test, "Pictures to test with", from_to(0, 1e6));
    add_option(app, "--image-size", o.size, "Their side in pixels", from_to(16, 512));
    add_option(app, "--seed", o.seed, "Seed of the pictures");
    add_option(app, "--out", out, "Folder to write, which must not be there yet", file_name())->required();
    app.footer(
        fmt::format("Shapes of {} kinds, of random place, size, tilt and colours, with noise. No two kinds look "
                    "alike, so a model can "
                    "be right every time. See toy help images.md.\n\n"
                    "Example:\n"
                    "  toy corpus shapes --images 4000 --out shapes",
                    shape_names().size()));
  }
  void run() const {
    write_shapes(o, out);
    fmt::print("{}\n", out);
  }
};

struct Floor : Command {
  std::string file;
  bool json = false;
  void add(CLI::App& app) {
    add_option(app, "--file", file, "Text written by `toy corpus stories`", file_name())->required();
    app.add_flag("--json", json, "Print a JSON object");
  }
  void run() const {
    const StoryScore s = score_stories(read_text_file(file));
    print(json, {{"nats_per_byte", s.nats_per_byte()}, {"nats", s.nats}, {"bytes", s.bytes}, {"stories", s.stories}});
  }
};

struct Ngram : Command {
  std::string train, file;
  bool json = false;
  void add(CLI::App& app) {
    add_option(app, "--train", train, "Text to train on", file_name())->required();
    add_option(app, "--file", file, "Text to score", file_name())->required();
    app.add_flag("--json", json, "Print a JSON object");
  }
  void run() const {
    const NgramModel model = NgramModel::train(read_text_file(train));
    print(json, {{"nats_per_byte", model.nats_per_byte(read_text_file(file))}, {"order", 5}});
  }
};

}  // namespace

void add_corpus(CLI::App& root) {
  CLI::App& app =
      add_command_group(root, "corpus", "Write stories, conversations, questions and pictures, and score text");
  add_subcommand<Stories>(app, "stories", "Write English stories from a random grammar");
  add_subcommand<Chats>(app, "chats", "Write short conversations to train a first chat model on");
  add_subcommand<Qa>(app, "qa", "Write questions that have one right answer");
  add_subcommand<Shapes>(app, "shapes", "Draw pictures of shapes, with a folder for each kind");
  add_subcommand<Floor>(app, "floor", "Print the lowest possible loss on stories, in nats per byte");
  add_subcommand<Ngram>(app, "ngram", "Print the loss of a 5-gram model, which a good model beats");
}

}  // namespace toy::cli
