#include "draw.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "tasks.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/runs/plot.h"

namespace {

namespace fs = std::filesystem;
using toy::runs::Chart;
using toy::runs::Series;

// A model on a task: accuracies by step, and by size at the end.
struct Curves {
  std::string task, model, parameters, steps, seconds;
  Series by_step, by_size;
};

// The fields of a line; one may be quoted, none has a quote within.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

Curves read(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = fields_of(line);
  Curves curves;
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = fields_of(line);
    toy::check(fields.size() == names.size(), "{}: a line has {} fields, the first has {}", path.string(),
               fields.size(), names.size());
    rows.emplace_back();
    for (size_t i = 0; i < names.size(); ++i) rows.back()[names[i]] = fields[i];
  }
  toy::check(!rows.empty(), "{}: no measurement", path.string());
  auto& last = rows.back();
  curves.task = last["task"], curves.model = last["model"], curves.parameters = last["parameters"];
  curves.steps = last["step"], curves.seconds = last["seconds"];
  curves.by_step.name = curves.by_size.name = curves.model;
  curves.by_size.style = Series::Style::points;
  const std::string trained = std::to_string(task_of(curves.task).trained_size);
  const auto add = [](Series& s, const std::string& x, const std::string& y) {
    s.x.push_back(std::atof(x.c_str())), s.y.push_back(std::atof(y.c_str()));
  };
  for (auto& row : rows) {
    if (row["size"] == trained) add(curves.by_step, row["step"], row["accuracy"]);
    if (row["step"] == curves.steps) add(curves.by_size, row["size"], row["accuracy"]);
  }
  return curves;
}

void write(const fs::path& path, Chart chart) {
  for (size_t i = 0; i < chart.series.size(); ++i) chart.series[i].color = int(i);
  toy::AtomicFile file(path.string());
  file.write(toy::runs::to_svg(chart, {.width = 640, .height = 300}));
  file.commit();
  fmt::print("{}\n", path.string());
}

}  // namespace

int draw(const std::string& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".csv") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end(), [](const fs::path& a, const fs::path& b) { return a.stem() < b.stem(); });
  toy::check(!paths.empty(), "'{}' has no *.csv", folder);
  std::map<std::string, std::vector<Curves>> tasks;
  for (const fs::path& path : paths) {
    Curves curves = read(path);
    tasks[curves.task].push_back(std::move(curves));
  }
  for (const auto& [name, models] : tasks) {
    const Task task = task_of(name);
    Chart by_step{.title = name, .unit = fmt::format("accuracy, {} {}", task.trained_size, task.size_name)};
    Chart by_size{.title = name, .unit = "accuracy at the end", .x_label = task.size_name};
    fmt::print("\n| {} | parameters | steps | seconds |", name);
    for (const int64_t size : task.sizes) fmt::print(" {} {} |", size, task.size_name);
    fmt::print("\n| --- | --- | --- | --- |");
    for (size_t i = 0; i < task.sizes.size(); ++i) fmt::print(" --- |");
    for (const Curves& m : models) {
      fmt::print("\n| {} | {} | {} | {} |", m.model, m.parameters, m.steps, m.seconds);
      for (const double accuracy : m.by_size.y) fmt::print(" {:.1f}% |", 100 * accuracy);
      by_step.series.push_back(m.by_step), by_size.series.push_back(m.by_size);
    }
    fmt::print("\n\n");
    write(fs::path(folder) / (name + ".svg"), by_step);
    write(fs::path(folder) / (name + "-size.svg"), by_size);
  }
  return 0;
}
