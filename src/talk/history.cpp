#include "talk/history.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::talk {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKept = 1000;  // entries
constexpr size_t kMostKept = 2 * kKept;

std::string as_line(const std::string& entry) { return json_text(nlohmann::json(entry)) + "\n"; }

}  // namespace

HistoryFile::HistoryFile(std::string path) : path_(std::move(path)) {
  std::error_code error;
  if (path_.empty() || !fs::exists(path_, error)) return;
  std::ifstream file(path_, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    const auto j = parse_json<nlohmann::json>(line);
    if (!j.is_string()) {
      warning_ = fmt::format("{}: it is no history of toy chat, and stays as it is; move it away to have one",
                             one_line(path_));
      path_.clear();
      entries_.clear();
      return;
    }
    entries_.push_back(j.get<std::string>());
  }
  if (entries_.size() <= kKept) return;
  const bool rewrite = entries_.size() > kMostKept;
  entries_.erase(entries_.begin(), entries_.end() - std::ptrdiff_t(kKept));
  if (!rewrite) return;
  try {
    AtomicFile shorter(path_);
    for (const std::string& entry : entries_) shorter.write(as_line(entry));
    shorter.commit();
    fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_write, error);
  } catch (const Error&) {  // it stays long
  }
}

void HistoryFile::add(const std::string& entry) {
  if (!entries_.empty() && entries_.back() == entry) return;
  entries_.push_back(entry);
  if (path_.empty()) return;
  std::error_code error;
  const fs::path folder = fs::path(path_).parent_path();
  if (fs::create_directories(folder, error)) fs::permissions(folder, fs::perms::owner_all, error);
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string line = as_line(entry);
  (void)!write(fd, line.data(), line.size());
  close(fd);
}

std::string default_history_path() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  fs::path states = variable("XDG_STATE_HOME");
  if (!states.is_absolute()) {
    const fs::path home = variable("HOME");
    if (!home.is_absolute()) return {};
    states = home / ".local" / "state";
  }
  return (states / "toy" / "chat_history").string();
}

}  // namespace toy::talk
