#include "toy/data/text_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "toy/base/checksum.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/nearest.h"
#include "toy/base/run_files.h"
#include "toy/base/shell_word.h"
#include "toy/data/left_out.h"

namespace toy {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunk = size_t(1) << 20;
constexpr size_t kSniffed = 8192;
constexpr const char *kStandardInput = "-", *kPicture = "a picture";

[[noreturn]] void fail_reading(const std::string& path, int error) {
  check(!path.empty(), "the name of the file is empty; give a path");
  if (error == ENOENT) {
    const std::string why = no_such_file(path);
    const bool is_name = path.find_first_of("./") == path.npos && why.ends_with("check the path");  // of a data set
    fail("{}", is_name ? path + ": no such file; give a file or folder of this machine, as data sets are not downloaded"
                       : why);
  }
  if (error == EACCES) fail("{}: no permission to read it", path);
  if (error == EISDIR) fail("{}: is a folder; a text file is needed", path);
  fail("{}: cannot be read: {}", path, std::strerror(error));
}

// Closes a file on every way out.
struct OpenFile {
  explicit OpenFile(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd < 0) fail_reading(path, errno);
  }
  ~OpenFile() { ::close(fd); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  const int fd;
};

// The rest of a file, whose size may not be known before (a pipe).
std::string read_all(int fd, const std::string& name, size_t memory) {
  std::string text;
  struct stat status;
  if (::fstat(fd, &status) != 0) fail_reading(name, errno);
  const auto reserve = [&](size_t bytes) {
    require_below(memory, bytes, "reading " + name, "name a file, which is read in pieces");
    text.reserve(bytes);
  };
  if (S_ISREG(status.st_mode)) reserve(size_t(status.st_size) + kChunk);
  for (ssize_t got = -1; got != 0;) {
    const size_t size = text.size();
    if (size + kChunk > text.capacity()) reserve(2 * text.capacity() + kChunk);
    text.resize(size + kChunk);
    got = ::read(fd, text.data() + size, kChunk);
    const int error = errno;
    text.resize(size + size_t(std::max<ssize_t>(got, 0)));
    if (got < 0 && error != EINTR) fail_reading(name, error);
  }
  return text;
}

int64_t nanoseconds(const timespec& t) { return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec; }

TextFile described(const std::string& path, const struct stat& st) {
  return {path, uint64_t(st.st_size), nanoseconds(st.st_mtim), nanoseconds(st.st_ctim)};
}

// A PNG, JPEG, GIF, WebP, PGM or PPM file; not all of them have NUL bytes.
bool begins_as_picture(std::string_view text) {
  for (const std::string_view magic : {"\x89PNG", "\xff\xd8\xff", "GIF87a", "GIF89a"})
    if (text.starts_with(magic)) return true;
  if (text.starts_with("RIFF") && text.substr(0, 12).ends_with("WEBP")) return true;
  if (!text.starts_with("P5") && !text.starts_with("P6")) return false;
  text.remove_prefix(2);
  for (int numbers = 0; numbers < 3; ++numbers) {  // width, height, largest value
    const size_t begin = text.find_first_not_of(" \t\r\n"), end = text.find_first_not_of("0123456789", begin);
    if (begin == 0 || begin == text.npos || end == begin || end == text.npos) return false;
    text.remove_prefix(end);
  }
  return true;
}

std::string start_of(const std::string& path) {
  const OpenFile file(path);
  std::string start(kSniffed, '\0');
  const ssize_t got = ::read(file.fd, start.data(), start.size());
  if (got < 0) fail_reading(path, errno);
  start.resize(size_t(got));
  return start;
}

void require_text(const std::string& name, std::string_view start, BinaryFiles binary) {
  if (binary == BinaryFiles::taken || !is_binary(start)) return;
  fail("{}: {}{}", name, why_not_text(start),
       binary == BinaryFiles::offered ? ", or use --binary to train on its bytes" : "");
}

bool lies_below(const fs::path& path, const std::string& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

// What a run writes into its folder (docs/runs.md); all else there may be a text.
bool is_of_run(const fs::path& entry) {
  const std::string name = entry.filename().string();
  const bool named = name == runs::kConfigFile || name == runs::kFlowFile || name == runs::kCheckpointsFolder ||
                     name == runs::kSecondFolder || name == runs::kFinishedFile ||
                     (name.starts_with("events") && name.ends_with(".jsonl"));
  std::error_code error;
  return named && fs::exists(entry.parent_path() / runs::kEventsFile, error) &&
         fs::exists(entry.parent_path() / runs::kFlowFile, error);
}

// Why a file or folder is no text of the corpus; "" if it is one, or may have some.
std::string reason_against(const fs::path& path, bool is_folder, std::span<const std::string> except,
                           BinaryFiles binary) {
  if (path.filename().string().starts_with(".")) return "hidden";
  if (is_of_run(path)) return "written by a run";
  if (is_folder) return "";
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) return "a link that leads nowhere";
  if (S_ISDIR(st.st_mode)) return "a link to a folder";
  if (!S_ISREG(st.st_mode)) return "no regular file";
  if (st.st_size == 0) return "empty";
  for (const std::string& folder : except)
    if (!folder.empty() && lies_below(fs::weakly_canonical(path), folder)) return "written by toy itself";
  const std::string start = binary != BinaryFiles::taken ? start_of(path) : "";
  return begins_as_picture(start) ? kPicture : is_binary(start) ? "no text (it has NUL bytes)" : "";
}

void add_folder(const std::string& folder, std::span<const std::string> all_except, BinaryFiles binary,
                TextFiles& out) {
  // A folder that holds this one, or is it, does not empty it.
  std::vector<std::string> except(all_except.begin(), all_except.end());
  std::erase_if(except, [&](const std::string& e) { return lies_below(fs::weakly_canonical(folder), e); });
  std::error_code error;
  std::vector<std::string> paths;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const bool is_folder = it->is_directory(error) && !it->is_symlink(error);
    const std::string reason = reason_against(it->path(), is_folder, except, binary);
    if (!reason.empty())
      out.left_out.push_back({it->path().string(), reason});
    else if (!is_folder)
      paths.push_back(it->path().string());
    if (!reason.empty() && is_folder) it.disable_recursion_pending();
  }
  check(!error, "{}: the folder cannot be read: {}", folder, error.message());
  std::sort(paths.begin(), paths.end());
  std::sort(out.left_out.begin(), out.left_out.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  if (paths.empty() && !out.left_out.empty()) {
    const auto seen = std::ranges::find_if(out.left_out, [](const auto& l) { return l.reason != "hidden"; });
    const auto& shown = seen == out.left_out.end() ? out.left_out[0] : *seen;
    check(std::ranges::none_of(out.left_out, [](const auto& l) { return l.reason == kPicture; }),
          "{}: there are pictures and no text in this folder; toy train vit --data {} learns from pictures", folder,
          shell_quoted(folder));
    fail("{}: there is no text in this folder; {} left out, as {} ({})", folder,
         counted(int64_t(out.left_out.size()), "file was", "files were"), shown.path, shown.reason);
  }
  check(!paths.empty(), "{}: the folder is empty; a text is needed", folder);
  for (const std::string& path : paths) out.files.push_back(looked_at(path));
}

// A pipe, which has its text only once.
TextFile taken_whole(const std::string& path, size_t memory) {
  auto text = std::make_shared<const std::string>(path == kStandardInput ? read_standard_input(false, memory)
                                                                         : read_text_file(path, false, memory));
  const uint64_t bytes = text->size();
  return {path, bytes, 0, 0, std::move(text)};
}

}  // namespace

std::string read_text_file(const std::string& path, bool may_be_empty, size_t memory) {
  const OpenFile file(path);
  struct stat status;  // a device may have no end
  check(::fstat(file.fd, &status) != 0 || !(S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)),
        "{}: is a device; a text file or a pipe is needed", path);
  std::string text = read_all(file.fd, path, memory);
  check(may_be_empty || !text.empty(), "{}: the file is empty; give one with a text or with rows", path);
  return text;
}

std::string read_standard_input(bool may_be_empty, size_t memory) {
  std::string text = read_all(STDIN_FILENO, "standard input", memory);
  check(may_be_empty || !text.empty(), "standard input: it is empty; a text is needed");
  return text;
}

uint64_t bytes_of(std::span<const TextFile> files) {
  uint64_t sum = 0;
  for (const TextFile& f : files) sum += f.bytes;
  return sum;
}

TextFile looked_at(const std::string& path) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) fail_reading(path, errno);
  return described(path, st);
}

bool is_utf16(std::string_view text) { return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"); }

bool is_binary(std::string_view text) {
  return text.substr(0, kSniffed).find('\0') != text.npos || begins_as_picture(text);
}

bool is_untouched(const TextFile& before, const TextFile& now) {
  return before.bytes == now.bytes && before.modified == now.modified && before.changed == now.changed;
}

const char* why_not_text(std::string_view start) {
  using namespace std::string_view_literals;
  for (const std::string_view part : {"[Content_Types].xml"sv, "_rels/.rels"sv, "mimetypeapplication/"sv})
    if (start.starts_with("PK\x03\x04") && start.substr(0, 256).find(part) != start.npos)
      return "it is a document of an office program; save it as plain text first";
  for (const std::string_view magic : {"\x1f\x8b"sv, "\x28\xb5\x2f\xfd"sv,
                                       "\xfd"
                                       "7zXZ\0"sv,
                                       "BZh"sv, "PK\x03\x04"sv})
    if (start.starts_with(magic)) return "it is compressed; decompress it first";
  if (start.starts_with("PAR1"))
    return "it is a Parquet file; write its rows as JSON Lines (pandas.read_parquet(PATH).to_json('rows.jsonl', "
           "orient='records', lines=True))";
  if (begins_as_picture(start)) return "it is a picture; toy train vit learns from folders of pictures";
  if (start.starts_with("%PDF")) return "it is a PDF; write its text to a file first, such as with pdftotext";
  if (start.starts_with("GGUF")) return "it is a model; give a text";
  if (is_utf16(start)) return "it is UTF-16; convert it first: iconv -f utf-16 -t utf-8 OLD > NEW";
  return "not a text, for it has NUL bytes; convert it to UTF-8";
}

TextFiles list_text_files(std::span<const std::string> paths, std::span<const std::string> except, BinaryFiles binary,
                          size_t memory) {
  TextFiles out;
  for (const std::string& path : paths) {
    const bool standard_input = path == kStandardInput;
    struct stat st {};
    if (!standard_input && ::stat(path.c_str(), &st) != 0) fail_reading(path, errno);
    if (S_ISDIR(st.st_mode)) {
      add_folder(path, except, binary, out);
    } else if (S_ISREG(st.st_mode)) {
      check(st.st_size > 0, "{}: the file is empty; give one with a text or with rows", path);
      require_text(path, start_of(path), binary);
      out.files.push_back(described(path, st));
    } else {
      const TextFile& all = out.files.emplace_back(taken_whole(path, memory));
      require_text(standard_input ? "standard input" : path, *all.text, binary);
    }
  }
  return out;
}

std::string left_out_note(const std::string& name, const TextFiles& files) {
  constexpr size_t kShown = 5;
  const auto& left = files.left_out;
  if (left.empty()) return {};
  std::string note =
      fmt::format("{}: {} taken; left out: ", name, counted(int64_t(files.files.size()), "file is", "files are"));
  for (size_t i = 0; i < std::min(left.size(), kShown); ++i)
    note += fmt::format("{}{} ({})", i > 0 ? ", " : "", left[i].path, left[i].reason);
  if (left.size() > kShown) note += fmt::format(", and {} more", left.size() - kShown);
  return note;
}

void read_text(const TextFile& file, uint64_t begin, uint64_t end, const std::function<bool(std::string_view)>& take) {
  if (file.text) {
    for (uint64_t at = begin; at < end; at += kChunk)
      if (!take(std::string_view(*file.text).substr(at, std::min<uint64_t>(kChunk, end - at)))) return;
    return;
  }
  const OpenFile in(file.path);
  std::string buffer(size_t(std::min<uint64_t>(kChunk, end - begin)), '\0');
  for (uint64_t at = begin; at < end;) {
    const ssize_t got = ::pread(in.fd, buffer.data(), size_t(std::min<uint64_t>(buffer.size(), end - at)), off_t(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_reading(file.path, errno);
    check(got > 0, "{}: the file has become shorter while it was read: {} bytes instead of {}", file.path, at,
          file.bytes);
    if (!take(std::string_view(buffer.data(), size_t(got)))) return;
    at += uint64_t(got);
  }
}

uint64_t hash_of(const TextFile& file) {
  Xxh64 sum;
  read_text(file, 0, file.bytes, [&](std::string_view part) {
    sum.update(std::as_bytes(std::span(part)));
    return true;
  });
  return sum.digest();
}

std::string sample_text(std::span<const TextFile> files, uint64_t end, uint64_t bytes, uint64_t piece) {
  std::string text;
  // Bytes [begin, stop) of the concatenated text.
  const auto append = [&](uint64_t begin, uint64_t stop) {
    uint64_t first = 0;
    for (const TextFile& f : files) {
      const uint64_t from = std::max(begin, first), to = std::min(stop, first + f.bytes);
      if (from < to)
        read_text(f, from - first, to - first, [&](std::string_view part) {
          text += part;
          return true;
        });
      first += f.bytes;
    }
  };
  if (end <= bytes) {
    text.reserve(size_t(end));
    append(0, end);
    return text;
  }
  const uint64_t pieces = std::max<uint64_t>(1, bytes / piece), length = std::min(piece, bytes);
  for (uint64_t i = 0; i < pieces; ++i) {
    const uint64_t begin = pieces == 1 ? 0 : (end - length) / (pieces - 1) * i;
    const size_t at = text.size();
    append(begin, begin + length);
    const size_t last = text.rfind('\n'), first = text.find('\n', at);
    if (first >= last || last == std::string::npos) continue;  // no whole line
    text.resize(last + 1);
    if (begin > 0) text.erase(at, first + 1 - at);
  }
  return text;
}

}  // namespace toy
