#include "toy/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "toy/base/error.h"

namespace toy {
namespace {

// What the holder wrote: its process id.
std::string holder(int fd) {
  std::array<char, 32> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  const std::string id(text.data(), n > 0 ? size_t(n) : 0);
  return id.empty() ? "" : " (process " + id.substr(0, id.find('\n')) + ")";
}

int open_lock(const std::string& folder) {
  const int fd = ::open((folder + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  const int error = errno;
  if (fd < 0 && (error == ENOSPC || error == EDQUOT))
    fail_disk_full("{}: {}; free some space there", folder, std::strerror(error));
  check(fd >= 0, "{}: cannot write in this folder: {}", folder, std::strerror(error));
  return fd;
}

// For the message to others; nothing depends on it, so a full disk does not matter here.
void write_holder(int fd) {
  const std::string id = fmt::format("{}\n", ::getpid());
  [[maybe_unused]] const bool written = ::ftruncate(fd, 0) == 0 && ::pwrite(fd, id.data(), id.size(), 0) > 0;
}

}  // namespace

// False only where somebody has it: a file system without locks guards nothing.
bool FolderLock::try_lock() { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

FolderLock::FolderLock(const std::string& folder) : fd_(open_lock(folder)) {
  if (!try_lock()) {
    const std::string who = holder(fd_);
    ::close(fd_);
    fail("{}: another run{} is writing to this folder; wait for it to end, or choose another folder", folder, who);
  }
  write_holder(fd_);
}

FolderLock::FolderLock(const std::string& folder, const std::function<void()>& waiting) : fd_(open_lock(folder)) {
  if (!try_lock()) {
    waiting();
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  write_holder(fd_);
}

FolderLock::~FolderLock() { ::close(fd_); }

}  // namespace toy
