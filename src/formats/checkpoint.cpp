#include "toy/formats/checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "toy/base/atomic_file.h"
#include "toy/base/checksum.h"
#include "toy/base/error.h"

namespace toy {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest";
constexpr const char* kFormat = "toy checkpoint 1";
constexpr std::string_view kPrefix = "step_";
constexpr size_t kMaxManifest = size_t(1) << 20;

std::string name_of_step(int64_t step) { return fmt::format("{}{:06}", kPrefix, step); }
// Neither a reader nor checkpoint_steps() takes this for a checkpoint; clean_checkpoints() removes it.
std::string temporary_of(const std::string& root, int64_t step) {
  return fmt::format("{}/.{}.tmp", root, name_of_step(step));
}
std::string temporary_of(const std::string& root, const std::string& name) {
  return fmt::format("{}/.{}{}.tmp", root, kPrefix, name);
}
bool is_temporary(const std::string& name) { return name.starts_with(".step_") && name.ends_with(".tmp"); }

[[noreturn]] void fail_errno(const std::string& what, const std::string& path, int error) {
  if (error == ENOSPC || error == EDQUOT)
    fail_disk_full("{} {}: {}; free some space there", what, path, std::strerror(error));
  if (error == EACCES || error == EPERM || error == EROFS || error == ENOTDIR)
    fail("{} {}: {}; choose another folder or change its permissions", what, path, std::strerror(error));
  fail_internal("{} {}: {}", what, path, std::strerror(error));
}

// True if it is new.
bool make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return true;
  struct stat st = {};
  if (errno == EEXIST && ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) return false;
  fail_errno("cannot make the folder", path, errno == EEXIST ? ENOTDIR : errno);
}

void rename_or_fail(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_errno("cannot rename " + from + " to", to, errno);
}

// Lines `<file> <bytes> <checksum>` between the format's name and the checksum of all that.
std::string manifest_text(const std::string& folder, std::vector<std::string> files) {
  std::sort(files.begin(), files.end());
  std::string text = fmt::format("{}\n", kFormat);
  for (const std::string& f : files) {
    uint64_t bytes = 0;
    const uint64_t sum = xxh64_of_file(folder + "/" + f, bytes);
    text += fmt::format("{} {} {}\n", f, bytes, checksum_text(sum));
  }
  return text + "xxh64 " + checksum_text(xxh64(text)) + "\n";
}

struct Listed {
  std::string file, bytes, sum;
};

// "" and the list, or what is wrong with it.
std::string read_manifest(const std::string& folder, std::vector<Listed>& list) {
  const std::string path = folder + "/" + kManifest;
  std::string text;
  {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error) return "it has no manifest";
    if (size > kMaxManifest) return "its manifest is too long";
    FILE* f = std::fopen(path.c_str(), "rb");
    if (!f) return fmt::format("its manifest cannot be read: {}", std::strerror(errno));
    text.resize(size_t(size) + 1);
    text.resize(std::fread(text.data(), 1, text.size(), f));
    std::fclose(f);
  }
  const size_t last = text.rfind("xxh64 ");
  if (last == std::string::npos || text.substr(last) != "xxh64 " + checksum_text(xxh64(text.substr(0, last))) + "\n")
    return "its manifest is damaged (checksum)";
  std::istringstream lines(text.substr(0, last));
  std::string line;
  std::getline(lines, line);
  if (line != kFormat) return fmt::format("its format is '{}', this version of toy knows '{}'", line, kFormat);
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    Listed l;
    if (!(words >> l.file >> l.bytes >> l.sum)) return fmt::format("its manifest has the line '{}'", line);
    list.push_back(l);
  }
  return "";
}

// What a manifest holds; "" if there is none.
std::string manifest_of(const std::string& folder) {
  std::ifstream file(folder + "/" + kManifest, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The manifest has the checksums of all files.
bool is_copy_of(const std::string& folder, const std::string& checkpoint) {
  const std::string manifest = manifest_of(folder);
  return !manifest.empty() && manifest == manifest_of(checkpoint);
}

// A copy of a checkpoint, where the file system has no links. Nobody resumes from it, so it is not fsynced.
void copy_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::copy(from, to, error);
  if (!error) return;
  const int reason = error.value();
  fs::remove_all(to, error);
  fail_errno("cannot copy the checkpoint to", to, reason);
}

}  // namespace

std::string checkpoint_path(const std::string& root, int64_t step) { return root + "/" + name_of_step(step); }

CheckpointWriter::CheckpointWriter(const std::string& root, int64_t step)
    : root_(root), temporary_(temporary_of(root, step)), step_(step) {
  if (make_folder(root_)) sync_folder(fs::path(root_).parent_path().string(), root_);
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
  make_folder(temporary_);
}

CheckpointWriter::~CheckpointWriter() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

std::string CheckpointWriter::path(const std::string& file) {
  files_.push_back(file);
  return temporary_ + "/" + file;
}

std::string CheckpointWriter::commit() {
  AtomicFile manifest(temporary_ + "/" + kManifest);
  manifest.write(manifest_text(temporary_, files_));
  manifest.commit();
  sync_folder(temporary_, temporary_);
  const std::string target = checkpoint_path(root_, step_);
  // A rename cannot replace a folder that is not empty.
  if (fs::exists(target)) set_checkpoint_aside(root_, step_);
  rename_or_fail(temporary_, target);
  temporary_.clear();
  sync_folder(root_, target);
  return target;
}

std::vector<int64_t> checkpoint_steps(const std::string& root) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    int64_t step = 0;
    const char* last = name.data() + name.size();
    const auto [stop, bad] = std::from_chars(name.data() + kPrefix.size(), last, step);
    if (bad == std::errc() && stop == last && step >= 0 && name == name_of_step(step)) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string checkpoint_damage(const std::string& root, int64_t step) {
  const std::string folder = checkpoint_path(root, step);
  std::vector<Listed> list;
  if (std::string wrong = read_manifest(folder, list); !wrong.empty()) return wrong;
  for (const Listed& l : list) {
    std::error_code error;
    const std::string path = folder + "/" + l.file;
    const auto size = fs::file_size(path, error);
    if (error) return fmt::format("{} is missing or cannot be read: {}", l.file, error.message());
    if (std::to_string(size) != l.bytes) return fmt::format("{} has {} bytes instead of {}", l.file, size, l.bytes);
    uint64_t bytes = 0;
    try {
      if (checksum_text(xxh64_of_file(path, bytes)) != l.sum) return fmt::format("{} is damaged (checksum)", l.file);
    } catch (const Error& e) {
      return e.what();
    }
  }
  return "";
}

void remove_checkpoint(const std::string& root, int64_t step) {
  const std::string gone = temporary_of(root, step);
  std::error_code ignored;
  fs::remove_all(gone, ignored);
  if (::rename(checkpoint_path(root, step).c_str(), gone.c_str()) == 0) fs::remove_all(gone, ignored);
}

std::string set_checkpoint_aside(const std::string& root, int64_t step) {
  const std::string aside = root + "/damaged_" + name_of_step(step);
  std::error_code ignored;
  fs::remove_all(aside, ignored);
  rename_or_fail(checkpoint_path(root, step), aside);
  return aside;
}

void clean_checkpoints(const std::string& root) {
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error))
    if (is_temporary(it->path().filename().string())) left.push_back(it->path());
  for (const fs::path& p : left) fs::remove_all(p, error);
}

void link_checkpoint(const std::string& root, const std::string& name, int64_t step) {
  const std::string link = root + "/" + name, target = name_of_step(step), temporary = temporary_of(root, name);
  std::error_code error;
  const bool is_link = fs::is_symlink(link, error), is_copy = !is_link && fs::is_directory(link, error);
  if (is_link && fs::read_symlink(link, error) == target) return;
  if (is_copy && is_copy_of(link, root + "/" + target)) return;
  require_link_place(root, name);
  fs::remove_all(temporary, error);
  if (::symlink(target.c_str(), temporary.c_str()) != 0) {
    if (errno == ENOSPC || errno == EDQUOT) fail_errno("cannot make the link", link, errno);
    copy_folder(root + "/" + target, temporary);
  }
  if (is_copy) {  // a rename replaces no folder that holds something
    const std::string old = temporary_of(root, name + "_old");
    fs::remove_all(old, error);
    rename_or_fail(link, old);
  }
  rename_or_fail(temporary, link);
  sync_folder(root, link);
  if (is_copy) fs::remove_all(temporary_of(root, name + "_old"), error);
}

void require_link_place(const std::string& root, const std::string& name) {
  const std::string link = root + "/" + name;
  std::error_code error;
  const fs::file_type type = fs::symlink_status(link, error).type();
  if (type == fs::file_type::not_found || type == fs::file_type::symlink) return;
  check(type == fs::file_type::directory && manifest_of(link).starts_with(fmt::format("{}\n", kFormat)),
        "'{}' is not a checkpoint, and a link to one has to be made there; move it away", link);
}

}  // namespace toy
