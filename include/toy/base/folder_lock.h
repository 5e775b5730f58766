// One writer per folder.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace toy {

/// The locked file in a folder; it holds the process id.
inline constexpr const char* kLockFile = ".lock";

/// Locks a folder for one process during the object's life: flock() on `<folder>/.lock`, which the system releases
/// however the process ends. The file remains and has no meaning by itself. File systems without locks are not
/// protected.
class FolderLock {
 public:
  /// Throws Error{bad_input} naming the folder and the process that holds it.
  explicit FolderLock(const std::string& folder);
  /// Waits for the lock; calls `waiting` once before, if another process holds it.
  FolderLock(const std::string& folder, const std::function<void()>& waiting);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  bool try_lock();
  bool holds(const std::string& folder) const;

  int fd_ = -1;
};

/// The process that holds a folder's lock; nothing where no process does. Throws Error{bad_input} where its number is
/// of another machine or container, as on a file system that several share.
std::optional<int> lock_holder(const std::string& folder);

/// Removes a folder that is empty, or holds only a lock that no process holds.
void remove_unused_folder(const std::string& folder) noexcept;

}  // namespace toy
