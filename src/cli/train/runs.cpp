// toy runs: what training runs have written.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/tables.h"
#include "cli/train/run_files.h"
#include "cli/train/runs_stop.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/data/text_files.h"
#include "toy/runs/card.h"
#include "toy/runs/report.h"
#include "toy/runs/run.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;
using runs::Log;
using runs::Summary;

constexpr const char* kRunHelp = "A run's folder, its events.jsonl, or the start of its id";

struct Opened {
  Log log;
  Summary summary;
};

// The folder of a log, so that it can be found from anywhere.
std::string folder_of(const std::string& log) {
  return std::filesystem::absolute(log).lexically_normal().parent_path().string();
}

Opened open_run(const std::string& what) {
  const std::string path = runs::find_log(what, kRunRoots);
  Opened o{runs::read_events(path), {}};
  o.summary = runs::summarize(o.log, folder_of(path), runs::is_being_written(path));
  print_warnings(one_line(path), o.log.warnings);
  return o;
}

// Several, told apart.
std::pair<std::vector<Log>, std::vector<Summary>> open_runs(const std::vector<std::string>& names) {
  std::pair<std::vector<Log>, std::vector<Summary>> all;
  for (const std::string& name : names) {
    Opened o = open_run(name);
    all.first.push_back(std::move(o.log));
    all.second.push_back(std::move(o.summary));
  }
  runs::name_apart(all.second);
  return all;
}

// How charts and tables are drawn on stdout.
struct ScreenOptions {
  int columns = 0, rows = 12;
  bool ascii = false;

  void add(CLI::App& app) {
    add_width(app, "Columns of a chart; 0 takes the terminal's, or 80");
    add_option(app, "--height", rows, "Rows of a chart", from_to(3, 200));
    app.add_flag("--ascii", ascii, "Draw without Unicode");
  }
  void add_width(CLI::App& app, const char* help) { add_option(app, "--width", columns, help, from_to_or_0(8, 1000)); }
  runs::Terminal terminal() const {
    return {.columns = columns > 0 ? columns : terminal_width(STDOUT_FILENO),
            .rows = rows,
            .unicode = !ascii && has_unicode(),
            .color = has_color(STDOUT_FILENO)};
  }
  // All columns of a table where nobody says how many, and nobody looks at it on a terminal.
  int table_columns() const { return columns == 0 && !is_terminal(STDOUT_FILENO) ? 100000 : terminal().columns; }
};

struct List : Command {
  std::vector<std::string> folders;
  std::string sort = "started";
  bool reverse = false, json = false;
  ScreenOptions screen;

  void add(CLI::App& app) {
    add_option(app, "folder", folders, "Folders to search, four levels deep (default: this one)", folder_name());
    std::vector<std::string> names;
    for (const runs::Column& c : runs::columns()) names.push_back(c.name);
    add_option(app, "--sort", sort, fmt::format("Column to sort by: {}", fmt::join(names, ", ")), one_of(names));
    app.add_flag("--reverse", reverse, "Sort in descending order");
    app.add_flag("--json", json, "Print one JSON object per line, with every column");
    screen.add_width(app, "Columns of the table; 0 takes the terminal's, or all");
  }

  void run() {
    const runs::Column& by = runs::column(sort);
    std::vector<Summary> list;
    for (const std::string& root : folders.empty() ? kRunRoots : folders) {
      for (const std::string& folder : runs::find_runs(root)) add_run(folder, list);
    }
    if (list.empty())
      to_stderr(fmt::format("no runs in {}, four levels deep; `toy train` writes one to its --out\n",
                            folders.empty() ? "this folder" : fmt::format("{}", fmt::join(folders, ", "))));
    runs::sort_by(list, by, reverse);
    if (!json && !list.empty()) print(list);
    for (const Summary& s : list)
      if (json) print_json(to_json(s));
  }

 private:
  // One log that cannot be read must not hide the others.
  static void add_run(const std::string& folder, std::vector<Summary>& list) {
    const std::string path = folder + "/" + runs::kEventsFile;
    try {
      list.push_back(runs::summarize_file(path, folder_of(path), runs::is_being_written(path)));
    } catch (const Error& e) {
      to_stderr(fmt::format("toy: {}\n", one_line(e.what())));
    }
  }
  void print(const std::vector<Summary>& list) const {
    std::vector<std::vector<std::string>> rows(1);
    std::vector<bool> right;
    std::vector<const runs::Column*> shown;
    for (const runs::Column& c : runs::columns()) {
      const auto has_it = [&](const Summary& s) { return runs::to_text(c, s) != "-"; };
      if (!c.in_list || (c.if_any && std::none_of(list.begin(), list.end(), has_it))) continue;
      shown.push_back(&c);
      rows[0].push_back(c.title), right.push_back(!std::holds_alternative<std::string>(c.cell({})));
    }
    for (const Summary& s : list) {
      rows.emplace_back();
      for (const runs::Column* c : shown) rows.back().push_back(one_line(runs::to_text(*c, s)));
    }
    put_line(table(rows, right, screen.table_columns()));
  }
};

// Files of a kind begin alike as far as `until`, and all have `mark` soon after it.
struct FileKind {
  const char *until, *mark;
};
constexpr FileKind kChart{" viewBox=", " data-log=\""}, kReport{"<title>", "<style>"};

void replace_own(const char* option, const std::string& path, const std::string& text, const FileKind& kind) {
  const std::string_view common = std::string_view(text).substr(0, text.find(kind.until));
  refuse_replacing(option, path, [&](std::string_view there) {
    return there.starts_with(common) && there.find(kind.mark) != there.npos;
  });
  write_file(path, text);
}

struct Show : Command {
  std::string run_name, svg;
  std::vector<std::string> metrics;
  ScreenOptions screen;
  bool json = false;

  void add(CLI::App& app) {
    add_option(app, "run", run_name, kRunHelp, file_name())->required();
    const std::vector<std::string> known = runs::metrics();
    add_option(app, "--metric", metrics,
               fmt::format("Curves to draw: {} (default: loss, grad_norm, lr)", fmt::join(known, ", ")), one_of(known))
        ->delimiter(',');
    add_option(app, "--svg", svg, "Folder to write the curves to, as METRIC.svg", folder_name());
    app.add_flag("--json", json, "Print the summary as a JSON object, without curves");
    screen.add(app);
  }

  void run() {
    for (const char* of_curves : {"--metric", "--svg", "--width", "--height", "--ascii"})
      check(!json || !given(of_curves), "--json is the summary, which has no curves; leave {} out", of_curves);
    const Opened o = open_run(run_name);
    if (json) return print_json(to_json(o.summary));
    std::vector<runs::Curve> curves = runs::curves(o.log);
    for (const std::string& m : metrics)
      check(std::any_of(curves.begin(), curves.end(), [&](const runs::Curve& c) { return c.metric == m; }),
            "metric: the run has no {}", m);
    if (metrics.empty() && svg.empty()) metrics = {"loss", "grad_norm", "lr"};
    std::erase_if(curves, [&](const runs::Curve& c) {
      return !metrics.empty() && std::find(metrics.begin(), metrics.end(), c.metric) == metrics.end();
    });
    if (!svg.empty()) return draw(curves);
    std::vector<std::pair<std::string, std::string>> facts;
    for (const runs::Column& c : runs::columns())
      if (const std::string text = runs::to_text(c, o.summary); text != "-")
        facts.emplace_back(c.title, one_line(text));
    put_line(card(facts, screen.table_columns()));
    for (const runs::Curve& c : curves) put_line("\n" + runs::to_terminal(c.chart, screen.terminal()));
  }

 private:
  void draw(const std::vector<runs::Curve>& curves) const {
    std::error_code error;
    std::filesystem::create_directories(svg, error);
    check(!error && std::filesystem::is_directory(svg), "svg: cannot make the folder '{}'", svg);
    for (const runs::Curve& c : curves) {
      const std::string path = (std::filesystem::path(svg) / (c.metric + ".svg")).string();
      replace_own("svg", path, runs::to_svg(c.chart, {.width = 720, .height = 360}), kChart);
      put_line(path + "\n");
    }
  }
};

struct CompareRuns : Command {
  std::vector<std::string> names;
  std::string metric = "loss", svg;
  ScreenOptions screen;
  bool json = false;

  void add(CLI::App& app) {
    add_option(app, "runs", names, "Two runs or more, each a folder, events.jsonl or id", file_name())->required();
    add_option(app, "--metric", metric, "Curve: loss, validation_loss, lr, grad_norm or tokens_per_second");
    add_option(app, "--svg", svg, "File to draw the curves to", file_name());
    app.add_flag("--json", json, "Print one compare event per metric, without curves");
    screen.add(app);
  }

  void run() {
    check(names.size() >= 2, "compare: there is one run; name a second one, or use `toy runs show`");
    const runs::Terminal terminal = screen.terminal();
    const auto [logs, list] = open_runs(names);
    const runs::Chart chart = runs::compare_chart(metric, logs, runs::short_names(list));
    if (!svg.empty()) replace_own("svg", svg, runs::to_svg(chart, {.width = 720, .height = 380}), kChart);
    const std::vector<runs::Compare> metrics = runs::compare(list);
    if (json) {
      for (const runs::Compare& c : metrics) put_line(runs::to_json_line({0, {}, "end", c}) + "\n");
      return;
    }
    put_line(rows_of(list, metrics, terminal.columns) + "\n");
    if (!runs::have_same_tokens(list))
      put_line("Tokenizers or validation texts differ: losses per token do not compare, and have no star.\n\n");
    if (const std::string options = options_of(list, terminal.columns); !options.empty()) put_line(options + "\n");
    put_line(runs::to_terminal(chart, terminal));
  }

 private:
  // The options in which the runs differ: "lr  0.001 (a, b); 0.003 (c)".
  static std::string options_of(const std::vector<Summary>& list, int columns) {
    const std::vector<std::string> names = runs::short_names(list);
    std::vector<std::pair<std::string, std::string>> rows;
    for (const runs::OptionDifference& d : runs::option_differences(list)) {
      std::string text;
      for (size_t i = 0; i < list.size(); ++i) {
        if (std::find(d.values.begin(), d.values.begin() + int64_t(i), d.values[i]) != d.values.begin() + int64_t(i))
          continue;  // told with the first run that has it
        std::vector<std::string> alike;
        for (size_t k = i; k < list.size(); ++k)
          if (d.values[k] == d.values[i]) alike.push_back(names[k]);
        text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", d.values[i], fmt::join(alike, ", "));
      }
      rows.emplace_back(one_line(d.name), one_line(text));
    }
    return card(rows, columns);
  }
  // A row for each run; the best of each metric has a star.
  static std::string rows_of(const std::vector<Summary>& list, const std::vector<runs::Compare>& metrics, int columns) {
    std::vector<std::vector<std::string>> rows{{"run"}};
    std::vector<bool> right{false};
    for (const Summary& s : list) rows.push_back({one_line(s.id)});
    for (const runs::Compare& c : metrics) {
      const runs::Column& column = runs::column(c.metric);
      const auto has_it = [&](const Summary& s) { return runs::to_text(column, s) != "-"; };
      if (column.if_any && std::ranges::none_of(list, has_it)) continue;
      rows[0].push_back(column.title);
      right.push_back(true);
      for (size_t i = 0; i < list.size(); ++i)
        rows[i + 1].push_back(runs::to_text(column, list[i]) + (c.best == list[i].id ? "*" : " "));
    }
    return table(rows, right, columns);
  }
};

struct Tail : Command {
  std::string run_name;
  int64_t n = 10;
  bool follow = false, json = false;

  void add(CLI::App& app) {
    add_option(app, "run", run_name, kRunHelp, file_name())->required();
    add_option(app, "-n,--lines", n, "Events to print first", from_to(0, 1e9));
    app.add_flag("--follow", follow, "Keep printing new events until the run ends");
    app.add_flag("--json", json, "Print the lines of the log unchanged");
  }

  void run() {
    const std::string path = runs::find_log(run_name, kRunRoots);
    runs::read_events(path);  // refuses what is not a log
    std::ifstream file(path, std::ios::binary);
    std::streamoff whole = 0;  // where the first line that is not complete begins: a run that resumes may remove it
    const auto new_lines = [&] {
      std::vector<std::string> lines;
      file.clear(), file.seekg(whole);
      for (std::string line; std::getline(file, line) && !file.eof(); lines.push_back(line))
        whole += std::streamoff(line.size()) + 1;
      return lines;
    };
    std::vector<std::string> lines = new_lines();
    if (int64_t(lines.size()) > n) lines.erase(lines.begin(), lines.end() - n);
    bool ended = print(lines);
    while (follow) {
      const bool last_look = ended || !runs::is_being_written(path);
      if (!last_look) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      lines = new_lines();
      if (last_look && lines.empty()) return;
      ended = print(lines);
    }
  }

 private:
  // Prints the lines that are events; says whether the last of these ends the run.
  bool print(const std::vector<std::string>& lines) const {
    bool ended = false;
    for (const std::string& line : lines) {
      std::optional<runs::Event> e;
      try {
        e = runs::parse_event(line);
      } catch (const Error&) {
      }
      ended = e && e->as<runs::RunEnd>();
      if (e) put_line((json ? line : text_of(*e)) + "\n");
    }
    return ended;
  }
  static std::string text_of(const runs::Event& e) {
    std::string s = fmt::format("{:>9.1f} s  {:<12}", e.t, e.kind());
    if (e.step) s += fmt::format("  step {}", *e.step);
    std::visit(
        [&](const auto& b) {
          std::decay_t<decltype(b)>::fields(b, [&](const char* name, const auto& v, const char*) {
            using T = std::decay_t<decltype(v)>;
            if constexpr (std::is_same_v<T, double>) s += fmt::format("  {} {:.5g}", name, v);
            if constexpr (std::is_same_v<T, std::optional<double>>)
              if (v) s += fmt::format("  {} {:.5g}", name, *v);
            if constexpr (std::is_same_v<T, int64_t>) s += fmt::format("  {} {}", name, v);
            if constexpr (std::is_same_v<T, std::string>) s += fmt::format("  {} {}", name, json_text(ordered_json(v)));
          });
        },
        e.body);
    return s;
  }
};

struct Report : Command {
  std::vector<std::string> names;
  std::string out = "report.html";

  void add(CLI::App& app) {
    add_option(app, "runs", names, "A run, or several to compare: each a folder, events.jsonl or id", file_name())
        ->required();
    add_option(app, "--out", out, "File to write", file_name());
    app.footer(
        "The report is one HTML file that needs no network.\n\nExamples:\n"
        "  toy runs report out/book --out book.html\n"
        "  toy runs report out/book out/muon --out both.html");
  }
  void run() {
    const auto [logs, list] = open_runs(names);
    for (size_t i = 0; i < list.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        std::error_code error;
        check(!std::filesystem::equivalent(list[i].folder, list[j].folder, error),
              "{}: this run is named twice; name each run once", names[i]);
      }
    refuse_other_ending("--out", out, ".html", "a page of HTML");
    replace_own("out", out, logs.size() == 1 ? runs::html_report(logs[0], list[0]) : runs::html_report(logs, list),
                kReport);
    put_line(out + "\n");
  }
};

struct Schema : Command {
  void add(CLI::App&) {}
  void run() const { print_json(runs::events_schema(), 2); }
};

// What a file holds; a mistake in it names the file.
template <class Read>
auto of_file(const std::string& path, Read read) {
  const std::string text = read_text_file(path);
  try {
    return read(text);
  } catch (const Error& e) {
    fail("{}: {}", one_line(path), e.what());
  }
}

struct Card : Command {
  std::vector<std::string> names, likeliest, drawn;
  std::string out = "card.html", title = "Report card";
  bool json = false;

  void add(CLI::App& app) {
    add_option(app, "runs", names, "The stages in their order: each a folder, events.jsonl or id", file_name())
        ->required();
    add_option(app, "--answers", likeliest, "For each stage, what `toy eval generate --json --rows` printed",
               file_name());
    add_option(app, "--drawn", drawn, "The same with --temperature 1", file_name());
    add_option(app, "--title", title, "Title of the page");
    add_option(app, "--out", out, "File to write", file_name());
    app.add_flag("--json", json, "Print cost and accuracy of each stage instead, without a page");
    app.footer(
        "The card is one HTML file that needs no network: accuracy by kind of question, conversations,\n"
        "curves and cost of every stage. See toy help chat-from-nothing.md.\n\n"
        "Example:\n"
        "  toy eval generate out/first held-out.jsonl --json --rows > first.json\n"
        "  toy eval generate out/second held-out.jsonl --json --rows > second.json\n"
        "  toy runs card out/first out/second --answers first.json --answers second.json");
  }

  void run() {
    check(!json || (!given("--out") && !given("--title")),
          "--json is numbers without a page; leave --out and --title out");
    auto [logs, list] = open_runs(names);
    std::vector<runs::Stage> stages;
    for (size_t i = 0; i < names.size(); ++i) {
      runs::Stage s{.log = std::move(logs[i]), .summary = std::move(list[i])};
      if (const std::string flow = s.summary.folder + "/" + runs::kFlowFile; std::filesystem::exists(flow))
        s.flops_per_token = of_file(flow, runs::flops_per_token);
      if (const std::string done = s.summary.folder + "/" + runs::kFinishedFile; std::filesystem::exists(done))
        s.origin = of_file(done, runs::parse_origin);
      s.likeliest = answers_of("--answers", likeliest, i), s.drawn = answers_of("--drawn", drawn, i);
      stages.push_back(std::move(s));
    }
    if (json) return print_json(runs::card_numbers(stages));
    refuse_other_ending("--out", out, ".html", "a page of HTML");
    replace_own("out", out, runs::html_report_card(title, stages), kReport);
    put_line(out + "\n");
  }

 private:
  std::optional<runs::Answers> answers_of(const char* option, const std::vector<std::string>& files,
                                          size_t stage) const {
    if (files.empty()) return std::nullopt;
    check(files.size() == names.size(), "{}: {} file{} for {} stages; give one for each stage, in their order", option,
          files.size(), files.size() == 1 ? "" : "s", names.size());
    return of_file(files[stage], runs::parse_answers);
  }
};

}  // namespace

void add_runs(CLI::App& root) {
  CLI::App& app = add_command_group(root, "runs", "List, show and compare training runs");
  add_subcommand<List>(app, "list", "List runs, one per line");
  add_subcommand<Show>(app, "show", "Show a run and its curves");
  add_subcommand<CompareRuns>(app, "compare", "Compare runs side by side");
  add_subcommand<Tail>(app, "tail", "Print the last events of a run and follow new ones");
  add_runs_stop(app);
  add_subcommand<Report>(app, "report", "Write an HTML report of one run, or of several");
  add_subcommand<Card>(app, "card", "Write the report card of a model that was trained in stages");
  add_subcommand<Schema>(app, "schema", "Print the JSON Schema of events.jsonl");
}

}  // namespace toy::cli
