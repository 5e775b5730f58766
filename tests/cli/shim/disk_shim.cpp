// For LD_PRELOAD: stands between a program and the calls that change files below one folder. It can write down their
// order, kill or signal the process in front of the k-th, or let the disk be full from the k-th on.
//
//   TOY_SHIM_ROOT=DIR     which files count
//   TOY_SHIM_LOG=FILE     append a line a call: `fsync /path`, `rename /from /to`, ...
//   TOY_SHIM_KILL_AT=K    SIGKILL instead of call K, counted from 1
//   TOY_SHIM_SIGNAL=N     signal N, which may be caught, in front of call TOY_SHIM_SIGNAL_AT
//   TOY_SHIM_FULL_AT=K    ENOSPC from call K on, for calls that may take space: all but removing
//   TOY_SHIM_NO_LINKS=1   a file system without links: EPERM for each, hard and symbolic
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

long number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atol(text) : 0;
}

std::string path_of(int fd) {
  std::string path(4096, '\0');
  const ssize_t n = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size());
  path.resize(n > 0 ? size_t(n) : 0);
  return path;
}

std::string path_of(int folder, const char* name) {
  if (name[0] == '/' || folder == AT_FDCWD) return name;
  return path_of(folder) + "/" + name;
}

enum class Takes { space, nothing };

// False: the call is to fail, errno is set.
bool allowed(const char* what, const std::string& path, const std::string& more = {}, Takes takes = Takes::space) {
  static const char* root = std::getenv("TOY_SHIM_ROOT");
  static const long kill_at = number("TOY_SHIM_KILL_AT"), full_at = number("TOY_SHIM_FULL_AT");
  static const long signal = number("TOY_SHIM_SIGNAL"), signal_at = number("TOY_SHIM_SIGNAL_AT");
  static long count = 0;
  if (!root || !path.starts_with(root)) return true;
  ++count;
  if (const char* log = std::getenv("TOY_SHIM_LOG")) {
    const std::string line = std::string(what) + " " + path + (more.empty() ? "" : " " + more) + "\n";
    const int fd = real<int(const char*, int, ...)>("open")(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    (void)!real<ssize_t(int, const void*, size_t)>("write")(fd, line.data(), line.size());
    ::close(fd);
  }
  if (count == kill_at) ::raise(SIGKILL);
  if (count == signal_at) ::raise(int(signal));
  if (full_at > 0 && count >= full_at && takes == Takes::space) {
    errno = ENOSPC;
    return false;
  }
  return true;
}

// False: the link is to fail, errno is set.
bool links_allowed(const char* what, const std::string& path, const std::string& target) {
  if (!allowed(what, path, target)) return false;
  static const bool none = number("TOY_SHIM_NO_LINKS") != 0;
  if (none) errno = EPERM;
  return !none;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & O_CREAT) && !allowed("create", path)) return -1;
  return real<int(const char*, int, ...)>("open")(path, flags, mode);
}

ssize_t write(int fd, const void* data, size_t bytes) {
  if (!allowed("write", path_of(fd))) return -1;
  return real<ssize_t(int, const void*, size_t)>("write")(fd, data, bytes);
}

int fsync(int fd) {
  if (!allowed("fsync", path_of(fd))) return -1;
  return real<int(int)>("fsync")(fd);
}

int rename(const char* from, const char* to) {
  if (!allowed("rename", from, to)) return -1;
  return real<int(const char*, const char*)>("rename")(from, to);
}

int mkdir(const char* path, mode_t mode) {
  if (!allowed("mkdir", path)) return -1;
  return real<int(const char*, mode_t)>("mkdir")(path, mode);
}

int symlink(const char* target, const char* path) {
  if (!links_allowed("symlink", path, target)) return -1;
  return real<int(const char*, const char*)>("symlink")(target, path);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  if (!links_allowed("link", path_of(to_folder, to), from)) return -1;
  return real<int(int, const char*, int, const char*, int)>("linkat")(from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) {
  if (!allowed("unlink", path, {}, Takes::nothing)) return -1;
  return real<int(const char*)>("unlink")(path);
}

int unlinkat(int folder, const char* name, int flags) {
  if (!allowed("unlink", path_of(folder, name), {}, Takes::nothing)) return -1;
  return real<int(int, const char*, int)>("unlinkat")(folder, name, flags);
}

}  // extern "C"
