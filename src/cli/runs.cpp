// toy runs: what training runs have written.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/run_files.h"
#include "cli/tables.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/runs/report.h"
#include "toy/runs/run.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;
using runs::Log;
using runs::Summary;

// Where runs are looked for when nobody says: the folder of --out 'runs/{...}', and --out's default.
const std::vector<std::string> kRoots{"runs", "out"};
constexpr const char* kRunHelp = "A run's folder, its events.jsonl, or the start of its id in runs or out";

struct Opened {
  Log log;
  Summary summary;
  std::string path;
};

// The folder of a log, so that it can be found from anywhere.
std::string folder_of(const std::string& log) {
  return std::filesystem::absolute(log).lexically_normal().parent_path().string();
}

Opened open_run(const std::string& what) {
  Opened o;
  o.path = runs::find_log(what, kRoots);
  o.log = runs::read_events(o.path);
  o.summary = runs::summarize(o.log, folder_of(o.path), runs::is_being_written(o.path));
  for (const std::string& w : o.log.warnings) to_stderr(fmt::format("toy: {}: {}\n", one_line(o.path), one_line(w)));
  return o;
}

void put_json(const ordered_json& j) { put_line(json_text(j) + "\n"); }

// How charts are drawn on stdout.
struct ScreenOptions {
  int columns = 0, rows = 12;
  bool ascii = false;

  std::vector<CLI::Option*> add(CLI::App& app) {
    return {app.add_option("--width", columns, "Columns of a chart; 0 takes the terminal's, or 80")
                ->capture_default_str()
                ->check(width_range()),
            app.add_option("--height", rows, "Rows of a chart")->capture_default_str()->check(from_to(3, 200)),
            app.add_flag("--ascii", ascii, "Draw without Unicode")};
  }
  static CLI::Validator width_range() { return from_to_or_0(8, 1000); }
  runs::Terminal terminal() const {
    return {.columns = columns > 0                  ? columns
                       : is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO)
                                                    : 80,
            .rows = rows,
            .unicode = !ascii && has_unicode(),
            .color = has_color(STDOUT_FILENO)};
  }
};

// Whether all columns of a table may be shown: nobody said how many, and nobody looks at it on a terminal.
bool is_unlimited(const ScreenOptions& screen) { return screen.columns == 0 && !is_terminal(STDOUT_FILENO); }
constexpr int kUnlimited = 100000;

bool is_number(const runs::Column& c) { return !std::holds_alternative<std::string>(c.cell(Summary{})); }

struct List {
  std::vector<std::string> folders;
  std::string sort = "started";
  bool reverse = false, json = false;
  ScreenOptions screen;

  void add(CLI::App& app) {
    app.add_option("folder", folders, "Folders to search, three levels deep (default: runs and out)")
        ->check(folder_name());
    std::vector<std::string> names;
    for (const runs::Column& c : runs::columns()) names.push_back(c.name);
    app.add_option("--sort", sort, fmt::format("Column to sort by: {}", fmt::join(names, ", ")))
        ->capture_default_str()
        ->check(one_of(names));
    app.add_flag("--reverse", reverse, "Sort in descending order");
    app.add_flag("--json", json, "Print one JSON object per line, with every column");
    app.add_option("--width", screen.columns, "Columns of the table; 0 takes the terminal's, or all")
        ->capture_default_str()
        ->check(ScreenOptions::width_range());
    app.callback([this] { run(); });
  }

  void run() {
    const runs::Column& by = runs::column(sort);
    std::vector<Summary> list;
    for (const std::string& root : folders.empty() ? kRoots : folders) {
      std::error_code error;
      if (folders.empty() && !std::filesystem::is_directory(root, error)) continue;
      for (const std::string& folder : runs::find_runs(root)) add_run(folder, list);
    }
    if (list.empty()) to_stderr("no runs here; `toy train` writes one to its --out\n");
    runs::sort_by(list, by, reverse);
    if (json) {
      for (const Summary& s : list) put_json(to_json(s));
      return;
    }
    if (!list.empty()) print(list);
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
    for (const runs::Column& c : runs::columns())
      if (c.in_list) rows[0].push_back(c.title), right.push_back(is_number(c));
    for (const Summary& s : list) {
      rows.emplace_back();
      for (const runs::Column& c : runs::columns())
        if (c.in_list) rows.back().push_back(one_line(runs::to_text(c, s)));
    }
    put_line(table(rows, right, is_unlimited(screen) ? kUnlimited : screen.terminal().columns));
  }
};

// Files of a kind begin alike as far as `until`, and all have `mark` soon after it.
struct FileKind {
  const char *until, *mark;
};
constexpr FileKind kChart{" viewBox=", " data-log=\""}, kReport{"<title>", "<style>"};

void write_file(const std::string& option, const std::string& path, const std::string& text, const FileKind& kind) {
  const std::string_view common = std::string_view(text).substr(0, text.find(kind.until));
  refuse_replacing(option, path, [&](std::string_view there) {
    return there.starts_with(common) && there.find(kind.mark) != there.npos;
  });
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

struct Show {
  std::string run_name, svg;
  std::vector<std::string> metrics;
  std::vector<const CLI::Option*> of_curves;  // what --json has no use for
  ScreenOptions screen;
  bool json = false;

  void add(CLI::App& app) {
    app.add_option("run", run_name, kRunHelp)->required()->check(file_name());
    of_curves = {app.add_option("--metric", metrics,
                                fmt::format("Curves to draw: {} (default: loss, grad_norm, lr)",
                                            fmt::join(runs::metrics(), ", ")))
                     ->delimiter(','),
                 app.add_option("--svg", svg, "Folder to write the curves to, as METRIC.svg")->check(folder_name())};
    app.add_flag("--json", json, "Print the summary as a JSON object, without curves");
    for (const CLI::Option* option : screen.add(app)) of_curves.push_back(option);
    app.callback([this] { run(); });
  }

  void run() {
    const std::vector<std::string> known = runs::metrics();
    for (const std::string& m : metrics)
      check(std::find(known.begin(), known.end(), m) != known.end(), "metric '{}' is not one of {}", m,
            fmt::join(known, ", "));
    const runs::Terminal terminal = screen.terminal();
    for (const CLI::Option* option : of_curves)
      check(!json || option->count() == 0, "--json is the summary, which has no curves; leave {} out",
            option->get_name());
    const Opened o = open_run(run_name);
    if (json) return put_json(to_json(o.summary));
    std::vector<runs::Curve> curves = runs::curves(o.log);
    const std::vector<std::string> wanted =
        metrics.empty() && svg.empty() ? std::vector<std::string>{"loss", "grad_norm", "lr"} : metrics;
    for (const std::string& m : metrics)
      check(std::any_of(curves.begin(), curves.end(), [&](const runs::Curve& c) { return c.metric == m; }),
            "metric: the run has no {}", m);
    if (!wanted.empty())
      std::erase_if(curves, [&](const runs::Curve& c) {
        return std::find(wanted.begin(), wanted.end(), c.metric) == wanted.end();
      });
    if (!svg.empty()) return draw(curves);
    put_line(facts(o, is_unlimited(screen) ? kUnlimited : terminal.columns));
    for (const runs::Curve& c : curves) put_line("\n" + runs::to_terminal(c.chart, terminal));
  }

 private:
  void draw(const std::vector<runs::Curve>& curves) const {
    std::error_code error;
    std::filesystem::create_directories(svg, error);
    check(!error && std::filesystem::is_directory(svg), "svg: cannot make the folder '{}'", svg);
    for (const runs::Curve& c : curves) {
      const std::string path = (std::filesystem::path(svg) / (c.metric + ".svg")).string();
      write_file("svg", path, runs::to_svg(c.chart, {.width = 720, .height = 360}), kChart);
      put_line(path + "\n");
    }
  }
  static std::string facts(const Opened& o, int columns) {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const runs::Column& c : runs::columns())
      if (const std::string text = runs::to_text(c, o.summary); text != "-") rows.emplace_back(c.title, one_line(text));
    return card(rows, columns);
  }
};

struct CompareRuns {
  std::vector<std::string> names;
  std::string metric = "loss", svg;
  ScreenOptions screen;
  bool json = false;

  void add(CLI::App& app) {
    app.add_option("runs", names, "Two runs or more, each a folder, events.jsonl or id")
        ->required()
        ->check(file_name());
    app.add_option("--metric", metric, "Curve: loss, validation_loss, lr, grad_norm or tokens_per_second")
        ->capture_default_str();
    app.add_option("--svg", svg, "File to draw the curves to")->check(file_name());
    app.add_flag("--json", json, "Print one compare event per metric, without curves");
    screen.add(app);
    app.callback([this] { run(); });
  }

  void run() {
    check(names.size() >= 2, "compare: {} run given; expected two or more", names.size());
    const runs::Terminal terminal = screen.terminal();
    std::vector<Log> logs;
    std::vector<Summary> list;
    for (const std::string& name : names) {
      Opened o = open_run(name);
      logs.push_back(std::move(o.log));
      list.push_back(std::move(o.summary));
    }
    name_apart(list);
    const runs::Chart chart = runs::compare_chart(metric, logs, short_names(list));
    if (!svg.empty()) write_file("svg", svg, runs::to_svg(chart, {.width = 720, .height = 380}), kChart);
    const std::vector<runs::Compare> metrics = runs::compare(list);
    if (json) {
      for (const runs::Compare& c : metrics) put_line(runs::to_json_line({0, {}, "end", c}) + "\n");
      return;
    }
    put_line(rows_of(list, metrics, terminal.columns) + "\n");
    if (const std::string options = options_of(list, terminal.columns); !options.empty()) put_line(options + "\n");
    put_line(runs::to_terminal(chart, terminal));
  }

 private:
  // Two folders may have one name: then the runs are called by their folders.
  static void name_apart(std::vector<Summary>& list) {
    std::vector<bool> twice;
    for (const Summary& s : list)
      twice.push_back(std::count_if(list.begin(), list.end(), [&](const Summary& o) { return o.id == s.id; }) > 1);
    for (size_t i = 0; i < list.size(); ++i)
      if (twice[i]) list[i].id = list[i].folder;
  }
  // Ids without the words that all begin with: where there is little room, what tells them apart is what counts.
  static std::vector<std::string> short_names(const std::vector<Summary>& list) {
    size_t same = list[0].id.size();
    for (const Summary& s : list)
      same = std::min(same, size_t(std::mismatch(s.id.begin(), s.id.end(), list[0].id.begin(), list[0].id.end()).first -
                                   s.id.begin()));
    while (same > 0 && std::string_view("-_/").find(list[0].id[same - 1]) == std::string_view::npos) --same;
    std::vector<std::string> names;
    for (const Summary& s : list) names.push_back(s.id.size() > same ? s.id.substr(same) : s.id);
    return names;
  }
  // The options in which the runs differ: "lr  0.001 (a, b); 0.003 (c)".
  static std::string options_of(const std::vector<Summary>& list, int columns) {
    const std::vector<std::string> names = short_names(list);
    std::vector<std::pair<std::string, std::string>> rows;
    for (const runs::OptionDifference& d : runs::option_differences(list)) {
      std::vector<std::pair<std::string, std::string>> by_value;  // in the order of the runs
      for (size_t i = 0; i < list.size(); ++i) {
        const auto same = [&](const auto& v) { return v.first == d.values[i]; };
        const auto it = std::find_if(by_value.begin(), by_value.end(), same);
        if (it == by_value.end())
          by_value.emplace_back(d.values[i], names[i]);
        else
          it->second += ", " + names[i];
      }
      std::string text;
      for (const auto& [value, runs] : by_value)
        text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", value, runs);
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
      rows[0].push_back(column.title);
      right.push_back(true);
      for (size_t i = 0; i < list.size(); ++i)
        rows[i + 1].push_back(runs::to_text(column, list[i]) + (c.best == list[i].id ? "*" : " "));
    }
    return table(rows, right, columns);
  }
};

struct Tail {
  std::string run_name;
  int64_t n = 10;
  bool follow = false, json = false;

  void add(CLI::App& app) {
    app.add_option("run", run_name, kRunHelp)->required()->check(file_name());
    app.add_option("-n,--lines", n, "Events to print first")->capture_default_str()->check(from_to(0, 1e9));
    app.add_flag("--follow", follow, "Keep printing new events until the run ends");
    app.add_flag("--json", json, "Print the lines of the log unchanged");
    app.callback([this] { run(); });
  }

  void run() {
    const std::string path = runs::find_log(run_name, kRoots);
    const Log log = runs::read_events(path);  // refuses what is not a log
    std::ifstream file(path, std::ios::binary);
    std::vector<std::string> lines;
    std::string part;
    int64_t whole = 0;  // where the first line that is not whole yet begins: a run that resumes may take it away
    const auto read = [&] {
      file.clear();
      file.seekg(whole);
      part.clear();
      for (char c = 0; file.get(c);)
        if (c == '\n')
          whole += int64_t(part.size()) + 1, lines.push_back(std::exchange(part, {}));
        else
          part += c;
    };
    read();
    if (int64_t(lines.size()) > n) lines.erase(lines.begin(), lines.end() - n);
    bool ended = false;
    for (;;) {
      for (const std::string& line : lines) ended = put(line);
      lines.clear();
      if (!follow || ended || !runs::is_being_written(path)) {
        read();  // what was written between the last look and the end
        if (lines.empty() || !follow) return;
        continue;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      read();
    }
  }

 private:
  // Prints a line if it is an event; says whether it is the last one.
  bool put(const std::string& line) const {
    std::optional<runs::Event> e;
    try {
      e = runs::parse_event(line);
    } catch (const Error&) {
      return false;
    }
    if (!e) return false;
    put_line(json ? line + "\n" : text_of(*e) + "\n");
    return e->as<runs::RunEnd>() != nullptr;
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

struct Report {
  std::string run_name, out = "report.html";

  void add(CLI::App& app) {
    app.add_option("run", run_name, kRunHelp)->required()->check(file_name());
    app.add_option("--out", out, "File to write")->capture_default_str()->check(file_name());
    app.footer(
        "The report is one HTML file that needs no network.\n\nExample:\n  toy runs report out/book --out book.html");
    app.callback([this] { run(); });
  }
  void run() {
    const Opened o = open_run(run_name);
    write_file("out", out, runs::html_report(o.log, o.summary), kReport);
    put_line(out + "\n");
  }
};

struct SchemaOf {
  void add(CLI::App& app) {
    app.callback([] { put_line(json_text(runs::events_schema(), 2) + "\n"); });
  }
};

}  // namespace

void add_runs(CLI::App& root) {
  CLI::App& app = add_command_group(root, "runs", "List, show and compare training runs");
  add_subcommand<List>(app, "list", "List runs, one per line");
  add_subcommand<Show>(app, "show", "Show a run and its curves");
  add_subcommand<CompareRuns>(app, "compare", "Compare runs side by side");
  add_subcommand<Tail>(app, "tail", "Print the last events of a run and follow new ones");
  add_subcommand<Report>(app, "report", "Write a run's HTML report");
  add_subcommand<SchemaOf>(app, "schema", "Print the JSON Schema of events.jsonl");
}

}  // namespace toy::cli
