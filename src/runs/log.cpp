#include "toy/runs/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>
#include <utility>

#include "toy/base/error.h"

namespace toy::runs {
namespace {

std::ifstream opened(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  check(type != std::filesystem::file_type::fifo && type != std::filesystem::file_type::character,
        "{}: is a pipe or a device; a file is needed", path);
  std::ifstream file(path, std::ios::binary);  // of a pipe it would wait for a writer
  check(file.good(), "{}: cannot open: {}", path, std::strerror(errno));
  return file;
}

// Calls f(line, number, torn) for each line that is not empty.
template <class F>
void each_line(std::ifstream& file, const std::string& path, const F& f) {
  file.clear();
  file.seekg(0);
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number)
    if (!line.empty()) f(line, number, file.eof());
  check(!file.bad(), "{}: cannot read: {}", path, std::strerror(errno));
}

// Where a run begins or resumes: of what was written before, only events up to a step count.
struct Turn {
  int64_t line, step;
};

std::vector<Turn> turns_of(std::ifstream& file, const std::string& path) {
  std::vector<Turn> turns;
  each_line(file, path, [&](const std::string& line, int64_t number, bool) {
    if (line.starts_with("{\"kind\":\"step\"")) return;
    if (line.find("\"resume\"") == line.npos && line.find("\"run_start\"") == line.npos) return;
    try {
      const std::optional<Event> e = parse_event(line);
      if (e && e->as<RunStart>()) turns.push_back({number, INT64_MIN});
      if (e && e->as<Resume>()) turns.push_back({number, e->step.value_or(0)});
    } catch (const Error&) {  // the caller says so
    }
  });
  for (size_t i = turns.size(); i-- > 1;) turns[i - 1].step = std::min(turns[i - 1].step, turns[i].step);
  return turns;
}

// Takes a torn last line away. False: the last line is whole and lacks its line break, or it cannot be taken away.
bool is_ended(const std::string& path) {
  std::ifstream file = opened(path);
  std::string last;
  each_line(file, path, [&](const std::string& line, int64_t, bool torn) { last = torn ? line : ""; });
  if (last.empty()) return true;
  std::error_code error;
  try {
    parse_event(last);
    return false;
  } catch (const Error&) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path, error) - last.size(), error);
    return !error;
  }
}

}  // namespace

std::vector<std::string> visit_events(const std::string& path, const std::function<void(Event&&)>& see) {
  std::ifstream file = opened(path);
  const std::vector<Turn> turns = turns_of(file, path);
  auto turn = turns.begin();  // the next one
  std::vector<std::string> warnings;
  int64_t events = 0;
  bool other = false, begun = false;
  const auto warn = [&](int64_t line, auto text) { warnings.push_back(fmt::format("line {}: {}", line, text)); };
  each_line(file, path, [&](const std::string& line, int64_t number, bool torn) {
    std::optional<Event> e;
    try {
      e = parse_event(line);
    } catch (const Error& error) {
      other = other || !torn;
      warn(number, torn ? "the last line is torn and was skipped"
                        : fmt::format("is not a whole event and was skipped: {}", error.what()));
      return;
    }
    ++events;  // an unknown kind is an event too
    if (!e) return;
    if (const RunStart* start = e->as<RunStart>()) {
      check(start->schema == kSchema, "{}: line {}: the schema is '{}'; this version reads {}", path, number,
            start->schema, kSchema);
      if (begun) warn(number, "a second run begins in this file; only it is shown");
    }
    begun = true;
    while (turn != turns.end() && turn->line <= number) ++turn;
    if (turn == turns.end() || (!e->as<RunEnd>() && e->step.value_or(0) <= turn->step)) see(std::move(*e));
  });
  check(events > 0 || !other, "{}: is not the log of a run (events.jsonl); give the run's folder", path);
  check(events > 0, "{}: holds no event", path);
  return warnings;
}

Log read_events(const std::string& path) {
  Log log;
  log.warnings = visit_events(path, [&](Event&& e) { log.events.push_back(std::move(e)); });
  std::set<std::tuple<size_t, int64_t, std::string>> seen;
  const auto is_outdated = [&](const Event& e) {
    const auto name = e.name_in_step();
    return name && !seen.emplace(e.body.index(), e.step.value_or(0), *name).second;
  };
  // From the last to the first.
  const auto kept = std::remove_if(log.events.rbegin(), log.events.rend(), is_outdated).base();
  log.events.erase(log.events.begin(), kept);
  return log;
}

bool is_being_written(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock asked {};  // for the whole file; it takes nothing
  asked.l_type = F_RDLCK;
  const bool taken = ::fcntl(fd, F_OFD_GETLK, &asked) == 0 && asked.l_type != F_UNLCK;
  ::close(fd);
  return taken;
}

EventWriter::EventWriter(const std::string& path, Mode mode) : path_(path) {
  open(mode == Mode::resume ? 0 : O_CREAT);
  if (mode == Mode::resume) {
    visit_events(path, [this](Event&& e) { last_t_ = std::max(last_t_, e.t); });
    if (!is_ended(path)) append("\n");  // an empty line more is no event
    return;
  }
  std::error_code error;
  if (std::filesystem::file_size(path, error) == 0 || error) return;
  const auto previous = std::filesystem::path(path).replace_extension("previous.jsonl");
  std::filesystem::rename(path, previous, error);
  check(!error, "{}: the log of an earlier run cannot be renamed to {}: {}", path, previous.string(), error.message());
  ::close(std::exchange(fd_, -1));
  open(O_CREAT | O_EXCL);
}

EventWriter::~EventWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void EventWriter::open(int flags) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | flags, 0666);
  check(fd_ >= 0, "{}: cannot open the log of the run: {}", path_, std::strerror(errno));
  // A lock of the open file (OFD), which ends with it, whatever else the process opens and closes. File systems without
  // locks are taken as they are.
  struct flock wanted {};
  wanted.l_type = F_WRLCK;
  const bool taken = ::fcntl(fd_, F_OFD_SETLK, &wanted) != 0 && (errno == EAGAIN || errno == EACCES);
  if (taken) ::close(std::exchange(fd_, -1));
  check(!taken, "{}: another run is writing here now; choose another folder, or wait until it has ended", path_);
}

void EventWriter::append(const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
      fail_disk_full("{}: {}; free some space and resume", path_, std::strerror(errno));
    if (n < 0) fail_internal("{}: cannot write: {}", path_, std::strerror(errno));
    done += size_t(n);
  }
}

void EventWriter::write(const Event& event) {
  Event moved = event;
  moved.t += last_t_;
  append(to_json_line(moved) + "\n");
  const bool durable = event.as<RunStart>() || event.as<Resume>() || event.as<Eval>() || event.as<RunEnd>();
  if (durable && ::fsync(fd_) != 0 && errno == EIO) fail_internal("{}: cannot write: {}", path_, std::strerror(errno));
}

}  // namespace toy::runs
