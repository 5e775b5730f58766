// One writer a folder.
#pragma once

#include <functional>
#include <string>

namespace toy {

/// The file in a folder that is locked; it holds the number of the process.
inline constexpr const char* kLockFile = ".lock";

/// Holds a folder for one process, as long as it lives: flock() on `<folder>/.lock`, which the system lets go of
/// however the process ends. The file stays behind and means nothing by itself. File systems without locks are not
/// guarded.
class FolderLock {
 public:
  /// Throws Error{bad_input} naming the folder and the process that has it.
  explicit FolderLock(const std::string& folder);
  /// Waits for it; calls `waiting` once, and first, where another process has it.
  FolderLock(const std::string& folder, const std::function<void()>& waiting);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  bool try_lock();
  bool holds(const std::string& folder) const;

  int fd_ = -1;
};

/// Takes away a folder that holds nothing, or nothing but a lock that nobody has.
void remove_unused_folder(const std::string& folder) noexcept;

}  // namespace toy
