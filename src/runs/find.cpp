#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "runs/text.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/shell_word.h"
#include "toy/base/threads.h"
#include "toy/formats/checkpoint.h"
#include "toy/runs/run.h"

namespace toy::runs {
namespace {

namespace fs = std::filesystem;

std::string log_in(const fs::path& folder) { return (folder / kEventsFile).string(); }

// The path with its placeholders replaced.
std::string filled_in(const std::string& path, const std::map<std::string, std::string>& fields) {
  std::string out;
  for (size_t at = 0; at < path.size();) {
    const size_t brace = std::min(path.find_first_of("{}", at), path.size());
    out += path.substr(at, brace - at);
    if (brace == path.size()) break;
    const size_t end = path.find('}', brace);
    check(path[brace] == '{' && end != path.npos,
          "'{}': a brace without its partner; placeholders are {{date}} and the like", path);
    const std::string name = path.substr(brace + 1, end - brace - 1);
    const auto field = fields.find(name);
    std::vector<std::string> known;
    for (const auto& f : fields) known.push_back(f.first);
    check(field != fields.end(), "'{}': '{}' is not a placeholder; there are {}", path, name, fmt::join(known, ", "));
    out += field->second;
    at = end + 1;
  }
  return out;
}

// Creating it is what claims it: two runs that start together get different folders.
bool claim(const fs::path& folder) {
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  const bool made = !error && fs::create_directory(folder, error);
  check(!error || fs::exists(folder), "cannot make the folder '{}': {}", folder.string(), error.message());
  return made;
}

// `name` of a run, `in_checkpoint` of its checkpoints.
Made newest(const fs::path& folder, const char* name, const char* in_checkpoint) {
  const fs::path made = folder / name, here = folder / in_checkpoint;
  std::error_code error;
  const bool finished = fs::exists(made, error);
  if (!finished && fs::exists(here, error)) return {here.string(), {}};  // the folder of a checkpoint
  fs::path checkpoint;
  const std::string all = (folder / kCheckpointsFolder).string();
  for (const int64_t step : checkpoint_steps(all))  // ascending
    if (const fs::path file = fs::path(checkpoint_path(all, step)) / in_checkpoint; fs::exists(file, error))
      checkpoint = file;
  // A run that trains where another one was finished replaces its result only at its end. (A file that is not there is
  // older than all others.)
  if (finished && fs::last_write_time(checkpoint, error) <= fs::last_write_time(made, error))
    return {made.string(), {}};
  if (checkpoint.empty()) return {};
  return {checkpoint.string(),
          finished ? fmt::format("{} is older than the newest checkpoint", name) : "the run has not finished"};
}

std::string first_line(const fs::path& path) {
  std::ifstream f(path);
  std::string line;
  std::getline(f, line);
  return line;
}

// Of the roots that are there.
std::vector<std::string> runs_below(std::span<const std::string> roots) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const std::string& root : roots)
    if (fs::is_directory(root, error))
      for (std::string& folder : find_runs(root)) folders.push_back(std::move(folder));
  return folders;
}

}  // namespace

Made newest_model(const std::string& folder) { return newest(folder, kModelFile, kWeightsFile); }
Made newest_adapter(const std::string& folder) { return newest(folder, kAdapterFile, kAdapterFile); }

std::string model_path(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  const Made made = newest_model(path);
  check(!made.file.empty() || !fs::exists(fs::path(path) / "model.safetensors", error),
        "{}: a folder from Hugging Face; make a GGUF file of it first: toy convert {} OUT.gguf", path,
        shell_quoted(path));
  check(!made.file.empty(), "{}: the folder has no {} and no checkpoint; give a GGUF file or the folder of a run", path,
        kModelFile);
  return made.file;
}

std::vector<std::string> find_runs(const std::string& root) {
  std::error_code error;
  const fs::file_type type = fs::status(root, error).type();
  check(type != fs::file_type::not_found, "'{}': no such folder", root);
  check(type != fs::file_type::none, "'{}' cannot be read: {}", root, error.message());
  check(type == fs::file_type::directory, "'{}' is not a folder", root);
  fs::directory_iterator readable(root, error);
  check(!error, "'{}' cannot be read: {}", root, error.message());
  std::vector<fs::path> found;
  const auto look = [&](const fs::path& folder) {
    if (fs::is_regular_file(log_in(folder), error)) found.push_back(folder);
  };
  look(root);
  constexpr int kDepth = 4;
  constexpr auto kReadable = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(root, kReadable, error), end; it != end; it.increment(error)) {
    const bool hidden = it->path().filename().string().starts_with(".");
    const bool folder = !hidden && !it->is_symlink(error) && it->is_directory(error);
    if (folder) look(it->path());
    if (!folder || it.depth() + 1 >= kDepth) it.disable_recursion_pending();
  }
  std::sort(found.begin(), found.end());
  for (fs::path& p : found) p = p.lexically_normal();
  return {found.begin(), found.end()};
}

std::optional<std::string> find_run(const std::string& id, std::span<const std::string> roots, bool whole) {
  std::vector<std::string> exact, begins;
  for (const std::string& folder : runs_below(roots)) {
    if (id_of(folder) == id) exact.push_back(folder);
    if (!whole && !id.empty() && id_of(folder).starts_with(id)) begins.push_back(folder);
  }
  const std::vector<std::string>& chosen = exact.empty() ? begins : exact;
  check(chosen.size() < 2, "'{}' may be {}; give the folder", id, fmt::join(chosen, " or "));
  return chosen.empty() ? std::nullopt : std::optional(chosen[0]);
}

std::string find_log(const std::string& what, std::span<const std::string> roots) {
  std::error_code error;
  if (fs::is_regular_file(what, error)) return what;
  if (fs::is_directory(what, error)) {
    check(fs::exists(log_in(what)), "'{}': the folder has no {}", what, kEventsFile);
    return log_in(what);
  }
  if (const auto run = find_run(what, roots)) return log_in(*run);
  std::vector<std::string> all;
  for (const std::string& folder : runs_below(roots)) all.push_back(id_of(folder));
  std::vector<std::string> searched;
  for (const std::string& root : roots) searched.push_back(root == "." ? "this folder" : root);
  const std::string places = fmt::format("{}", fmt::join(searched, ", "));
  check(!all.empty(), "'{}' is not a file, a folder, or a run below {}", what, places);
  fail("'{}' is not a file, a folder, or one of the runs below {}: {}", what, places, fmt::join(all, ", "));
}

std::string make_folder(const std::string& path, std::map<std::string, std::string> fields) {
  if (path.find_first_of("{}") == path.npos) return path;
  const std::tm now = fmt::gmtime(std::time(nullptr));
  fields["date"] = fmt::format("{:%Y%m%d}", now);
  fields["time"] = fmt::format("{:%H%M%S}", now);
  constexpr int kMost = 1000000;
  for (int seq = 1; seq < kMost; ++seq) {
    fields["seq"] = fmt::format("{:03}", seq);
    const std::string folder = filled_in(path, fields);
    if (claim(folder)) return folder;
    check(path.find("{seq}") != path.npos, "'{}' is there already; put {{seq}} into its name", folder);
  }
  fail("'{}': every number up to {} is taken", path, kMost);
}

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

Host this_host(int threads) {
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, HOST_NAME_MAX) != 0) name[0] = 0;
  return {name, available_cpus(), threads, int64_t(available_memory())};
}

std::optional<std::string> git_commit(const std::string& folder) {
  std::error_code error;
  for (fs::path at = fs::absolute(folder, error);; at = at.parent_path()) {
    fs::path git = at / ".git";
    if (const std::string line = first_line(git); line.starts_with("gitdir: "))
      git = at / line.substr(8);  // a worktree
    const std::string head = first_line(git / "HEAD");
    if (head.empty() && at == at.parent_path()) return std::nullopt;
    if (head.empty()) continue;
    if (!head.starts_with("ref: ")) return head;
    const std::string ref = head.substr(5);
    const fs::path shared = git / first_line(git / "commondir");
    if (const std::string commit = first_line(shared / ref); !commit.empty()) return commit;
    std::ifstream packed(shared / "packed-refs");
    for (std::string line; std::getline(packed, line);)
      if (line.size() == 41 + ref.size() && line.ends_with(" " + ref)) return line.substr(0, 40);
    return std::nullopt;
  }
}

}  // namespace toy::runs
