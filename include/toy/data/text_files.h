// Texts on disk: which files a list of files and folders means, reading them whole or in pieces, and noticing that they
// change.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toy {

/// Reads a whole file with read(2). Throws Error{bad_input} naming the path and the reason (missing, folder, empty, no
/// permission), or where the process would hold more than `memory` bytes (0: no limit).
std::string read_text_file(const std::string& path, bool may_be_empty = false, size_t memory = 0);
/// Reads standard input to its end. Throws Error{bad_input} when there is nothing, and beyond `memory`.
std::string read_standard_input(bool may_be_empty = false, size_t memory = 0);

/// A file as it was when it was looked at.
struct TextFile {
  std::string path;
  uint64_t bytes = 0;
  int64_t modified = 0, changed = 0;  ///< mtime and ctime, nanoseconds
  /// The text itself of what can be read only once (a pipe); nullptr for files.
  std::shared_ptr<const std::string> text = {};
};

/// Bytes of all of them.
uint64_t bytes_of(std::span<const TextFile> files);

/// What a list of paths means.
struct TextFiles {
  /// A file that is no text of the corpus, and why.
  struct LeftOut {
    std::string path, reason;
  };
  std::vector<TextFile> files;
  std::vector<LeftOut> left_out;  ///< of folders
  uint64_t bytes() const { return bytes_of(files); }
};

/// Files with NUL bytes: refused where they are named, or taken like texts. `offered` refuses and mentions --binary.
enum class BinaryFiles { refused, offered, taken };

/// The files of `paths` in their order; a folder stands for the files in it and below, ordered by path, byte by byte.
/// Of a folder are left out: hidden names, empty files, files with a NUL byte among the first 8192, links to folders,
/// what is no regular file, and what lies below one of `except`. Throws Error{bad_input} naming the path for one that
/// is missing, empty or cannot be read, and for a folder without a text.
/// "-" is standard input. What can be read only once is kept in memory: an error where the process would hold more than
/// `memory` (0: no limit).
TextFiles list_text_files(std::span<const std::string> paths, std::span<const std::string> except = {},
                          BinaryFiles binary = BinaryFiles::refused, size_t memory = 0);

/// Does it begin as UTF-16 does, with a byte order mark?
bool is_utf16(std::string_view text);
/// Is there a NUL byte among the first 8192?
bool is_binary(std::string_view text);
/// What to say of such a file that begins like this: it is compressed, or what else to do.
const char* why_not_text(std::string_view start);

/// Reads bytes [begin, end) of a file and hands them on in pieces of at most 1 MiB, in order, until `take` says false.
/// Throws Error{bad_input} where the file cannot be read or ends before.
void read_text(const TextFile& file, uint64_t begin, uint64_t end, const std::function<bool(std::string_view)>& take);

/// XXH64 of a file's text.
uint64_t hash_of(const TextFile& file);

/// The file as it is now. Throws Error{bad_input} where it cannot be read.
TextFile looked_at(const std::string& path);
/// Are length and times the same? Then the text is, as far as a file system can tell.
bool is_untouched(const TextFile& before, const TextFile& now);

/// A part of a text that comes from evenly spaced places of the files' concatenated text [0, end), in pieces of up to
/// `piece` bytes that begin and end with lines, `bytes` in all; all of it where it is no longer.
std::string sample_text(std::span<const TextFile> files, uint64_t end, uint64_t bytes, uint64_t piece = 1 << 20);

}  // namespace toy
