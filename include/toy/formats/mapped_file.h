// A complete file as read-only memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <thread>
#include <utility>

namespace toy {

/// Owns a private read-only mapping of a regular file.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws Error{bad_input} naming the path and the reason: missing, no permission, a folder or device,
  /// empty.
  static MappedFile open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, bytes_}; }
  /// Gives touched pages back to the system; they are read again when needed. So reading a file larger than memory does
  /// not fill it.
  void release() const;

 private:
  const std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

/// A thread that maps pages of a file before they are needed, from the first to the last, for whoever will read most of
/// it. It reads a byte in every 64 KiB, and the kernel maps the pages around it. Only where a piece of 512 KiB begins
/// with a page in memory: reading a file from disk is left to those who need it. Pages that the file has lost since are
/// a SIGBUS, as for every reader. Ends with its file or earlier.
class PagesAhead {
 public:
  /// Starts the thread.
  explicit PagesAhead(const MappedFile& file);

 private:
  std::jthread thread_;
};

/// From now on, touching a page that a mapped file has lost (it was truncated) writes one line to stderr
/// and ends the process with status 1, instead of a bare SIGBUS. For programs; a library does not own the
/// process's signals.
void install_sigbus_message();

}  // namespace toy
