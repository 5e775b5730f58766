#include "train/publish.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "toy/base/atomic_file.h"
#include "toy/base/error.h"

namespace toy {
namespace {

constexpr const char *kModelFile = "model.gguf", *kAverageFile = "model-ema.gguf";

[[noreturn]] void fail_link(const std::string& link, int error) {
  if (error == ENOSPC || error == EDQUOT)
    fail_disk_full("{}: {}; the model is written, this second name of it is not; free some space and --resume", link,
                   std::strerror(error));
  fail("{}: cannot be made: {}; the model is written, this second name of it is not", link, std::strerror(error));
}

}  // namespace

std::string model_path(const std::string& out) { return (std::filesystem::path(out) / kModelFile).string(); }
std::string average_path(const std::string& out) { return (std::filesystem::path(out) / kAverageFile).string(); }

std::string publish_model(const Model& model, const std::string& out, DType stored) {
  const std::string path = model_path(out), folder = (std::filesystem::path(out) / "weights").string(),
                    link = folder + "/latest.gguf", temporary = folder + "/.latest.gguf.tmp";
  save_model(model, path, stored);
  std::error_code error;
  if (std::filesystem::create_directory(folder, error)) sync_folder(out, folder);
  if (error) fail_link(folder, error.value());
  ::unlink(temporary.c_str());
  if (::linkat(AT_FDCWD, path.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    const std::string relative = std::string("../") + kModelFile;
    if (errno == ENOSPC || errno == EDQUOT || ::symlink(relative.c_str(), temporary.c_str()) != 0)
      fail_link(link, errno);
  }
  if (::rename(temporary.c_str(), link.c_str()) != 0) fail_link(link, errno);
  sync_folder(folder, link);
  return path;
}

}  // namespace toy
