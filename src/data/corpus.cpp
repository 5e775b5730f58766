#include "toy/data/corpus.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "data/permute.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"

namespace toy {
namespace {

// Closes a file on every way out.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail_reading(const std::string& path, int error) {
  check(!path.empty(), "the name of the file is empty; give a path");
  if (error == ENOENT) fail("{}: no such file", path);
  if (error == EACCES) fail("{}: no permission to read it", path);
  if (error == EISDIR) fail("{}: is a folder; a text file is needed", path);
  fail("{}: cannot be read: {}", path, std::generic_category().message(error));
}

// The rest of a file, whose size may not be known before (a pipe).
std::string read_all(int fd, const std::string& name, size_t memory) {
  std::string text;
  struct stat status;
  if (::fstat(fd, &status) != 0) fail_reading(name, errno);
  constexpr size_t kChunk = size_t(1) << 20;
  const auto reserve = [&](size_t bytes) {
    require_below(memory, bytes, "reading " + name, "name a file, which is read in pieces");
    text.reserve(bytes);
  };
  if (S_ISREG(status.st_mode)) reserve(size_t(status.st_size) + kChunk);
  for (;;) {
    const size_t size = text.size();
    if (size + kChunk > text.capacity()) reserve(2 * text.capacity() + kChunk);
    text.resize(size + kChunk);
    const ssize_t got = ::read(fd, text.data() + size, kChunk);
    const int error = errno;
    text.resize(size + (got > 0 ? size_t(got) : 0));
    if (got == 0) break;
    if (got < 0 && error != EINTR) fail_reading(name, error);
  }
  return text;
}

}  // namespace

std::string read_text_file(const std::string& path, bool may_be_empty, size_t memory) {
  const OpenFile file(path);
  if (file.fd() < 0) fail_reading(path, errno);
  struct stat status;  // a device may have no end
  check(::fstat(file.fd(), &status) != 0 || !(S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)),
        "{}: is a device; a text file or a pipe is needed", path);
  std::string text = read_all(file.fd(), path, memory);
  check(may_be_empty || !text.empty(), "{}: the file is empty; a text is needed", path);
  return text;
}

std::string read_standard_input(bool may_be_empty, size_t memory) {
  std::string text = read_all(STDIN_FILENO, "standard input", memory);
  check(may_be_empty || !text.empty(), "standard input: it is empty; a text is needed");
  return text;
}

WindowSampler::WindowSampler(TokenView ids, int64_t batch, int64_t tokens, uint64_t seed)
    : ids_(ids), batch_(batch), tokens_(tokens), per_epoch_(0), seed_(seed) {
  check(batch >= 1, "window sampler: a batch of {} windows; give 1 or more", batch);
  check(tokens >= 1, "window sampler: windows of {} tokens; give 1 or more", tokens);
  const int64_t count = int64_t(ids.size());
  check(count > tokens,
        "the text is too short: it has {} tokens, and a window of {} tokens and their next ones needs {}; "
        "give a "
        "longer text or shorter windows",
        count, tokens, tokens + 1);
  // As many as fit whatever the start in [0, tokens) is; a text of less than two windows has room for fewer
  // starts.
  per_epoch_ = std::max<int64_t>(1, (count - tokens) / tokens);
}

Windows WindowSampler::batch(int64_t step) const {
  check(step >= 0, "window sampler: step {}; steps are counted from 0", step);
  return windows(step * batch_, batch_);
}

Windows WindowSampler::windows(int64_t first_window, int64_t count) const {
  check(first_window >= 0, "window sampler: window {}; windows are counted from 0", first_window);
  const Philox starts(seed_, "epoch start");
  const uint64_t key = hash_name("epoch order") ^ seed_;
  const int64_t room = std::min(tokens_, int64_t(ids_.size()) - per_epoch_ * tokens_);
  Windows out;
  out.inputs.reserve(size_t(count * tokens_));
  out.targets.reserve(size_t(count * tokens_));
  for (int64_t window = first_window; window < first_window + count; ++window) {
    const int64_t epoch = window / per_epoch_;
    const int64_t start = int64_t(starts.below(uint64_t(epoch), uint64_t(room)));
    const int64_t place = int64_t(permute(uint64_t(window % per_epoch_), uint64_t(per_epoch_), key, uint64_t(epoch)));
    const int64_t first = start + place * tokens_;
    ids_.copy(first, tokens_, out.inputs);
    ids_.copy(first + 1, tokens_, out.targets);
  }
  return out;
}

std::vector<EvalWindow> eval_windows(int64_t ids, int64_t tokens, int64_t stride) {
  if (stride == 0) stride = tokens;
  check(tokens >= 1, "evaluation windows of {} tokens; give 1 or more", tokens);
  check(stride >= 1 && stride <= tokens, "evaluation stride {}; give 1 to {}, the window", stride, tokens);
  std::vector<EvalWindow> windows;
  for (int64_t begin = 0, counted = 0; counted + 1 < ids; begin += stride) {
    const int64_t length = std::min(tokens, ids - 1 - begin);
    windows.push_back({begin, length, counted - begin});
    counted = begin + length;
  }
  return windows;
}

}  // namespace toy
