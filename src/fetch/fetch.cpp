#include "fetch/fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>

#include "fetch/digest.h"
#include "fetch/http.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/hub_address.h"
#include "toy/base/memory.h"

namespace toy::fetch {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 4;  // without progress
// Of one file, whatever each brings: a server may give little each time, or have it begin again and again.
constexpr int kMostAnswers = 1000;

bool is_name(const std::string& text) {
  return !text.empty() && text[0] != '.' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == text.npos;
}

// Names with '/' between them, such as refs/pr/1.
bool is_revision(const std::string& text) {
  const size_t slash = text.find('/');
  return is_name(text.substr(0, slash)) && (slash == text.npos || is_revision(text.substr(slash + 1)));
}

void check_access(long status, const std::string& what) {
  check(status != 401 && status != 403,
        "{}: the server denies access (status {}); check the name, and set HF_TOKEN if the repository is private or "
        "asks for an agreement",
        what, status);
  check(status != 404, "{}: the server has no such repository, revision or file", what);
  check(status >= 200 && status < 300, "{}: the server answers with status {}", what, status);
}

// A file that is being downloaded, for one process at a time.
class Partial {
 public:
  explicit Partial(std::string path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    check(fd_ >= 0, "{}: cannot be written: {}", path_, std::generic_category().message(errno));
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::close(fd_);
    fail("{}: another process is downloading this file", path_);
  }
  ~Partial() { ::close(fd_); }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  uint64_t bytes() const {
    struct stat s = {};
    return ::fstat(fd_, &s) == 0 ? uint64_t(s.st_size) : 0;
  }
  void clear() const {
    if (::ftruncate(fd_, 0) != 0) fail_write();
  }
  void append(std::span<const std::byte> bytes) const {
    ::lseek(fd_, 0, SEEK_END);
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno != EINTR) fail_write();
      if (n > 0) bytes = bytes.subspan(size_t(n));
    }
  }
  void read_into(Digest& digest) const {
    std::vector<std::byte> chunk(size_t(1) << 20);
    ::lseek(fd_, 0, SEEK_SET);
    for (ssize_t n = 0; (n = ::read(fd_, chunk.data(), chunk.size())) != 0;) {
      check(n > 0 || errno == EINTR, "{}: cannot be read: {}", path_, std::generic_category().message(errno));
      if (n > 0) digest.update(std::span(chunk).first(size_t(n)));
    }
  }
  void remove() const { ::unlink(path_.c_str()); }
  void become(const std::string& path) const {
    if (::fsync(fd_) != 0 || ::rename(path_.c_str(), path.c_str()) != 0) fail_write();
    sync_folder(fs::path(path).parent_path().string(), path);
  }

 private:
  [[noreturn]] void fail_write() const {
    const int error = errno;
    if (error == ENOSPC || error == EDQUOT) fail_disk_full("{}; free some space and run the command again", path_);
    fail("{}: cannot be written: {}", path_, std::generic_category().message(error));
  }
  std::string path_;
  int fd_;
};

class Fetch {
 public:
  explicit Fetch(const FetchOptions& o) : o_(o), http_(o.token, o.stop) {
    if (const std::string command = fetch_of_address(o.repo); !command.empty())
      fail("'{}' is an address; write {}", o.repo, command);
    check(o.endpoint.starts_with("http"), "HF_ENDPOINT is '{}'; write it with http:// or https://", o.endpoint);
    const size_t slash = o.repo.find('/');
    check(slash != o.repo.npos && is_name(o.repo.substr(0, slash)) && is_name(o.repo.substr(slash + 1)),
          "'{}' is not the name of a repository; use OWNER/REPO, as on huggingface.co, such as "
          "HuggingFaceTB/SmolLM2-135M-Instruct{}",
          o.repo, slash == o.repo.npos ? ", or `ollama pull`, whose models `toy list` finds" : "");
    check(is_revision(o.revision), "--revision is '{}'; use a branch, a tag or a commit", o.revision);
    folder_ = fs::path(o.cache) / fmt::format("models--{}--{}", o.repo.substr(0, slash), o.repo.substr(slash + 1));
    while (!endpoint().empty() && endpoint().back() == '/') o_.endpoint.pop_back();
  }

  std::vector<Fetched> run() {
    const Repo repo = read_repo();
    const std::vector<RepoFile> files = choose_files(repo, o_.file, o_.repo);
    uint64_t missing = 0;
    for (const RepoFile& f : files) {
      constexpr uint64_t kMost = uint64_t(1) << 60;  // of all, so that their sum is right
      check(f.bytes <= kMost - total_, "{}: the server says that its files have more than {}", o_.repo,
            format_bytes(kMost));
      total_ += f.bytes, missing += is_there(f) ? 0 : f.bytes;
    }
    std::error_code error;
    fs::create_directories(folder_ / "blobs", error);
    check(!error, "{}: cannot be made: {}", (folder_ / "blobs").string(), error.message());
    const fs::space_info space = fs::space(folder_, error);
    check(bool(error) || space.available >= missing, "{}: {} has room for {}, and the files are {}; free some space",
          o_.repo, folder_.string(), format_bytes(space.available), format_bytes(missing));
    std::vector<Fetched> all;
    for (const RepoFile& f : files) {
      const bool was_there = is_there(f);
      if (!was_there) download(f, repo.commit);
      done_ += f.bytes;
      report(0);
      all.push_back({f, link(f, repo.commit), was_there});
    }
    const fs::path at = folder_ / "refs" / o_.revision;
    fs::create_directories(at.parent_path());
    AtomicFile ref(at.string());
    ref.write(repo.commit);
    ref.commit();
    return all;
  }

 private:
  const std::string& endpoint() const { return o_.endpoint; }
  fs::path blob(const RepoFile& f) const { return folder_ / "blobs" / f.sum; }
  bool is_there(const RepoFile& f) const {
    std::error_code error;
    return fs::file_size(blob(f), error) == f.bytes && !error;
  }
  void report(uint64_t of_file) const {
    if (o_.progress) o_.progress(done_ + of_file, total_);
  }

  // Waits longer each time. `tries` counts those without progress.
  void wait_after(const Transient& e, int tries) const {
    if (dynamic_cast<const NoAddress*>(&e)) throw NoAddress(e.what());
    if (tries >= kTries) throw Transient(fmt::format("{}; run the command again to resume", e.what()));
    if (o_.retrying) o_.retrying(e.what());
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(o_.retry_seconds * double(1 << (tries - 1)));
    while (std::chrono::steady_clock::now() < until) {
      if (o_.stop && o_.stop()) throw Stopped();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  Repo read_repo() {
    std::string revision = o_.revision;
    for (size_t at; (at = revision.find('/')) != revision.npos;) revision.replace(at, 1, "%2F");
    const std::string url = fmt::format("{}/api/models/{}/revision/{}?blobs=true", endpoint(), o_.repo, revision);
    for (int tries = 1;; ++tries) try {
        std::string text;
        check_access(http_.get_text(url, text).status, o_.repo);
        return parse_repo(text, url);
      } catch (const Transient& e) {
        wait_after(e, tries);
      }
  }

  void download(const RepoFile& f, const std::string& commit) {
    const std::string url = fmt::format("{}/{}/resolve/{}/{}", endpoint(), o_.repo, commit, url_path(f.path));
    const Partial partial(blob(f).string() + ".incomplete");
    if (partial.bytes() > f.bytes) partial.clear();
    std::optional<Digest> digest;
    const auto begin = [&] {
      digest.emplace(f.large ? Digest::sha256 : Digest::git_blob, f.bytes);
      partial.read_into(*digest);
      return partial.bytes();
    };
    uint64_t have = begin(), most = have;  // bytes; more than there were before is progress
    int answers = 0;
    for (int tries = 1; have < f.bytes;) {
      check(++answers <= kMostAnswers,
            "{}: the file is not complete after {} answers of the server; run the command "
            "again to resume",
            f.path, kMostAnswers);
      bool first = true;
      try {
        const Answer a = http_.get(url, have, [&](const Answer& answer, std::span<const std::byte> bytes) {
          if (answer.status == 429 || answer.status >= 500 || answer.status == 416) return;  // get(), and below
          check_access(answer.status, f.path);
          if (first) {
            check(!answer.content_type.starts_with("text/html") || f.path.ends_with(".html"),
                  "{}: the server answers with a web page instead of the file; is HF_ENDPOINT right?", f.path);
            if (have > 0 && (answer.status != 206 || answer.range_begin != int64_t(have))) {  // all from the beginning
              check(answer.status != 206, "{}: the server sends another part of the file than was asked for", f.path);
              partial.clear();
              have = begin();
            }
          }
          first = false;
          if (have + bytes.size() > f.bytes) {
            partial.remove();
            fail("{}: the server sends more than the {} bytes that the file has", f.path, f.bytes);
          }
          partial.append(bytes);
          digest->update(bytes);
          report(have += bytes.size());
        });
        if (a.status == 416) partial.clear(), have = begin();
        if (have < f.bytes)
          throw Transient(fmt::format("{}: the answer ends after {} of {} bytes", url, have, f.bytes));
      } catch (const Transient& e) {
        if (have > most) tries = 1, most = have;
        wait_after(e, tries++);
      }
    }
    const std::string sum = digest->hex();
    if (sum != f.sum) {
      partial.remove();
      fail("{}: the download has the checksum {} instead of {} and was removed; run the command again", f.path, sum,
           f.sum);
    }
    partial.become(blob(f).string());
  }

  std::string link(const RepoFile& f, const std::string& commit) const {
    const fs::path at = folder_ / "snapshots" / commit / f.path;
    fs::create_directories(at.parent_path());
    const fs::path target = fs::path(blob(f)).lexically_relative(at.parent_path());
    std::error_code error;
    if (fs::read_symlink(at, error) == target) return at.string();
    fs::remove(at, error);
    fs::create_symlink(target, at);
    return at.string();
  }

  FetchOptions o_;
  Http http_;
  fs::path folder_;
  uint64_t total_ = 0, done_ = 0;
};

}  // namespace

std::vector<Fetched> fetch(const FetchOptions& options) {
  try {
    return Fetch(options).run();
  } catch (const Transient& e) {  // nothing that the caller has to correct
    fail_internal("{}", e.what());
  }
}

}  // namespace toy::fetch
