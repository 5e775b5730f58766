// One writer a folder.
#pragma once

#include <string>

namespace toy {

/// Holds a folder for one process, as long as it lives: flock() on `<folder>/.lock`, which the system lets go of
/// however the process ends. The file stays behind and means nothing by itself. File systems without locks are not
/// guarded.
class FolderLock {
 public:
  /// Throws Error{bad_input} naming the folder and the process that has it.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

}  // namespace toy
