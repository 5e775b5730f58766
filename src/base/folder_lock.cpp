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

}  // namespace

FolderLock::FolderLock(const std::string& folder)
    : fd_(::open((folder + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  const int open_error = errno;
  check(fd_ >= 0 || (open_error != ENOSPC && open_error != EDQUOT), "disk full: {}: {}; free some space there", folder,
        std::strerror(open_error));
  check(fd_ >= 0, "{}: cannot write in this folder: {}", folder, std::strerror(open_error));
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    const std::string who = holder(fd_);
    ::close(fd_);
    fail("{}: another run{} is writing to this folder; wait for it to end, or choose another folder", folder, who);
  }
  // For the message above; nothing depends on it, so a full disk does not matter here.
  const std::string id = fmt::format("{}\n", ::getpid());
  [[maybe_unused]] const bool written = ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, id.data(), id.size(), 0) > 0;
}

FolderLock::~FolderLock() { ::close(fd_); }

}  // namespace toy
