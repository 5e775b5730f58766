#include "talk/tool_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

extern char** environ;

namespace toy::talk {
namespace {

using nlohmann::ordered_json;

constexpr int kBetweenStops = 20;  // milliseconds

// A command in a group of processes of its own, whose output can be read. The input is a file: whether the command
// reads it or not, nobody waits.
class Process {
 public:
  Process(const std::string& command, const std::string& input) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
    const bool written = file && std::fwrite(input.data(), 1, input.size(), file.get()) == input.size() &&
                         std::fflush(file.get()) == 0 && ::lseek(::fileno(file.get()), 0, SEEK_SET) == 0;
    if (!written) failed("the input of");
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) failed("the output of");
    out_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ::fileno(file.get()), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t usual;
    sigemptyset(&usual);
    posix_spawnattr_setsigmask(&attributes, &usual);
    for (const int signal : {SIGINT, SIGPIPE, SIGTERM, SIGQUIT}) sigaddset(&usual, signal);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::string shell = "sh", option = "-c", line = command;
    char* words[] = {shell.data(), option.data(), line.data(), nullptr};
    const int error = ::posix_spawn(&id_, "/bin/sh", &actions, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (error == 0) return;
    ::close(out_);
    errno = error;
    failed("/bin/sh for");
  }
  ~Process() {
    end();
    ::close(out_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Adds what there is within some milliseconds. False: there will be no more.
  bool read(std::string& to) {
    pollfd waiting{.fd = out_, .events = POLLIN, .revents = 0};
    // What a command leaves in the background may keep its output open.
    if (::poll(&waiting, 1, kBetweenStops) <= 0) {
      const bool ended_before = ended_;
      has_ended();
      return !ended_before;
    }
    char bytes[4096];
    const ssize_t n = ::read(out_, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) return true;
    if (n > 0) to.append(bytes, size_t(n));
    return n > 0;
  }
  bool has_ended() {
    if (!ended_ && ::waitpid(id_, &status_, WNOHANG) == id_) ended_ = true;
    return ended_;
  }
  void wait() const { ::poll(nullptr, 0, kBetweenStops); }
  void end() {
    if (ended_) return;
    ::kill(-id_, SIGKILL);
    while (::waitpid(id_, &status_, 0) < 0 && errno == EINTR) {
    }
    ended_ = true;
  }
  // Why it is a failure, or "".
  std::string failure() const {
    if (WIFSIGNALED(status_)) return fmt::format("the command was ended by signal {}", WTERMSIG(status_));
    return WEXITSTATUS(status_) == 0 ? "" : fmt::format("the command ended with exit code {}", WEXITSTATUS(status_));
  }

 private:
  [[noreturn]] static void failed(const char* what) {
    throw Error(ErrorCode::failure,
                fmt::format("--tool-command: cannot make {} the command: {}", what, std::strerror(errno)));
  }

  pid_t id_ = 0;
  int out_ = -1, status_ = 0;
  bool ended_ = false;
};

}  // namespace

std::optional<std::string> run_tool_command(const std::string& command, const ordered_json& function,
                                            const std::function<bool()>& stop) {
  Process process(
      command, json_text(ordered_json{{"name", function.at("name")}, {"arguments", function.at("arguments")}}) + "\n");
  std::string result;
  bool more = true;
  while (more && result.size() <= kMostResultBytes) {
    more = process.read(result);
    if (stop()) return std::nullopt;
  }
  const bool is_cut = result.size() > kMostResultBytes;
  if (is_cut) process.end();
  for (; !process.has_ended(); process.wait())
    if (stop()) return std::nullopt;
  if (is_cut) {
    result.resize(kMostResultBytes);
    while (!result.empty() && (static_cast<unsigned char>(result.back()) & 0xc0) == 0x80) result.pop_back();
    if (!result.empty() && static_cast<unsigned char>(result.back()) >= 0x80) result.pop_back();
    result += fmt::format("\n[the rest is left out: more than {} bytes]", kMostResultBytes);
  } else if (result.ends_with('\n')) {
    result.pop_back();
  }
  result = valid_utf8(result);
  const std::string failure = is_cut ? "" : process.failure();
  if (failure.empty()) return result;
  return "Error: " + failure + (result.empty() ? "" : ": " + result);
}

}  // namespace toy::talk
