#include "toy/formats/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "toy/base/error.h"
#include "toy/base/nearest.h"

namespace toy {
namespace {

/// Closes on every way out: the mapping needs no descriptor.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail_open(const std::string& path, int error) {
  check(!path.empty(), "the name of the file is empty; give a path");
  if (error == ENOENT) fail("{}", no_such_file(path));
  if (error == EACCES || error == EPERM) fail("{}: no permission to read it; change it with chmod", path);
  fail("{}: cannot open: {}", path, std::strerror(error));
}

extern "C" void on_sigbus(int) {
  // Only what is safe inside a signal handler: write() and _exit().
  constexpr char kText[] =
      "toy: a mapped file was truncated while in use; leave models and data caches as they are while toy runs "
      "(write a new file and rename it)\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(1);
}

}  // namespace

MappedFile MappedFile::open(const std::string& path) {
  // O_NONBLOCK: a pipe is refused below, without waiting for its writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail_open(path, errno);
  struct stat st = {};
  if (::fstat(file.fd, &st) != 0) fail("{}: cannot read its size: {}", path, std::strerror(errno));
  check(!S_ISDIR(st.st_mode), "{}: is a folder; give the file inside it", path);
  check(S_ISREG(st.st_mode), "{}: is a device, pipe or socket, not a file", path);
  check(st.st_size > 0, "{}: the file is empty; copy or download it again", path);
  void* data = ::mmap(nullptr, size_t(st.st_size), PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    fail_internal("{}: cannot map {} bytes: {}", path, st.st_size, std::strerror(error));
  }
  MappedFile mapped;
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.bytes_ = size_t(st.st_size);
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), bytes_);
}

void MappedFile::release() const {
  // Only a hint: where the system refuses it, pages stay until it wants them.
  if (data_) [[maybe_unused]]
    const int ignored = ::madvise(const_cast<std::byte*>(data_), bytes_, MADV_DONTNEED);
}

PagesAhead::PagesAhead(const MappedFile& file) {
  thread_ = std::jthread([bytes = file.bytes()](const std::stop_token& stop) {
    constexpr size_t kPiece = size_t(512) << 10, kFault = size_t(64) << 10;
    for (size_t at = 0; at < bytes.size() && !stop.stop_requested(); at += kPiece) {
      unsigned char resident = 0;  // of one page: files are read and forgotten in pieces larger than this
      if (::mincore(const_cast<std::byte*>(bytes.data()) + at, 1, &resident) != 0) return;
      if ((resident & 1) == 0) continue;
      // A fault maps its neighbours too, and costs half of what MADV_POPULATE_READ does for as many pages.
      const size_t end = std::min(at + kPiece, bytes.size());
      for (size_t i = at; i < end; i += kFault) {
        [[maybe_unused]] const std::byte touched = *static_cast<const volatile std::byte*>(bytes.data() + i);
      }
    }
  });
}

void install_sigbus_message() {
  struct sigaction action = {};
  action.sa_handler = on_sigbus;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace toy
