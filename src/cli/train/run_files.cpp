#include "cli/train/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "cli/help.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/folder_lock.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/graph/print.h"
#include "toy/runs/log.h"
#include "toy/runs/run.h"
#include "toy/runs/tensorboard.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

class JsonLines final : public runs::EventSink {
 public:
  /// `begin`: where the clock of the run stands, which is not a new one.
  JsonLines(Results& results, double begin) : results_(results), begin_(begin) {}
  void write(const runs::Event& event) override {
    runs::Event moved = event;
    moved.t += begin_;
    results_.put(runs::to_json_line(moved) + "\n");
  }

 private:
  Results& results_;
  double begin_;
};

// A number where the option takes numbers.
ordered_json typed(const CLI::Option& option, const std::string& text) {
  const ordered_json j = parse_json<ordered_json>(text);
  return j.is_number() && !option.get_type_name().starts_with("TEXT") ? j : ordered_json(text);
}

void write_json(const std::filesystem::path& path, const ordered_json& j) {
  AtomicFile file(path.string());
  file.write(json_text(j, 1) + "\n");
  file.commit();
}

// The graph of a step with the cost of every op, as `describe --graph train --json` prints it.
ordered_json flow(const ModelSpec& spec, const TrainerOptions& options) {
  const TrainGraph t = build_train_graph(
      spec, [](const std::string&) { return DType::f32; }, options);
  std::vector<Value> roots{t.loss};
  if (t.norm) roots.push_back(t.norm);
  roots.insert(roots.end(), t.updates.begin(), t.updates.end());
  const GraphCost cost = cost_of(*t.graph, roots);
  return to_json(*t.graph, &cost);
}

// Whether a log can be read and written on. One that cannot must not keep a whole checkpoint from going on: it gets
// another name.
bool can_go_on(const std::string& log) {
  try {
    runs::read_events(log);
    return true;
  } catch (const Error& e) {
    const auto previous = std::filesystem::path(log).replace_extension("previous.jsonl");
    std::error_code error;
    std::filesystem::rename(log, previous, error);
    check(!error, "{}; it cannot be renamed to {}: {}", e.what(), previous.string(), error.message());
    to_stderr(
        fmt::format("toy: {}; it is now {}, and a new log begins\n", one_line(e.what()), one_line(previous.string())));
    return false;
  }
}

}  // namespace

void put_line(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail_internal("stdout: the output could not be written");
}

void RunOptions::add(CLI::App& app) {
  begin_group(app, "Output");
  app.add_option("--tensorboard", tensorboard, "Folder for event files of TensorBoard")->check(folder_name());
  const auto list = [&](const char* name, std::vector<std::string>& values, const std::string& help,
                        const char* text = "PATTERN[:EVERY]") {
    app.add_option(name, values, help)->option_text(text)->allow_extra_args(false);
  };
  begin_group(app, "Debugging");
  list("--tap", taps, "Log statistics of values, such as blk.*.out, every 10 or EVERY steps");
  list("--grads", grads, "Log statistics of the gradients of weights");
  list("--drift", drifts, "Log how far weights moved from their start; takes memory for a copy");
  list("--op-timing", op_timings, "Log op times every EVERY steps, of all ops or some", "[PATTERN:]EVERY");
}

WatchOptions RunOptions::watch() const {
  WatchOptions w;
  for (const std::string& s : taps) w.taps.push_back(parse_watch("tap", s));
  for (const std::string& s : grads) w.grads.push_back(parse_watch("grads", s));
  for (const std::string& s : drifts) w.drifts.push_back(parse_watch("drift", s));
  for (const std::string& s : op_timings)
    for (Watch& one : parse_op_timing(s)) w.op_timings.push_back(std::move(one));
  return w;
}

ordered_json options_json(const CLI::App& app) {
  ordered_json j = ordered_json::object();
  const auto shut_out = [](const CLI::Option& o) {
    const auto excludes = o.get_excludes();
    return std::any_of(excludes.begin(), excludes.end(), [](const auto* e) { return e->count() > 0; });
  };
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_lnames().empty() || is_help(*o) || o->get_lnames()[0] == "config") continue;
    const std::string& name = o->get_lnames()[0];
    if (o->get_items_expected_max() == 0) {  // a flag; null: one that can be true or false, and neither was given
      if (o->count() == 0 && !o->get_fnames().empty())
        j[name] = nullptr;
      else
        j[name] = o->count() > 0 && o->reduced_results()[0] == "true";
      continue;
    }
    const std::vector<std::string> values = o->count() > 0 ? o->reduced_results() : std::vector<std::string>{};
    if (values.size() > 1) {
      for (const std::string& v : values) j[name].push_back(typed(*o, v));
    } else {
      const std::string text = values.empty() ? o->get_default_str() : values[0];
      j[name] = values.empty() && (text.empty() || shut_out(*o)) ? ordered_json(nullptr) : typed(*o, text);
    }
  }
  return j;
}

std::string OutFolder::settled(std::string out, const std::map<std::string, std::string>& fields) {
  for (const auto& [name, value] : fields)
    for (size_t at; !value.empty() && (at = out.find("{" + name + "}")) != out.npos;)
      out.replace(at, name.size() + 2, value);
  const std::filesystem::path path(out);
  const bool up = std::find(path.begin(), path.end(), "..") != path.end();
  return up ? std::filesystem::weakly_canonical(path).string() : out;
}

OutFolder::OutFolder(const std::string& out, const std::map<std::string, std::string>& fields) {
  const std::string wanted = settled(out, fields);  // first: of "p{seq}/../q", p001 would be made
  path_ = runs::make_folder(wanted, fields);
  ours_ = path_ != wanted || !std::filesystem::exists(path_);
}

OutFolder::~OutFolder() {
  if (ours_) remove_unused_folder(path_);
}

RunLog open_log(const std::string& out, const ordered_json& config, const ModelSpec& spec,
                const TrainerOptions& trainer, const std::string& tensorboard, Results* json, bool resumed) {
  RunLog result;
  auto& sinks = result.sinks;
  std::unique_ptr<runs::EventSink> board;  // first: nothing has been written when its folder cannot be made
  if (!tensorboard.empty()) board = std::make_unique<runs::TensorBoardWriter>(tensorboard, double(std::time(nullptr)));
  const std::filesystem::path folder(out);
  const std::string log = (folder / runs::kEventsFile).string();
  const bool goes_on = resumed && std::filesystem::exists(log) && can_go_on(log);
  auto writer = std::make_unique<runs::EventWriter>(
      log, goes_on ? runs::EventWriter::Mode::resume : runs::EventWriter::Mode::fresh);
  const double begin = writer->last_t();
  sinks.push_back(std::move(writer));
  write_json(folder / "config.json", config);
  write_json(folder / "flow.json", flow(spec, trainer));
  if (board) sinks.push_back(std::move(board));
  if (json) sinks.push_back(std::make_unique<JsonLines>(*json, begin));
  result.goes_on = goes_on;
  return result;
}

}  // namespace toy::cli
