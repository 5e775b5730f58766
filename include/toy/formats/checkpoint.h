// Checkpoints on disk: folders that are there complete and checked, or not at all. What their files mean is their
// writer's affair; see docs/checkpoints.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace toy {

/// Writes one checkpoint, `<root>/step_<step>`: the caller's files go into a temporary folder beside it, each fsynced
/// by whoever writes it (AtomicFile does); commit() adds the manifest, fsyncs the folder, renames it and fsyncs the
/// root. Destroyed without a commit it removes what it made. One writer a root at a time (FolderLock).
class CheckpointWriter {
 public:
  /// Makes the root, if need be, and the temporary folder. Throws Error{bad_input} for a full disk or a root that
  /// cannot be written.
  CheckpointWriter(const std::string& root, int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Where to write the file of this name. It must be there at commit().
  std::string path(const std::string& file);
  /// Makes the checkpoint durable and gives it its name, which is returned. A folder that has the name already is set
  /// aside.
  std::string commit();

 private:
  std::string root_, temporary_;
  int64_t step_;
  std::vector<std::string> files_;
};

/// Steps of which `root` has a folder, ascending, whole or not; none if there is no root.
std::vector<int64_t> checkpoint_steps(const std::string& root);
/// `<root>/step_<step>`, with six digits at least.
std::string checkpoint_path(const std::string& root, int64_t step);
/// Why a checkpoint cannot be used, or "" if it is whole: every file has the length and the checksum (XXH64) that its
/// manifest states. Reads all of it.
std::string checkpoint_damage(const std::string& root, int64_t step);
/// Removes a checkpoint. Renamed first: there is never half of one under its name. Errors are ignored, it is cleaning
/// up.
void remove_checkpoint(const std::string& root, int64_t step);
/// Renames a damaged one to `<root>/damaged_step_<step>`, where nobody looks for it, and returns that. Throws
/// Error{failure}.
std::string set_checkpoint_aside(const std::string& root, int64_t step);
/// Removes what writers that were killed have left.
void clean_checkpoints(const std::string& root);
/// Lets the relative link `<root>/<name>` lead to a checkpoint, atomically. File systems without links go without.
/// Throws Error{bad_input} for a full disk.
void link_checkpoint(const std::string& root, const std::string& name, int64_t step);

}  // namespace toy
