// What a user wrote in earlier chats.
#pragma once

#include <string>
#include <vector>

namespace toy::talk {

/// A file of JSON strings, one per line, the latest last. A file that is something else is left alone.
class HistoryFile {
 public:
  /// Reads the latest entries. "" for `path`, and a file that cannot be read or is none of ours: no history.
  explicit HistoryFile(std::string path);
  const std::vector<std::string>& entries() const { return entries_; }
  /// Appends an entry that differs from the latest; errors are ignored. Creates the file, and its folder.
  void add(const std::string& entry);
  /// Why the file is left alone, or "".
  const std::string& warning() const { return warning_; }

 private:
  std::string path_, warning_;
  std::vector<std::string> entries_;
};

/// chat_history in the user's folder of states (XDG Base Directory Specification); "" without one.
std::string default_history_path();

}  // namespace toy::talk
