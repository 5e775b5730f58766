#include "toy/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>

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

constexpr int kPasses = 100;  // where files have no number that stays, a lock is taken as it is
std::string lock_path(const std::string& folder) { return folder + "/" + kLockFile; }

int open_lock(const std::string& folder) {
  const int fd = ::open(lock_path(folder).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  const int error = errno;
  if (fd < 0 && (error == ENOSPC || error == EDQUOT))
    fail_disk_full("{}: {}; free some space there", folder, std::strerror(error));
  check(fd >= 0 || error != ENOENT, "{}: there is no such folder; another run may have taken it away", folder);
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

// Is the file that is locked still the one of this name? remove_unused_folder() may have taken it away in between.
bool FolderLock::holds(const std::string& folder) const {
  struct stat ours = {}, named = {};
  return ::fstat(fd_, &ours) == 0 && ::stat(lock_path(folder).c_str(), &named) == 0 && ours.st_ino == named.st_ino;
}

FolderLock::FolderLock(const std::string& folder) {
  int passes = 0;
  do {
    if (fd_ >= 0) ::close(fd_);
    fd_ = open_lock(folder);
    if (!try_lock()) {
      const std::string who = holder(fd_);
      ::close(fd_);
      fail("{}: another run{} is writing to this folder; wait for it to end, or choose another folder", folder, who);
    }
  } while (!holds(folder) && ++passes < kPasses);
  write_holder(fd_);
}

FolderLock::FolderLock(const std::string& folder, const std::function<void()>& waiting) {
  bool told = false;
  int passes = 0;
  do {
    if (fd_ >= 0) ::close(fd_);
    fd_ = open_lock(folder);
    if (try_lock()) continue;
    if (!std::exchange(told, true)) waiting();
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  } while (!holds(folder) && ++passes < kPasses);
  write_holder(fd_);
}

FolderLock::~FolderLock() { ::close(fd_); }

namespace {

struct Holder {
  bool held = false, here = false;  // by a process that has that file open on this machine
  int process = 0;
};

Holder look_at_holder(const std::string& folder) {
  const int fd = ::open(lock_path(folder).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  std::array<char, 32> text{};
  const bool read = held && ::pread(fd, text.data(), text.size() - 1, 0) > 0;
  const int process = read ? std::atoi(text.data()) : 0;
  struct stat locked = {}, open = {};
  bool here = false;  // has a process of this number that file open?
  std::error_code gone;
  ::fstat(fd, &locked);
  ::close(fd);
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", process), gone))
    here = here ||
           (::stat(entry.path().c_str(), &open) == 0 && open.st_ino == locked.st_ino && open.st_dev == locked.st_dev);
  return {held, here, process};
}

}  // namespace

std::optional<int> lock_holder(const std::string& folder) {
  Holder holder = look_at_holder(folder);
  // A process that ends at this moment closes its files one by one.
  for (int tries = 0; holder.held && !holder.here && tries < 20; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    holder = look_at_holder(folder);
  }
  if (!holder.held) return std::nullopt;
  check(holder.here,
        "{}: process {} writes to this folder, and is not one of yours on this machine; look for it where it runs",
        folder, holder.process);
  return holder.process;
}

void remove_unused_folder(const std::string& folder) noexcept try {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename() != kLockFile) return;
  if (error) return;
  const FolderLock ours(folder);  // nobody begins to use it now
  std::filesystem::remove(lock_path(folder), error);
  std::filesystem::remove(folder, error);  // not if something has come into it
} catch (const std::exception&) {          // somebody has it: then it is of use
}

}  // namespace toy
