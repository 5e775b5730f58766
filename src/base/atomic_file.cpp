#include "toy/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "toy/base/error.h"

namespace toy {
namespace {

constexpr std::string_view kUnharmed = "an earlier file of this name is unharmed";

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The file that a chain of symbolic links ends in. Links that lead nowhere are left for open() to complain
// about.
std::string resolve(const std::string& path) {
  std::error_code ignored;
  const auto real = std::filesystem::canonical(path, ignored);
  return ignored ? path : real.string();
}

bool is_disk_full(int error) { return error == ENOSPC || error == EDQUOT; }

[[noreturn]] void fail_create(const std::string& path, const std::string& folder, int error) {
  if (is_disk_full(error))
    fail_disk_full("{}: {}; {}; free some space in {}", path, std::strerror(error), kUnharmed, folder);
  std::error_code ignored;
  if (error == ENOENT && std::filesystem::is_directory(folder, ignored))  // /proc
    fail("{}: the folder {} takes no new files; choose another one", path, folder);
  if (error == ENOENT) fail("{}: the folder {} does not exist; create it first (mkdir -p {})", path, folder, folder);
  if (error == ENOTDIR) fail("{}: {} is not a folder; choose another path", path, folder);
  if (error == ENAMETOOLONG) fail("{}: {}; choose a shorter name", path, std::strerror(error));
  if (error == EACCES || error == EPERM || error == EROFS)
    fail("{}: cannot write in the folder {}: {}; choose another folder or change its permissions", path, folder,
         std::strerror(error));
  fail_internal("{}: cannot create a file in the folder {}: {}", path, folder, std::strerror(error));
}

// rename() would put a plain file in the place of a device, which root may do to /dev/null.
void check_target(const std::string& path, const struct stat& st) {
  check(!S_ISDIR(st.st_mode), "{}: is a folder; give the name of a file", path);
  check(S_ISREG(st.st_mode), "{}: is a device, pipe or socket, not a file; give the name of a file", path);
}

// Whether the constructor below makes such names: NAME.PROCESS-COUNT.tmp.
bool is_temporary(std::string_view name) {
  const auto take_back = [&name](std::string_view end) {
    const bool there = name.ends_with(end);
    if (there) name.remove_suffix(end.size());
    return there;
  };
  const auto take_digits = [&name] {
    const size_t rest = name.find_last_not_of("0123456789") + 1;  // npos + 1 is 0: digits alone
    const bool any = rest < name.size();
    name = name.substr(0, rest);
    return any;
  };
  return take_back(".tmp") && take_digits() && take_back("-") && take_digits() && take_back(".") && !name.empty();
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path, FileAccess access)
    : path_(path), target_(access == FileAccess::owner ? path : resolve(path)) {
  const bool usual = access == FileAccess::usual;
  check(!path.empty(), "the name of the file to write is empty");
  struct stat st = {};
  const bool exists = (usual ? ::stat : ::lstat)(target_.c_str(), &st) == 0;
  if (exists && !S_ISLNK(st.st_mode)) check_target(path_, st);
  // O_EXCL decides who owns a name: a process of another machine or container may have our pid.
  static std::atomic<uint64_t> counter{0};
  int error = EEXIST;
  for (int attempt = 0; attempt < 1000 && error == EEXIST; ++attempt) {
    temporary_ = fmt::format("{}.{}-{}.tmp", target_, ::getpid(), counter.fetch_add(1));
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, usual ? 0666 : 0600);
    error = fd_ >= 0 ? 0 : errno;
  }
  if (fd_ < 0) fail_create(path_, folder_of(target_), error);
  // A private file stays private. Where the file system has no modes there is nothing to keep.
  [[maybe_unused]] const int kept = exists && usual ? ::fchmod(fd_, st.st_mode & 07777) : 0;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void remove_leftovers(const std::string& folder) {
  std::error_code ignored;
  std::vector<std::filesystem::path> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.is_regular_file(ignored) && is_temporary(entry.path().filename().string())) left.push_back(entry.path());
  for (const std::filesystem::path& path : left) std::filesystem::remove(path, ignored);
}

void AtomicFile::fail_write(int error) const {
  const std::string folder = folder_of(target_);
  if (is_disk_full(error))
    fail_disk_full("{}: {} after {} bytes; {}; free some space in {}", path_, std::strerror(error), bytes_written_,
                   kUnharmed, folder);
  if (error == EFBIG)
    fail("{}: {} after {} bytes: the limit of the file system or of 'ulimit -f' is reached; {}", path_,
         std::strerror(error), bytes_written_, kUnharmed);
  fail_internal("{}: write error after {} bytes: {}; {}", path_, bytes_written_, std::strerror(error), kUnharmed);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (fd_ < 0) fail_internal("{}: write after commit", path_);
  while (!bytes.empty()) {
    constexpr size_t kMaxWrite = size_t(1) << 30;  // Linux writes at most 2 GiB at a time
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxWrite));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_write(n < 0 ? errno : EIO);
    bytes_written_ += uint64_t(n);
    bytes = bytes.subspan(size_t(n));
  }
}

void AtomicFile::commit() {
  if (fd_ < 0) fail_internal("{}: committed twice", path_);
  int result;
  do result = ::fsync(fd_);
  while (result != 0 && errno == EINTR);
  if (result != 0) fail_write(errno);
  // Network file systems report late write errors here. Linux has closed the file even when it says EINTR.
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail_write(errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int error = errno;
    if (error == EACCES || error == EPERM || error == EROFS || error == EISDIR)
      fail("{}: cannot replace the file: {}; choose another name or folder", path_, std::strerror(error));
    fail_write(error);
  }
  temporary_.clear();
  sync_folder(folder_of(target_), path_);
}

void sync_folder(const std::string& folder, std::string_view what) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (is_disk_full(error))
    fail_disk_full("{}: is written, but the folder {} could not be made durable: {}; free some space there", what,
                   folder, std::strerror(error));
  if (error == EIO)
    fail_internal("{}: is written, but the folder {} could not be made durable: {}", what, folder,
                  std::strerror(error));
}

}  // namespace toy
