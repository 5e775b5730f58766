// A file that appears under its name complete or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace toy {

/// Who may read a new file.
enum class FileAccess {
  usual,  ///< whom the umask lets, or who may read the file that it replaces
  owner,  ///< its owner alone, whatever was there
};

/// Writes to a temporary file next to the target; commit() makes it durable and gives it its name. Destroyed
/// without a commit, it removes the temporary file and leaves an earlier target unchanged. A symbolic link
/// is followed: its target is replaced, not the link. With FileAccess::owner the link itself is replaced.
class AtomicFile {
 public:
  /// Creates the temporary file. Throws Error{bad_input} for a missing or unwritable folder, a target that is a
  /// folder or a device, and a full disk.
  explicit AtomicFile(const std::string& path, FileAccess access = FileAccess::usual);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws Error{bad_input} for a full disk, Error{failure} for other write errors.
  void write(std::span<const std::byte> bytes);
  /// As above, for text.
  void write(std::string_view bytes) { write(std::as_bytes(std::span(bytes.data(), bytes.size()))); }
  uint64_t bytes_written() const { return bytes_written_; }
  /// fsync, rename, fsync of the folder. Call it once, last.
  void commit();

 private:
  [[noreturn]] void fail_write(int error) const;

  std::string path_;       ///< as given, for messages
  std::string target_;     ///< with symbolic links resolved
  std::string temporary_;  ///< empty once it has been renamed
  int fd_ = -1;
  uint64_t bytes_written_ = 0;
};

/// Removes temporary files that killed processes left in a folder. Call it only while no other process writes there
/// (FolderLock). Errors are ignored.
void remove_leftovers(const std::string& folder);

/// fsync of a folder: makes the names in it durable; `what` is the newest, for messages. Folders that cannot be opened
/// or synced (write-only, some network file systems) are skipped. Throws Error{bad_input} for a full disk,
/// Error{failure} for a write error that the system reports late.
void sync_folder(const std::string& folder, std::string_view what);

}  // namespace toy
