// Checkpoints on disk: folders that exist complete and checked, or not at all. The writer defines what their files
// mean; see docs/checkpoints.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace toy {

/// Writes one checkpoint, `<root>/step_<step>`: the caller's files go into a temporary folder next to it, each
/// fsynced by its writer (AtomicFile does). commit() adds the manifest, fsyncs the folder, renames it and fsyncs the
/// root. Destroyed without a commit, it removes what it made. One writer per root at a time (FolderLock).
class CheckpointWriter {
 public:
  /// Creates the root, if necessary, and the temporary folder. Throws Error{bad_input} for a full disk or a root that
  /// cannot be written.
  CheckpointWriter(const std::string& root, int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Where to write the file of this name. It must be there at commit().
  std::string path(const std::string& file);
  /// Makes the checkpoint durable under its name, which is returned. An existing folder of that name is set aside.
  std::string commit();

 private:
  std::string root_, temporary_;
  int64_t step_;
  std::vector<std::string> files_;
};

/// Steps that have a folder in `root`, ascending, complete or not; none if there is no root.
std::vector<int64_t> checkpoint_steps(const std::string& root);
/// `<root>/step_<step>`, with six digits at least.
std::string checkpoint_path(const std::string& root, int64_t step);
/// Why a checkpoint cannot be used, or "" if it is complete: every file has the length and the checksum (XXH64) that
/// its manifest states. Reads all of it.
std::string checkpoint_damage(const std::string& root, int64_t step);
/// Removes a checkpoint. Renamed first: its name never stands for a part of it. Errors are ignored.
void remove_checkpoint(const std::string& root, int64_t step);
/// Renames a damaged one to `<root>/damaged_step_<step>`, where it is ignored, and returns that path. Throws
/// Error{failure}.
std::string set_checkpoint_aside(const std::string& root, int64_t step);
/// Removes what killed writers left.
void clean_checkpoints(const std::string& root);
/// Makes the relative link `<root>/<name>` lead to a checkpoint, atomically. Where the file system has no links, or the
/// folder was copied with its links followed, `<root>/<name>` is a copy of the checkpoint. Throws Error{bad_input} for
/// a full disk, and as require_link_place() does.
void link_checkpoint(const std::string& root, const std::string& name, int64_t step);
/// Throws Error{bad_input} where `<root>/<name>` is neither a link nor a copy of a checkpoint: it would be lost.
void require_link_place(const std::string& root, const std::string& name);

}  // namespace toy
