#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "toy/base/error.h"
#include "toy/runs/log.h"

namespace toy::runs {
namespace {

// Locks of open files (OFD): they end with the file, whatever else the process opens and closes.
struct flock whole_file(short type) {
  struct flock f {};
  f.l_type = type;
  f.l_whence = SEEK_SET;
  return f;
}

// What stands behind the last line break, "" if nothing does; nullopt where the file cannot be read.
std::optional<std::string> last_line(int fd) {
  std::string tail;
  struct stat s {};
  if (::fstat(fd, &s) != 0) return std::nullopt;
  for (off_t at = s.st_size; at > 0;) {
    char piece[4096];
    const size_t n = size_t(std::min<off_t>(at, sizeof piece));
    if (::pread(fd, piece, n, at - off_t(n)) != ssize_t(n)) return std::nullopt;
    at -= off_t(n);
    const std::string_view text(piece, n);
    const size_t line_break = text.rfind('\n');
    tail.insert(0, text.substr(line_break + 1));  // npos + 1 is 0
    if (line_break != text.npos) break;
  }
  return tail;
}

// Takes a torn last line away. False: it is whole and lacks its line break alone, or cannot be taken away.
bool cut(int fd, const std::string& line) {
  try {
    parse_event(line);
    return false;
  } catch (const Error&) {
    struct stat s {};
    return ::fstat(fd, &s) == 0 && ::ftruncate(fd, s.st_size - off_t(line.size())) == 0;
  }
}

}  // namespace

bool is_being_written(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock asked = whole_file(F_RDLCK);  // asks, takes nothing
  const bool taken = ::fcntl(fd, F_OFD_GETLK, &asked) == 0 && asked.l_type != F_UNLCK;
  ::close(fd);
  return taken;
}

EventWriter::EventWriter(const std::string& path, Mode mode) : path_(path) {
  open(mode == Mode::resume ? 0 : O_CREAT);
  lock();
  if (mode == Mode::resume) {
    visit_events(path, [this](Event&& e) { last_t_ = std::max(last_t_, e.t); });
    const std::optional<std::string> torn = last_line(fd_);
    if (!torn || (!torn->empty() && !cut(fd_, *torn))) append("\n");  // an empty line more is no event
    return;
  }
  std::error_code error;
  if (std::filesystem::file_size(path, error) == 0 || error) return;
  const auto previous = std::filesystem::path(path).replace_extension("previous.jsonl");
  std::filesystem::rename(path, previous, error);
  check(!error, "{}: the log of an earlier run cannot be renamed to {}: {}", path, previous.string(), error.message());
  ::close(std::exchange(fd_, -1));
  open(O_CREAT | O_EXCL);
  lock();
}

EventWriter::~EventWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void EventWriter::open(int flags) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | flags, 0666);
  check(fd_ >= 0, "{}: cannot open the log of the run: {}", path_, std::strerror(errno));
}

void EventWriter::lock() {
  struct flock wanted = whole_file(F_WRLCK);
  // File systems without locks are taken as they are.
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
