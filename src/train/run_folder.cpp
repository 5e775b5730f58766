#include "train/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "toy/base/atomic_file.h"
#include "toy/base/folder_lock.h"
#include "toy/base/gguf_name.h"
#include "toy/base/json_text.h"
#include "toy/graph/print.h"
#include "toy/runs/run.h"
#include "toy/runs/tensorboard.h"
#include "train/checkpoints.h"

namespace toy {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// The files that a run writes next to its checkpoints.
constexpr std::string_view kFiles[] = {
    runs::kModelFile,          runs::kSecondName,   runs::kAverageFile, runs::kAdapterFile,
    runs::kAdapterAverageFile, runs::kConfigFile,   runs::kFlowFile,    runs::kEventsFile,
    runs::kPreviousEventsFile, runs::kFinishedFile, kLockFile};

// With what is known of a run filled in, and without `..` (before folders are made, "new/../there" leads nowhere).
std::string settled(std::string out, const std::map<std::string, std::string>& fields) {
  for (const auto& [name, value] : fields)
    for (size_t at = 0; !value.empty() && (at = out.find("{" + name + "}")) != out.npos;)
      out.replace(at, name.size() + 2, value);
  const fs::path path(out);
  const bool up = std::find(path.begin(), path.end(), "..") != path.end();
  return up ? fs::weakly_canonical(path).string() : out;
}

// Whether a file begins as the log of a run does, if torn.
bool begins_as_log(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return false;
  std::ifstream lines(file, std::ios::binary);
  std::string line;
  while (line.empty() && std::getline(lines, line)) {
  }
  if (line.starts_with(R"({"kind":"run_start")")) return true;
  try {
    runs::parse_event(line);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Whether a run has written into this folder. One that was killed at its very start leaves an empty log, and no model.
bool is_of_a_run(const fs::path& out) {
  const fs::path log = out / runs::kEventsFile;
  std::error_code error;
  return begins_as_log(log) || begins_as_log(out / runs::kPreviousEventsFile) ||
         !checkpoint_steps((out / runs::kCheckpointsFolder).string()).empty() ||
         (fs::is_regular_file(log, error) && fs::is_empty(log, error) && !fs::exists(out / runs::kModelFile, error));
}

// Whether `path` is `folder`, or lies in it.
bool is_below(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  const auto below = fs::weakly_canonical(fs::absolute(path), error),
             above = fs::weakly_canonical(fs::absolute(folder), error);
  return !error && std::mismatch(above.begin(), above.end(), below.begin(), below.end()).first == above.end();
}

// Whether it is the model file that a run begins with, under a name that the run's own model takes in the end.
bool is_replaced(const fs::path& out, std::string_view name, const std::string& source) {
  std::error_code not_there;
  // The second name is replaced, not written to: a file that it shares stays as it is under its other names.
  const bool by_this_name =
      name != runs::kSecondName || fs::canonical(out / name, not_there) == fs::canonical(source, not_there);
  return (name == runs::kModelFile || name == runs::kSecondName) && fs::equivalent(out / name, source, not_there) &&
         (!by_this_name || fs::equivalent(out / runs::kModelFile, source, not_there));
}

// A run must not write over what it reads, nor over what no run wrote. (A model that it begins with may be replaced by
// its successor, if it is not needed to resume.)
void refuse_losses(const RecipeOptions& o, const ModelSource& source) {
  const fs::path out(o.out);
  const bool of_a_run = is_of_a_run(out);
  const auto refuse_others = [&](std::string_view name) {
    check(of_a_run || !fs::exists(out / name),
          "out: '{}' exists without a run ({}) that wrote it, and would be lost; choose another folder",
          (out / name).string(), runs::kEventsFile);
  };
  if (o.data.images && !of_a_run)
    check(!is_below(out, o.data.images->path),
          "out: '{}' is in the folder of --data, whose subfolders are classes; choose another --out", o.out);
  for (const char* name : runs::kPeftFiles) refuse_others(std::string(runs::kPeftFolder) + "/" + name);
  for (const std::string_view name : kFiles) {
    const std::string file = (out / name).string();
    check(!fs::is_directory(file), "out: '{}' is a folder; the run writes a file of this name", file);
    for (const std::string& path : o.data.corpus) refuse_overwriting("out", file, {{"--corpus", path}});
    for (const std::string& path : o.data.examples) refuse_overwriting("out", file, {{"--data", path}});
    for (const std::string& path : o.data.validation) refuse_overwriting("out", file, {{"--val", path}});
    const bool replaced = source.may_be_replaced() && is_replaced(out, name, source.file());
    for (const auto& [option, path] : source.reads())
      if (!replaced || path != source.file()) refuse_overwriting("out", file, {{option, path}});
    if (!replaced && name != kLockFile) refuse_others(name);
  }
}

// TensorBoard's folder must not take the place of a file that the run writes later.
void require_own_folder(const std::string& tensorboard, const fs::path& out) {
  if (tensorboard.empty()) return;
  std::vector<std::string_view> names(std::begin(kFiles), std::end(kFiles));
  names.push_back(runs::kCheckpointsFolder);
  for (const std::string_view name : names)
    check(!is_below(tensorboard, out / name), "tensorboard: '{}' is where the run writes {}; choose another folder",
          tensorboard, (out / name).string());
}

void write_json(const fs::path& path, const ordered_json& j) {
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

// Whether a log can be read and written on; else it gets another name.
bool can_go_on(const std::string& log, const std::function<void(const std::string&)>& warn) {
  try {
    runs::read_events(log);
    return true;
  } catch (const Error& e) {
    const auto previous = fs::path(log).replace_extension("previous.jsonl");
    std::error_code error;
    fs::rename(log, previous, error);
    check(!error, "{}; it cannot be renamed to {}: {}", e.what(), previous.string(), error.message());
    warn(fmt::format("{}; it is now {}, and a new log begins", e.what(), previous.string()));
    return false;
  }
}

constexpr const char* kLatest = "latest";

// `latest` next to a folder whose name was made from placeholders. Renamed into place: it is never missing.
void link_latest(const fs::path& folder, const std::function<void(const std::string&)>& warn) {
  const fs::path link = folder.parent_path() / kLatest,
                 temporary = folder.parent_path() / fmt::format(".{}.{}", kLatest, folder.filename().string());
  std::error_code error;
  if (fs::exists(fs::symlink_status(link, error)) && !fs::is_symlink(link, error))
    return warn(fmt::format("{} is not a link of a run and is left as it is", link.string()));
  fs::remove(temporary, error);
  fs::create_directory_symlink(folder.filename(), temporary, error);
  if (!error) fs::rename(temporary, link, error);
  if (error)
    warn(fmt::format("{}: cannot be made: {}; the run is in {}", link.string(), error.message(), folder.string()));
}

}  // namespace

std::string newest_run() {
  const fs::path link = fs::path(kNewFolder).parent_path() / kLatest;
  std::error_code error;
  const fs::path there = fs::canonical(link, error);
  if (!error) return (link.parent_path() / there.filename()).string();
  return fs::exists(link.parent_path() / "config.json", error) ? link.parent_path().string()
                                                               : "";  // an earlier version's
}

std::string other_file_in(const std::string& out) {
  std::error_code error;
  if (is_of_a_run(out)) return {};
  std::vector<std::string> others;
  for (fs::directory_iterator i(out, error), end; !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename().string();
    const bool is_ours = std::ranges::find(kFiles, name) != std::end(kFiles) || name == runs::kSecondFolder ||
                         name == runs::kPeftFolder || name == runs::kCheckpointsFolder;
    if (!is_ours && !name.starts_with('.') && !name.ends_with(".log")) others.push_back(i->path().string());
  }
  return others.empty() ? "" : *std::ranges::min_element(others);
}

RunFolder::RunFolder(RecipeOptions& o, const ModelSource& source, TrainObserver& observer, bool writes)
    : observer_(observer) {
  const std::map<std::string, std::string> fields{
      {"arch", o.out.find("{arch}") == o.out.npos ? "" : source.architecture()},
      {"recipe", source.config().at("name")}};
  if (const std::string newest = newest_run(); o.resume && o.out == kNewFolder && !newest.empty()) o.out = newest;
  const bool begins = o.out == kNewFolder;
  o.out = settled(o.out, fields);  // first: of "p{seq}/../q", p001 would be made; where a run that goes on is already
  refuse_losses(o, source);
  require_own_folder(o.tensorboard, o.out);
  if (!writes) return;
  for (const char* fresh : {"{seq}", "{time}"})
    check(!o.resume || begins || o.out.find(fresh) == o.out.npos,
          "resume: --out is '{}', and {} names a new folder each time; give the folder of the run to resume", o.out,
          fresh);
  path_ = runs::make_folder(o.out, fields);
  named_ = path_ != o.out;
  ours_ = named_ || !fs::exists(path_);
  o.out = path_;
  try {
    require_own_folder(o.tensorboard, path_);  // once more: placeholders have their values
    const fs::path where = fs::weakly_canonical(path_);
    if (o.record.run_id.empty())
      o.record.run_id = (where.has_filename() ? where : where.parent_path()).filename().string();
  } catch (...) {
    if (ours_) remove_unused_folder(path_);
    throw;
  }
}

RunFolder::~RunFolder() {
  if (ours_) remove_unused_folder(path_);
}

void RunFolder::open(const RecipeOptions& o, const ModelSpec& spec, bool resumed,
                     const std::function<void(const std::string&)>& warn) {
  std::unique_ptr<runs::EventSink> board;  // first: nothing has been written when its folder cannot be made
  if (!o.tensorboard.empty())
    board = std::make_unique<runs::TensorBoardWriter>(o.tensorboard, double(std::time(nullptr)));
  const fs::path folder(o.out);
  const std::string file = (folder / runs::kEventsFile).string();
  goes_on_ = resumed && fs::exists(file) && can_go_on(file, warn);
  auto log = std::make_unique<runs::EventWriter>(
      file, goes_on_ ? runs::EventWriter::Mode::resume : runs::EventWriter::Mode::fresh);
  if (o.record.config != runs::JsonObject())
    write_json(folder / runs::kConfigFile, read_json<ordered_json>("record: config", o.record.config.text));
  write_json(folder / runs::kFlowFile, flow(spec, o.trainer));
  if (named_) link_latest(folder.lexically_normal(), warn);
  board_ = std::move(board), log_ = std::move(log);
}

void RunFolder::record(runs::Event e) {
  if (!log_) return early_.push_back(std::move(e));
  if (goes_on_ && e.as<runs::RunStart>()) return;
  if (!e.as<runs::RunStart>() && !e.as<runs::Resume>())
    for (runs::Event& early : std::exchange(early_, {})) {
      early.t = e.t, early.step = e.step;
      write(early);
    }
  write(e);
}

// The log last: it says if nobody sees the rest.
void RunFolder::write(runs::Event& e) {
  if (runs::EventSink* sink = observer_.sink()) {
    runs::Event moved = e;
    moved.t += log_->last_t();
    sink->write(moved);
  }
  if (board_) board_->write(e);
  if (auto* end = std::get_if<runs::RunEnd>(&e.body); end && end->exit_code == 0) end->exit_code = observer_.lost();
  log_->write(e);
}

}  // namespace toy
