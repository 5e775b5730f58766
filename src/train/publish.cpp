#include "train/publish.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/run_files.h"
#include "toy/models/adapter.h"
#include "toy/tensor/convert.h"
#include "train/checkpoints.h"

namespace toy {
namespace {

[[noreturn]] void fail_link(const std::string& link, int error) {
  if (error == ENOSPC || error == EDQUOT)
    fail_disk_full("{}: {}; the model is written, this second name of it is not; free some space and --resume", link,
                   std::strerror(error));
  fail("{}: cannot be made: {}; the model is written, this second name of it is not", link, std::strerror(error));
}

// With its parents; each is sure to be found after a loss of power.
void make_durable_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) || folder.empty()) return;
  const std::filesystem::path path = folder.has_filename() ? folder : folder.parent_path();
  make_durable_folder(path.parent_path());
  std::filesystem::create_directory(path, error);
  check(!error, "out: cannot make the folder '{}': {}; choose another out", path.string(),
        error == std::errc::no_such_file_or_directory ? "no new folders are possible there" : error.message());
  sync_folder(path.has_parent_path() ? path.parent_path().string() : ".", path.string());
}

}  // namespace

std::string model_path(const std::string& out, bool adapter) {
  return (std::filesystem::path(out) / (adapter ? runs::kAdapterFile : runs::kModelFile)).string();
}
std::string average_path(const std::string& out, bool adapter) {
  return (std::filesystem::path(out) / (adapter ? runs::kAdapterAverageFile : runs::kAverageFile)).string();
}

void save_result(const Model& model, const std::string& path, const StoredAs& stored) {
  if (model.spec.adapters.empty()) return save_model(model, path, stored);
  save_adapter(model, model.spec.adapters.size() - 1, path, stored.plain);
}

void prepare_folder(const std::string& out, size_t needed) {
  std::error_code error;
  make_durable_folder(out);
  check(std::filesystem::is_directory(out), "out: '{}' is not a folder; name a new one, such as out/book", out);
  check(access(out.c_str(), W_OK | X_OK) == 0, "out: the folder '{}' is not writable", out);
  Checkpoints(out, 1).require_places();
  const std::string second = (std::filesystem::path(out) / runs::kSecondFolder).string();
  check(!std::filesystem::exists(second, error) || std::filesystem::is_directory(second, error),
        "out: '{}' is not a folder; a second name of the model is to be made there", second);
  for (const std::string& target : {model_path(out), average_path(out), model_path(out, true), average_path(out, true),
                                    (std::filesystem::path(out) / runs::kSecondName).string()})
    check(!std::filesystem::is_directory(target, error), "out: '{}' is a folder; the model is to be written there",
          target);
  const auto space = std::filesystem::space(out, error);
  check(error || space.available >= needed, "disk: '{}' has {} free, the model and its checkpoints need {}", out,
        format_bytes(space.available), format_bytes(needed));
}

std::optional<Weight> first_beyond(const Model& model, float limit, bool matrices_alone) {
  constexpr int64_t kPiece = 1 << 16;  // a copy of the largest tensor would be the peak of the run
  std::vector<float> piece(static_cast<size_t>(kPiece));
  for (const TensorSpec& t : trained_tensors(model.spec)) {
    if ((matrices_alone && t.shape.rank() < 2) || !model.params->has(t.name)) continue;  // adapters are made later
    const HostTensor weight = model.params->host(t.name);
    const View& v = weight.view();
    for (int64_t at = 0; at < v.count(); at += kPiece) {
      const int64_t n = std::min(kPiece, v.count() - at);
      auto* from = static_cast<std::byte*>(v.data) + size_t(at) * size_of(v.dtype);
      convert(View(from, v.dtype, {n}), View(piece.data(), DType::f32, {n}));
      for (int64_t i = 0; i < n; ++i)
        if (const float w = piece[size_t(i)]; !(std::fabs(w) <= limit)) return Weight{t.name, w};
    }
  }
  return std::nullopt;
}

std::string publish_model(const Model& model, const std::string& out, const StoredAs& stored) {
  const std::string path = model_path(out, !model.spec.adapters.empty());
  if (!model.spec.adapters.empty()) return save_result(model, path, stored), path;
  const std::filesystem::path second = std::filesystem::path(out) / runs::kSecondName;
  const std::string folder = second.parent_path().string(), link = second.string(),
                    temporary = folder + "/." + second.filename().string() + ".tmp";
  save_model(model, path, stored);
  std::error_code error;
  if (std::filesystem::create_directory(folder, error)) sync_folder(out, folder);
  if (error) fail_link(folder, error.value());
  ::unlink(temporary.c_str());
  const auto full = [] { return errno == ENOSPC || errno == EDQUOT; };
  if (::linkat(AT_FDCWD, path.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    const std::string relative = std::string("../") + runs::kModelFile;
    if (full()) fail_link(link, errno);
    if (::symlink(relative.c_str(), temporary.c_str()) != 0) {
      if (full()) fail_link(link, errno);
      save_model(model, link, stored);  // a file system without any links gets a second file
      return path;
    }
  }
  if (::rename(temporary.c_str(), link.c_str()) != 0) fail_link(link, errno);
  sync_folder(folder, link);
  return path;
}

}  // namespace toy
